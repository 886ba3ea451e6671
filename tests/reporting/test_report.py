"""The report: its numbers, its words, and the page in a real browser."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

import polycal.reporting as report_module
from polycal import GeodesicCalibrator, KernelDensityForest, report
from polycal.metrics import expected_calibration_error
from polycal.reporting.findings import Findings, _moved
from polycal.reporting.words import _alarms, chance_of_alarms, summary, verdict

SECTIONS = ["verdict", "inside", "distance", "outside", "features", "rows", "model"]
NASTY = "</script><script>window.broken = 1</script><b>x</b>"


@pytest.fixture(scope="module")
def wine():
    data = load_wine(as_frame=True)
    X = data.data.rename(columns={"alcohol": NASTY})
    label = np.array(["<i>one</i>", "two", "three"])[data.target]
    X, X_test, y, y_test = train_test_split(X, label, random_state=0, stratify=label)
    return KernelDensityForest(60, random_state=0).fit(X, y), X_test, y_test, X_test * 4


@pytest.fixture(scope="module")
def page_path(wine, tmp_path_factory):
    model, X, y, X_ood = wine
    return report(model, X, y, X_ood, tmp_path_factory.mktemp("report") / "wine.html")


def embedded(path):
    """The rows that the page carries."""
    text = path.read_text("utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(found[1])


# ------------------------------------------------------------------ numbers


def test_rows_are_what_the_model_says(wine, page_path):
    model, X, y, X_ood = wine
    data = embedded(page_path)
    assert data["classes"] == [str(c) for c in model.classes_]
    assert [r["set"] for r in data["rows"]] == ["test"] * len(X) + ["OOD"] * len(X_ood)
    P = np.concatenate([model.predict_proba(X), model.predict_proba(X_ood)])
    parent = np.concatenate(
        [model.estimator_.predict_proba(X), model.estimator_.predict_proba(X_ood)]
    )
    np.testing.assert_allclose([r["proba"] for r in data["rows"]], P, atol=5e-5)
    np.testing.assert_allclose([r["parent"] for r in data["rows"]], parent, atol=5e-5)
    labels = [None if r["label"] is None else data["classes"][r["label"]] for r in data["rows"]]
    assert labels == [*y, *[None] * len(X_ood)]
    why = model.explain(X)
    for i, row in enumerate(data["rows"][: len(X)]):
        assert row["verdict"] == why.verdict[i]
        assert row["weight"] == pytest.approx(why.weight[i], rel=1e-3)
        assert row["p"] == pytest.approx(why.p_value[i], rel=1e-3)
        assert row["near"][0]["rows"] == why.rows[i].tolist()[:10]
        names, surprise = why.top_features(5)
        assert [f["name"] for f in row["features"]] == names[i].tolist()
        np.testing.assert_allclose([f["surprise"] for f in row["features"]], surprise[i], rtol=1e-3)
        assert float(row["features"][0]["value"]) == pytest.approx(X.iloc[i][names[i, 0]], rel=1e-3)


def test_at_most_so_many_rows(wine, tmp_path):
    model, X, y, _ = wine
    rows = embedded(report(model, X, y, path=tmp_path / "few.html", max_rows=10))["rows"]
    assert len(rows) == 10
    least = np.argsort(model.score_samples(X), kind="stable")[:5]
    assert set(least) <= {r["row"] for r in rows}


def test_verdict_of_good_rows(wine):
    model, X, y, X_ood = wine
    found = Findings.of(model, X, y, X_ood, 50, 0)
    statements = verdict(found)
    assert [s.grade for s in statements[1:]] == ["good", "good", "good"]
    ece = expected_calibration_error(
        np.searchsorted(model.classes_, y), model.predict_proba(X), n_bins=20
    )
    assert f"(ECE) {ece:.3f}" in statements[0].text
    assert found.figure("polycal", "ece")[0] == pytest.approx(ece)
    assert statements[1].text.startswith(f"{(model.explain(X).verdict == 'out').sum()} of 45")


def test_verdict_of_shifted_rows(wine):
    model, X, y, _ = wine
    statements = verdict(Findings.of(model, X * 1.5, y, X, 50, 0))
    assert statements[1].grade == "problem"
    assert "not like" in statements[1].head
    assert statements[3].grade == "problem"  # rows in distribution, called out of it
    assert "problem" in summary(statements)


def test_verdict_of_wrong_labels(wine):
    model, X, y, _ = wine
    statements = verdict(Findings.of(model, X, np.roll(y, 1), None, 50, 0))
    assert statements[0].grade == "problem"
    assert "too sure" in statements[0].text


def test_a_floor_by_hand_that_never_closes_is_found(wine):
    _, X, y, _ = wine
    open_wide = KernelDensityForest(60, floor=-1e300, random_state=0).fit(X, y)
    assert verdict(Findings.of(open_wide, X, y, None, 50, 0))[2].grade == "problem"


def test_alarms_that_chance_explains():
    """In 40 samples of exchangeable rows, "not like the training data" is said at most once."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3000, 2))
    label = (rows[:, 0] > 0).astype(int)
    model = KernelDensityForest(20, calibration="holdout", random_state=0)
    model.fit(rows[:600], label[:600])
    said = 0
    for part in np.array_split(np.arange(600, 3000), 40):
        found = Findings.of(model, rows[part], label[part], None, 1, 0)
        said += _alarms(found).grade == "problem"
    assert said <= 1


