"""``polycal check``: whether the rows of a file are like the calibration rows."""

from __future__ import annotations

from typing import Any

from ..monitoring import BatchCheck
from .files import Source
from .tables import features_of


def check_file(model: Any, source: Source, **options: float) -> BatchCheck:
    """Check all rows of a file together."""
    found: BatchCheck = model.check(features_of(model, source.read()), **options)
    return found


def facts(found: BatchCheck) -> dict[str, str]:
    """The result for people; the features are a table of their own."""
    low, high = found.interval
    return {
        "shift": "alarm" if found.alarm else "none seen",
        "p-value": f"{found.p_value:.3g} (alarm at {found.level:g})",
        "size": f"{found.size:.3f} (alarm from {found.smallest:g})",
        "rows new": f"{found.share_new:.1%} of {found.n_rows:,} ({low:.1%} to {high:.1%})",
        "promised": found.guarantee,
    }
