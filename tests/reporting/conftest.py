"""A forest of wine with names that are markup, and its report."""

from __future__ import annotations

import os
import shutil

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


@pytest.fixture(scope="session")
def browser():
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None and os.environ.get("CI") != "true":
        pytest.skip("no Chromium on this machine")
    assert found, "CI must have Chromium: install the package chromium"
    api = pytest.importorskip("playwright.sync_api")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, page_path):
    """Opens the report; at the end nothing was logged and nothing else was asked for."""
    noise, contexts = [], []

    def visit(width=1100, scheme="light"):
        size = {"width": width, "height": 800}
        contexts.append(browser.new_context(viewport=size, color_scheme=scheme))
        page = contexts[-1].new_page()
        page.on("console", lambda message: noise.append(message.text))
        page.on("pageerror", lambda error: noise.append(str(error)))
        page.on(
            "request",
            lambda request: request.url.startswith(("file:", "data:")) or noise.append(request.url),
        )
        page.goto(page_path.as_uri())
        return page

    yield visit
    for context in contexts:
        context.close()
    assert noise == []