def test_a_few_rows_prove_nothing(wine):
    model, X, y, _ = wine
    for labels in (y[:2], y[:2][::-1]):  # right, and perhaps both wrong
        statement = verdict(Findings.of(model, X[:2], labels, None, 5, 0))[0]
        assert statement.grade != "good"
    assert "Too few test rows" in verdict(Findings.of(model, X[:2], y[:2], None, 5, 0))[0].head


def test_rows_that_are_all_out_are_not_inside_the_data(wine):
    model, X, y, _ = wine
    assert "Inside" not in verdict(Findings.of(model, X * 100, y, None, 5, 0))[0].head


def test_many_rows_at_the_edge_are_a_shift(wine):
    model, X, y, _ = wine
    found = Findings.of(model, X, y, None, 5, 0)
    words = np.where(np.arange(len(X)) < len(X) // 2, "edge", "in distribution")
    test = replace(found.sets[0], why=replace(found.sets[0].why, verdict=words))
    statement = _alarms(replace(found, sets=[test]))
    assert statement.grade == "problem"
    assert "0 of 45 rows (0.0%)" in statement.text
    assert "5.0% out or at the edge" in statement.text


def test_rows_that_are_noticed_but_trusted(wine):
    model, X, y, _ = wine
    found = Findings.of(model, X, y, X, 5, 0)  # trusted, since they are the test rows
    edge = replace(found.sets[1].why, verdict=np.full(len(X), "edge"))
    found = replace(found, sets=[found.sets[0], replace(found.sets[1], why=edge)])
    statement = verdict(found)[3]
    assert statement.grade == "careful"
    assert "answers most as if it knew them" in statement.head


def test_chance_of_alarms_by_hand():
    """One new row is below the k-th of m scores with chance k / (m + 1)."""
    assert chance_of_alarms(1, 1, 0.01, 199) == pytest.approx(2 / 200)
    assert chance_of_alarms(1, 1, 0.29, 99) == pytest.approx(29 / 100)  # 0.29 * 100 < 29 in floats
    assert chance_of_alarms(1, 1, 0.01, 9) == pytest.approx(1 / 10)  # too few scores: the lowest
    # Both of two rows below the lowest of two scores: 2! 2! / 4!, the orders that allow it.
    assert chance_of_alarms(2, 2, 0.4, 2) == pytest.approx(1 / 6)
    assert chance_of_alarms(0, 5, 0.01, 199) == 1.0


def test_uneven_weights_count_as_fewer_rows(wine):
    _, X, y, _ = wine
    weight = np.where(np.arange(len(y)) % 3 == 0, 4.0, 1.0)
    model = KernelDensityForest(30, calibration="cv", random_state=0).fit(X, y, weight)
    found = Findings.of(model, X, y, None, 5, 0)
    assert found.n_familiar == pytest.approx(weight.sum() ** 2 / (weight**2).sum())


def test_similarity_of_euclidean_neighbours(wine):
    _, X, y, _ = wine
    model = KernelDensityForest(30, distance="euclidean", random_state=0).fit(X[::2], y[::2])
    rows = Findings.of(model, X[1::2], y[1::2], None, 100, 0).sets[0].detail
    shown = [row["near"][0]["similarity"] for row in rows]
    np.testing.assert_allclose(shown, model.explain(X[1::2]).similarity, rtol=1e-3)
    assert min(shown) < 1


def test_prediction_where_all_classes_tie(tmp_path):
    """With equal priors the prediction far away is the posterior's, as that of ``predict``."""
    X, y = load_iris(return_X_y=True)
    model = KernelDensityForest(30, random_state=0).fit(X, y)
    far = X * [1000, 1, 1, 1]
    label = model.predict(far)
    rows = embedded(report(model, far, label, path=tmp_path / "r.html"))["rows"]
    assert len(set(label)) > 1
    assert [row["prediction"] for row in rows] == [row["label"] for row in rows]


# ------------------------------------------------------------------- inputs


def test_without_other_rows(wine, tmp_path):
    model, X, y, _ = wine
    text = report(model, X, y, path=str(tmp_path / "r.html")).read_text("utf-8")
    assert [s for s in SECTIONS if f'<section id="{s}">' in text] == [
        s for s in SECTIONS if s != "outside"
    ]


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_categories_and_missing_values(kind, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.normal(50, 10, 300), "visits": rng.integers(9, size=300)})
    table["ward"] = pd.Categorical(rng.choice(["A", "B"], 300))
    table.loc[::10, "age"] = np.nan
    label = (table["visits"] > 4).astype(int).to_numpy()
    if kind == "polars":
        table = pl.DataFrame(
            {
                "age": table["age"].to_numpy(),
                "visits": table["visits"].to_numpy(),
                "ward": pl.Series(table["ward"].astype(str).tolist(), dtype=pl.Categorical),
            }
        )
    parent = HistGradientBoostingClassifier(max_iter=10, random_state=0)
    model = GeodesicCalibrator(parent, random_state=0).fit(table[:200], label[:200])
    found = Findings.of(model, table[200:], label[200:], None, 100, 0)
    assert found.distance.confidence["polycal"][-1] == pytest.approx(found.priors.max(), abs=0.01)
    path = report(model, table[200:], label[200:], path=tmp_path / "r.html")
    row = embedded(path)["rows"][0]  # its age is missing
    values = {f["name"]: f["value"] for f in row["features"]}
    assert values["age"] == "missing"
    assert values["ward"] in "AB"


