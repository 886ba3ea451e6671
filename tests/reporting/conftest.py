"""A forest of wine with names that are markup, and its report."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

from polycal import KernelDensityForest, report
from tests.toys.reports import NASTY


@pytest.fixture(scope="session")
def wine():
    data = load_wine(as_frame=True)
    X = data.data.rename(columns={"alcohol": NASTY})
    label = np.array(["<i>one</i>", "two", "three"])[data.target]
    X, X_test, y, y_test = train_test_split(X, label, random_state=0, stratify=label)
    return KernelDensityForest(60, random_state=0).fit(X, y), X_test, y_test, X_test * 4


@pytest.fixture(scope="session")
def page_path(wine, tmp_path_factory):
    model, X, y, X_ood = wine
    return report(model, X, y, X_ood, tmp_path_factory.mktemp("report") / "wine.html")
