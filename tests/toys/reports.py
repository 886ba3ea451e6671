"""What a report holds: its sections, its rows, and a name that is markup."""

from __future__ import annotations

import json
import re

SECTIONS = [
    "verdict",
    "inside",
    "classes",
    "answered",
    "distance",
    "outside",
    "features",
    "rows",
    "model",
]
NASTY = "</script><script>window.broken = 1</script><b>x</b>"


def embedded(path):
    """The rows that the page carries."""
    text = path.read_text("utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(found[1])