def test_an_encoder_that_refuses_other_values(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"kind": rng.integers(3, size=200), "size": rng.normal(size=200)})
    label = (table["size"] > 0).astype(int)
    encode = make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough")
    parent = make_pipeline(encode, RandomForestClassifier(20, random_state=0))
    model = GeodesicCalibrator(parent, random_state=0).fit(table, label)
    found = Findings.of(model, table, label, None, 5, 0)
    assert "refuses rows with other numbers" in found.distance
    text = report(model, table, label, path=tmp_path / "r.html").read_text("utf-8")
    assert "Not tried." in text


def test_a_parent_that_refuses_in_its_own_way():
    def whole(X):
        if (np.round(X) != X).any():
            raise TypeError("whole numbers only")
        return X

    X = np.random.default_rng(0).integers(9, size=(120, 2)).astype(float)
    y = (X[:, 0] > 4).astype(int)
    parent = make_pipeline(FunctionTransformer(whole), RandomForestClassifier(20, random_state=0))
    found = Findings.of(GeodesicCalibrator(parent, random_state=0).fit(X, y), X, y, None, 5, 0)
    assert found.distance.endswith("other numbers: whole numbers only")


def test_moved_rows_keep_their_kind():
    picked, points = np.array([1, 0]), np.array([[7.0], [8.0]])
    rows = _moved(np.array([[1, 2], [3, 4]], dtype=np.float32), np.array([1]), points, picked)
    assert rows.dtype == np.float32
    assert rows.tolist() == [[3, 7], [1, 8]]
    table = _moved(pl.DataFrame({"a": [1, 2], "self": [3, 4]}), np.array([1]), points, picked)
    assert table.rows() == [(2, 7.0), (1, 8.0)]


