"""An HTML report on where a fitted model can be relied on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from .._utils.files import atomic_file, check_named, check_replaceable
from .._utils.validation import check_local, count
from ..calibration.guards import warn_of_other_order
from ..estimators import BaseCalibrator
from .findings import Findings
from .page import page


def report(
    model: Any,
    X: Any,
    y: ArrayLike,
    X_ood: Any = None,
    path: str | os.PathLike[str] = "report.html",
    *,
    title: str | None = None,
    max_rows: int = 300,
    random_state: int = 0,
) -> Path:
    """Write a self-contained HTML report on a fitted model.

    Parameters
    ----------
    model : polycal estimator
        A fitted model.
    X : array-like of shape (n_samples, n_features)
        Test rows that the model was not fitted on.
    y : array-like of shape (n_samples,)
        Their labels.
    X_ood : array-like of shape (n_ood_samples, n_features), default=None
        Out-of-distribution rows to compare with.
    path : str or path-like, default="report.html"
        Path of the file. An interrupted call leaves no partial file. An existing file is
        replaced (a link to one stays, and leads to the new file); a pipe or a device is refused.
    title : str, default=None
        Heading of the page; by default the names of the model and its parent.
    max_rows : int, default=300
        Largest number of rows of each set with details. If there are more, half of these are the
        least trusted rows and the others are random.
    random_state : int, default=0
        Draws the points far from the data, the bootstrap samples, and the random rows.

    Returns
    -------
    Path
        Path of the file, which loads nothing from the network.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from polycal import KernelDensityForest, report
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelDensityForest(50, false_alarm=0.05, random_state=0).fit(X[::2], y[::2])
    >>> folder = tempfile.mkdtemp()
    >>> report(model, X[1::2], y[1::2], X[1::2] + 50, f"{folder}/iris.html").name
    'iris.html'
    """
    if not isinstance(model, BaseCalibrator):
        raise TypeError(
            f"model must be a fitted polycal estimator; got {type(model).__name__}. Wrap it: "
            "GeodesicCalibrator(FrozenEstimator(model)).fit(X, y, X_cal=..., y_cal=...)."
        )
    check_is_fitted(model, "model_")
    check_local(X=X, y=y, X_ood=X_ood)
    warn_of_other_order(X, y)
    count(max_rows=max_rows)
    path = check_named(path)
    check_replaceable(path)
    found = Findings.of(model, X, y, X_ood, max_rows, random_state)
    with atomic_file(path) as part:
        part.write_text(page(found, title or found.name), encoding="utf-8")
    return path
