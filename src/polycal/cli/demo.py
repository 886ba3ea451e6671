"""``polycal demo``: digits, with two classes left out of the fit."""

from __future__ import annotations

from pathlib import Path

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from ..estimators import KernelDensityForest
from ..reporting import report
from .output import check_output


def run_demo(output: Path, show: bool) -> Path:
    """Fit a forest on digits 0 to 7, and write a report with 8 and 9 as unknown rows."""
    check_output(output)
    X, y = load_digits(return_X_y=True)
    known = y < 8
    X_fit, X_test, y_fit, y_test = train_test_split(X[known], y[known], random_state=0)
    model = KernelDensityForest(200, random_state=0, verbose=int(show)).fit(X_fit, y_fit)
    title = "Digits 0 to 7, with 8 and 9 unknown"
    return report(model, X_test, y_test, X[~known], output, title=title)