def test_missing_values_of_every_kind():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": pd.array(rng.integers(9, size=200), dtype="Int64")})
    table["b"] = pd.Categorical(rng.choice(["u", "v"], 200))
    label = (table["a"] > 4).to_numpy().astype(int)
    table.loc[::5, "a"] = pd.NA
    table.loc[::5, "b"] = None
    parent = HistGradientBoostingClassifier(max_iter=5, random_state=0)
    model = GeodesicCalibrator(parent, random_state=0).fit(table, label)
    rows = Findings.of(model, table, label, None, 500, 0).sets[0].detail
    for row in rows[::5]:
        assert {f["value"] for f in row["features"]} == {"missing"}
    assert {f["value"] for f in rows[1]["features"]} == {str(v) for v in table.iloc[1]}


def test_images():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    images = torch.rand(80, 1, 4, 4)
    label = (images.mean(dim=(1, 2, 3)) > 0.5).long().numpy()
    net = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)
    )
    model = GeodesicCalibrator(net).fit(
        images[:40], label[:40], X_cal=images[40:], y_cal=label[40:]
    )
    found = Findings.of(model, images, label, None, 5, 0)
    assert found.distance == "The rows are no dense table, so there are no columns to move."
    flat = images.flatten(1)
    model = GeodesicCalibrator(net).fit(flat[:40], label[:40], X_cal=flat[40:], y_cal=label[40:])
    display = Findings.of(model, flat, label, None, 5, 0).distance
    assert display.confidence["polycal"][-1] == pytest.approx(model.priors_.max(), abs=0.01)


def test_bad_input(wine, tmp_path):
    model, X, y, _ = wine
    with pytest.raises(TypeError, match="fitted polycal estimator; got RandomForestClassifier"):
        report(RandomForestClassifier(), X, y, path=tmp_path / "r.html")
    with pytest.raises(FileNotFoundError, match="which does not exist"):
        report(model, X, y, path=tmp_path / "no" / "r.html")
    with pytest.raises(NotFittedError):
        report(KernelDensityForest(), X, y, path=tmp_path / "r.html")
    with pytest.raises(IsADirectoryError, match="add a name for the file"):
        report(model, X, y, path=tmp_path)
    with pytest.raises(ValueError, match="max_rows"):
        report(model, X, y, path=tmp_path / "r.html", max_rows=0)
    with pytest.raises(ValueError, match="four"):
        report(model, X, ["four"] * len(X), path=tmp_path / "r.html")
    assert list(tmp_path.iterdir()) == []


def test_an_older_file_survives_a_crash(wine, tmp_path, monkeypatch):
    model, X, y, _ = wine
    path = tmp_path / "r.html"
    path.write_text("older")

    def crash(_):
        raise OSError("disk full")

    monkeypatch.setattr(report_module.os, "fsync", crash)
    with pytest.raises(OSError, match="disk full"):
        report(model, X, y, path=path)
    assert path.read_text() == "older"
    assert list(tmp_path.iterdir()) == [path]


# ------------------------------------------------------------------ browser


@pytest.fixture(scope="module")
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


def column(page, place):
    return page.locator(f"#table tbody td:nth-child({place})").all_inner_texts()


def test_sections_and_names_that_are_markup(visit):
    page = visit()
    assert page.locator("section").evaluate_all("nodes => nodes.map(n => n.id)") == SECTIONS
    assert page.locator("svg").count() == 3
    assert page.evaluate("window.broken") is None
    assert page.locator("main b, main i:not(.key)").count() == 0
    assert NASTY in page.locator("#features").inner_text()


def test_a_long_name_leaves_room_for_its_number(visit):
    page = visit()
    width = page.locator("#features td:first-child").evaluate_all(
        "cells => Math.max(...cells.map(c => c.getBoundingClientRect().width))"
    )
    assert width <= 321  # 20 rem


def test_sorting(visit):
    page = visit()
    weight = [float(v) for v in column(page, 7)]
    assert weight == sorted(weight)
    page.click("button[data-key=confidence]")
    up = [float(v) for v in column(page, 5)]
    assert up == sorted(up)
    head = page.locator("th", has=page.locator("button[data-key=confidence]"))
    assert head.get_attribute("aria-sort") == "ascending"
    page.click("button[data-key=confidence]")
    down = [float(v) for v in column(page, 5)]
    assert down == sorted(up, reverse=True)
    assert head.get_attribute("aria-sort") == "descending"
    page.click("button[data-key=row]")
    assert [int(v) for v in column(page, 1)] == sorted(int(v) for v in column(page, 1))
    page.click("button[data-key=verdict]")
    order = ["out", "edge", "in distribution"]
    places = [order.index(v) for v in column(page, 8)]
    assert places == sorted(places)


def test_filter(visit):
    page = visit()
    total = page.locator("#table tbody tr").count()
    page.select_option("#filter", "out")
    assert set(column(page, 8)) == {"out"}
    n = page.locator("#table tbody tr").count()
    assert page.inner_text("#count") == f"{n} of {total} rows"
    page.select_option("#filter", "wrong")
    assert all("(wrong)" in text for text in column(page, 4))


def test_choosing_a_row_by_click(visit, page_path):
    page = visit()
    page.click("button[data-key=row]")
    chosen = page.locator("#table tbody tr").nth(5)
    chosen.click()
    assert chosen.get_attribute("aria-selected") == "true"
    grid = page.get_by_role("grid", name="Rows")  # a row of a plain table cannot be selected
    assert grid.get_by_role("row", selected=True).count() == 1
    row = embedded(page_path)["rows"][int(chosen.get_attribute("data-id"))]
    text = page.inner_text("#detail")
    assert text.startswith(f"Row {row['row']} of {row['set']}")
    for near in row["near"]:
        assert ", ".join(map(str, near["rows"])) in text
    for feature in row["features"]:
        assert feature["name"] in text
        assert feature["value"] in text


def test_keyboard_alone(visit):
    page = visit()
    for _ in range(40):  # Tab reaches the table
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "TR":
            break
    first = page.evaluate("document.activeElement.dataset.id")
    page.keyboard.press("ArrowDown")
    second = page.evaluate("document.activeElement.dataset.id")
    assert second != first
    before = page.inner_text("#detail")
    page.keyboard.press("Enter")
    assert page.locator(f'tr[data-id="{second}"]').get_attribute("aria-selected") == "true"
    assert page.inner_text("#detail") != before
    page.keyboard.press("End")
    last = page.locator("#table tbody tr").last.get_attribute("data-id")
    assert page.evaluate("document.activeElement.dataset.id") == last
    page.locator("button[data-key=label]").focus()
    page.keyboard.press("Enter")
    assert column(page, 3) == sorted(column(page, 3))


def test_on_a_phone(visit, tmp_path):
    page = visit(width=360)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    small = page.locator("svg text").evaluate_all(
        "nodes => Math.min(...nodes.map(n => n.getBoundingClientRect().height))"
    )
    assert small > 9
    page.screenshot(path=tmp_path / "phone.png", full_page=True)
    assert (tmp_path / "phone.png").stat().st_size > 20_000


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_light_and_dark(visit, scheme, dark):
    page = visit(scheme=scheme)
    for selector, name in (("body", "backgroundColor"), ("svg text.tick", "fill")):
        text = page.locator(selector).first.evaluate(f"n => getComputedStyle(n).{name}")
        lightness = np.mean([int(v) for v in re.findall(r"\d+", text)[:3]])
        assert (lightness < 128) == (dark if selector == "body" else not dark)
