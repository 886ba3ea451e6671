"""The data cache, the OpenML-CC18 study and the ablation, on sets small enough for a test."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from polycal import GeodesicCalibrator
from polycal.core.execution import Execution
from polycal.core.reading import ActivationModes
from polycal.gate import bandwidth
from polycal.kernels import reference
from polycal.parents import networks
from polycal.posterior import votes
from polycal.posterior.posterior import Pool, shift_prior, views_of
from studies import _hooks, ablation, data, openml_cc18
from studies._cc18_report import improvement
from studies._runner import Options, main, read_table
from studies._tabular import Problem, recalibrator


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A cache with two sets: balance-scale by its definition, and wdbc."""
    path = tmp_path_factory.mktemp("cache")
    X = np.array(list(product(range(1, 6), repeat=4)))
    y = np.sign(X[:, 0] * X[:, 1] - X[:, 2] * X[:, 3])
    np.savez_compressed(path / "11_balance-scale.npz", X=X, y=y)
    X, y = load_breast_cancer(return_X_y=True)
    np.savez_compressed(path / "1510_wdbc.npz", X=X, y=y)
    return path


def options_for(folder: Path, **extra) -> Options:
    return Options(quick=True, data=folder, extra=extra)


# ------------------------------------------------------------------------- data


def test_the_table_names_the_suite():
    table = data.entries()
    assert len({entry.id for entry in table.values()}) == len(table) == 72
    assert sum(entry.numeric for entry in table.values()) == 27
    balance = table["balance-scale"]
    assert (balance.rows, balance.features, balance.classes) == (625, 4, 3)
    assert all(len(entry.sha256) in (0, 64) for entry in table.values())


def test_checksum_is_of_values_and_order(tmp_path, folder):
    X, y = data.read(folder / "11_balance-scale.npz")
    np.savez(tmp_path / "same.npz", X=X.astype(np.float32), y=np.array(["a", "b", "c"])[y])
    assert data.checksum(*data.read(tmp_path / "same.npz")) == data.checksum(X, y)
    assert data.checksum(X[::-1], y[::-1]) != data.checksum(X, y)
    assert data.checksum(X.reshape(-1, 2), y) != data.checksum(X, y)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": np.ones((3, 2))}, "no array y"),
        ({"X": np.ones((3, 2)), "y": np.ones(4)}, r"got float64 \(3, 2\) and float64 \(4,\)"),
        ({"X": np.full((2, 2), "a"), "y": np.ones(2)}, "X must be numbers"),
        ({"X": np.array([[1], [None]]), "y": np.ones(2)}, "allow_pickle=False"),
    ],
)
def test_a_bad_file_is_refused_with_a_reason(tmp_path, arrays, words):
    np.savez(tmp_path / "1_bad.npz", **arrays)
    with pytest.raises(ValueError, match=words):
        data.read(tmp_path / "1_bad.npz")


def test_import_says_what_was_taken(tmp_path, folder, monkeypatch, capsys):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    monkeypatch.setenv("POLYCAL_DATA", str(target))
    X, y = data.read(folder / "11_balance-scale.npz")
    known = data.Entry(11, "balance-scale", *X.shape, 3, "numeric", "", data.checksum(X, y), "")
    monkeypatch.setattr(data, "entries", lambda: {"balance-scale": known})
    whole = (folder / "11_balance-scale.npz").read_bytes()
    (source / "11_a.npz").write_bytes(whole)
    np.savez(source / "11_b.npz", X=X[::-1], y=y[::-1])
    np.savez(source / "11_c.npz", X=X[1:], y=y[1:])
    (source / "11_d.npz").write_bytes(whole[: len(whole) // 2])
    np.savez(source / "999_e.npz", X=X, y=y)
    assert data.main(["import", str(source)]) == 1
    lines = capsys.readouterr().out.splitlines()[1:]
    assert lines[0] == "taken   11_a.npz: the arrays of the committed results"
    assert "right in size, not the arrays" in lines[1]
    assert "refused 11_c.npz: rows, features, classes must be (625, 4, 3); got (624" in lines[2]
    assert "refused 11_d.npz: it cannot be read" in lines[3]
    assert "taken   999_e.npz: not an OpenML-CC18 set" in lines[4]
    assert sorted(p.name for p in target.iterdir()) == ["11_a.npz", "11_b.npz", "999_e.npz"]
    assert (target / "11_a.npz").read_bytes() == whole
    data.main(["list"])
    assert "11_a.npz" in capsys.readouterr().out


def test_cache_is_where_the_platform_wants_it(monkeypatch, tmp_path):
    monkeypatch.delenv("POLYCAL_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert data.cache() == tmp_path / "polycal"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert data.cache() == Path.home() / "Library" / "Caches" / "polycal"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert data.cache() == tmp_path / "polycal"
    monkeypatch.setenv("POLYCAL_DATA", str(tmp_path / "own"))
    assert data.cache() == tmp_path / "own"
    with pytest.raises(SystemExit, match=r"studies\.data import"):
        data.available(data.cache())


def test_download_encodes_checks_and_remembers(tmp_path, monkeypatch):
    frame = pd.DataFrame(
        {
            "size": [1.5, np.nan, 3.0],
            "word": pd.Categorical(["b", None, "a"], categories=["b", "a"]),
            "count": [1, 2, 3],
        }
    )
    bunch = SimpleNamespace(data=frame, target=pd.Series(["no", "yes", "no"], dtype="category"))
    asked = []

    def fetch(data_id, as_frame, parser):
        asked.append(data_id)
        return bunch

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    known = {"tiny": data.Entry(7, "tiny", 3, 3, 2, "missing", "word", "", "")}
    known["big"] = data.Entry(8, "big", 4, 3, 2, "missing", "word", "", "")
    monkeypatch.setattr(data, "entries", lambda: known)
    taken, refused = data.download([], tmp_path)
    assert asked == [7, 8]
    assert taken.startswith("taken   tiny: right in size")
    assert "refused big: ValueError: rows, features, classes must be (4, 3, 2); got (3" in refused
    with np.load(tmp_path / "7_tiny.npz", allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["X"], [[1.5, 0, 1], [np.nan, np.nan, 2], [3, 1, 3]])
        assert arrays["y"].tolist() == [0, 1, 0]
        assert arrays["classes"].tolist() == ["no", "yes"]
        assert arrays["categorical"].tolist() == [False, True, False]
        assert str(arrays["sha256"]) == data.checksum(*data.read(tmp_path / "7_tiny.npz"))
    assert data.download(["tiny"], tmp_path)[0].startswith("taken")
    frame.loc[0, "size"] = 1.25
    assert "sha256 was" in data.download(["tiny"], tmp_path)[0]
    with pytest.raises(SystemExit, match="no OpenML-CC18 set is called"):
        data.download(["none"], tmp_path)


# ------------------------------------------------------------------------ study


def test_cells_have_three_sizes_on_a_log_scale(folder):
    options = Options(data=folder, extra={"parents": ["forest"]}, reps=2)
    found = [cell for cell in openml_cc18.cells(options) if cell["data"] == "balance-scale"]
    # 625 rows, a third of them for the test: 417 are left.
    assert [(cell["rep"], cell["n"]) for cell in found] == [
        (rep, n) for rep in (0, 1) for n in (417, 204, 100)
    ]


def test_sets_are_those_of_the_cache(folder):
    assert openml_cc18.chosen_sets(options_for(folder)) == ["wdbc"]
    assert openml_cc18.chosen_sets(Options(data=folder)) == ["balance-scale", "wdbc"]
    with pytest.raises(SystemExit, match=r"got \['vehicle'\], it has \['balance-scale', 'wdbc'\]"):
        openml_cc18.chosen_sets(options_for(folder, sets=["wdbc", "vehicle"]))


@pytest.mark.parametrize("method", ["isotonic", "sigmoid", "temperature"])
def test_recalibrators_are_those_of_scikit_learn(method):
    X, y = load_iris(return_X_y=True)
    forest = RandomForestClassifier(20, random_state=0).fit(X[::2], y[::2])
    usual = CalibratedClassifierCV(FrozenEstimator(forest), method=method).fit(X[1::2], y[1::2])
    ours = recalibrator(method, forest.predict_proba(X[1::2]), y[1::2])
    np.testing.assert_allclose(ours(forest.predict_proba(X)), usual.predict_proba(X), atol=1e-12)


def test_improvement_is_the_papers_ratio():
    keys = ["data", "parent", "size", "n", "method"]
    rows = [("a", "forest", 0, 100, m) for m in ("parent", "polycal", "isotonic")]
    values = {"error": [0.2, 0.1, 0.3], "ece": [0.0, 0.0, 0.1]}
    values |= {key: [1.0, 0.5, 1.0] for key in ("oce", "log_loss", "brier")}
    table = pd.DataFrame(values, pd.MultiIndex.from_tuples(rows, names=keys))
    gains = improvement(table).droplevel(["data", "parent", "size", "n"])
    assert gains.loc["polycal", "error"] == pytest.approx(0.5)
    assert gains.loc["isotonic", "error"] == pytest.approx(-0.5)
    assert gains.loc["polycal", "ece"] == 0
    assert gains.loc["isotonic", "ece"] == -np.inf
    assert gains.loc["polycal", "oce"] == pytest.approx(0.5)


def test_tiny_study_from_rows_to_pages(folder, tmp_path, capsys):
    arguments = ["--quick", "--data", str(folder), "--out", str(tmp_path)]
    assert main(openml_cc18.STUDY, [*arguments, "--sets", "balance-scale"]) == 0
    frame = read_table(tmp_path)
    keys = frame.groupby(["parent", "n"]).ngroups
    assert keys == 6  # two parents, three sizes
    at = frame.pivot_table("value", ["parent", "n", "method"], "metric")
    parent, ours = at.xs("parent", level="method"), at.xs("polycal", level="method")
    assert (ours["oce"] < 0.1 * parent["oce"]).all()
    for method in ("temperature", "parent"):  # a temperature keeps every decision
        np.testing.assert_allclose(at.xs(method, level="method")["error"], parent["error"])
    shells = at[[f"oce at {radius}" for radius in range(1, 6)]].mean(axis=1)
    np.testing.assert_allclose(at["oce"], shells, rtol=1e-6)
    page = (tmp_path / "pages" / "balance-scale.md").read_text()
    assert "625 rows, 4 features, 3 classes; numeric" in page
    assert f"{ours.loc[('network', 100), 'brier']:.4f}" in page
    assert "KDN, 1 numeric sets" in (tmp_path / "summary.md").read_text()
    printed = capsys.readouterr().out
    for name in ("improvement.svg", "sets_forest_ece.png", "pages/balance-scale.png"):
        assert str(tmp_path / name) in printed
        assert (tmp_path / name).stat().st_size > 1000


def test_the_parent_is_fitted_on_its_rows_alone(folder):
    cell = {"data": "wdbc", "parent": "forest", "size": 0, "n": 100, "rep": 1}
    options = options_for(folder)
    rows = openml_cc18.run(cell, options)
    seed = options.seed_of(data="wdbc", rep=1)
    problem = Problem.make("wdbc", options, seed, 100)
    assert (len(problem.X_fit), len(problem.X_cal)) == (70, 30)
    forest = RandomForestClassifier(100, random_state=seed).fit(problem.X_fit, problem.y_fit)
    error = float((forest.predict(problem.X_test) != problem.y_test).mean())
    found = {(row["method"], row["metric"]): row["value"] for row in rows}
    assert found["parent", "error"] == pytest.approx(error)
    assert found["parent", "confidence"] == pytest.approx(
        forest.predict_proba(problem.X_test).max(axis=1).mean()
    )


# --------------------------------------------------------------------- ablation


@pytest.fixture(scope="module")
def iris_model():
    X, y = load_iris(return_X_y=True)
    forest = RandomForestClassifier(10, max_depth=3, random_state=0).fit(X[::2], y[::2])

    def fit():
        model = GeodesicCalibrator(FrozenEstimator(forest))
        return model.fit(X[::2], y[::2], X_cal=X[1::2], y_cal=y[1::2])

    return X, y, fit


def test_variance_prior_is_one_more_row(iris_model):
    X, _, fit = iris_model
    plain = fit()
    with _hooks.variance_prior(_hooks.mean_variance):
        model = fit()
    rows, size = X[::2], plain.polytopes_.size
    owner = plain.nearest(rows)[1][:, 0]
    K = plain.similarity(rows, rows)
    first = np.array([np.flatnonzero(owner == r)[0] for r in range(len(size))])
    K = K[first]  # polytopes against rows
    distance = (rows[None] - plain.polytopes_.mean[:, None]) ** 2
    sums, weight = np.einsum("rs,rsj->rj", K, distance), K.sum(axis=1, keepdims=True)
    least = 1e-6 * np.subtract(*np.quantile(rows, [0.75, 0.25], axis=0)) ** 2
    local = (weight * (sums / weight + least) + rows.var(axis=0).mean()) / (weight + 1)
    variance = np.sqrt(local * np.average(local, axis=0, weights=size))
    np.testing.assert_allclose(1 / model.model_.reference.density.precision, variance, rtol=1e-9)
    norm = -0.5 * np.log(2 * np.pi * variance).sum(axis=1)
    np.testing.assert_allclose(model.model_.reference.density.log_norm, norm, rtol=1e-9)
    np.testing.assert_array_equal(fit().predict_proba(X), plain.predict_proba(X))  # undone
    typical = [_hooks.median_variance(plain.polytopes_), *_hooks.range_variance(plain.polytopes_)]
    width = np.ptp(plain.polytopes_.mean, axis=0)
    np.testing.assert_allclose(typical, [np.median(rows.var(axis=0)), *(width**2 / 12)])


def test_without_levels_the_pool_speaks(iris_model):
    X, _, fit = iris_model
    with _hooks.no_confidence_levels():
        model = fit()
    answer, posterior = model.answer(X), model.model_.posterior
    kept = Pool(model.pool_weights_, posterior.pool.offset, matrix=posterior.pool.matrix)
    votes = fit().answer(X).votes  # the same evidence
    sources = (model.estimator_.predict_proba(X), *votes)
    views = [views_of(p, posterior.train_prior, posterior.n_rows) for p in sources]
    expected = shift_prior(kept(np.stack(views)), posterior.fitted_prior, posterior.prior)
    np.testing.assert_allclose(answer.log_posterior, expected, rtol=1e-9)


def test_without_the_class_matrix(iris_model):
    _, _, fit = iris_model
    with _hooks.no_class_matrix():
        assert fit().model_.posterior.pool.matrix is None
    assert fit().model_.posterior.pool.matrix is not None  # undone


def test_without_the_output_layer_one_group_is_gone():
    rows = networks.ReadingBuilder()
    hidden = np.array([[True, False, True], [False, False, True]])
    rows.add([hidden], np.zeros((2, 1)))
    proba = np.array([[0.9, 0.1], [0.2, 0.8]])
    whole = rows.reading(proba).modes
    with _hooks.no_output_layer():
        modes = rows.reading(proba).modes
    assert whole.sizes == (3, 2)
    assert modes.sizes == (3,)
    np.testing.assert_array_equal(next(modes.groups()).astype(bool), hidden)
    assert rows.reading(proba).modes.sizes == (3, 2)


def test_labels_by_all_layers_weighs_as_the_neighbours_do():
    rng = np.random.default_rng(0)
    modes = ActivationModes.from_bits([rng.random((9, 5)) < 0.5, rng.random((9, 2)) < 0.5])
    counts, exponent = np.eye(9), np.array([3.0])
    sums = {}
    for name, hook in (("all", _hooks.labels_by_all_layers), ("hidden", nullcontext)):
        with hook():
            index = votes.build_index(modes, hidden_labels=True)
        sums[name] = index.class_sums(modes, counts, exponent, Execution())[0]
    np.testing.assert_allclose(sums["all"], reference.similarity(modes, modes) ** 3, rtol=1e-9)
    first = next(modes.groups())
    alike = (first[:, None] == first[None]).mean(axis=2)
    np.testing.assert_allclose(sums["hidden"], alike**3, rtol=1e-9)


def test_hooks_are_undone_after_an_error():
    before = bandwidth.geodesic_density

    def fail():
        with _hooks.variance_prior(_hooks.mean_variance):
            assert bandwidth.geodesic_density is not before
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert bandwidth.geodesic_density is before


def test_comparison_is_paired_over_the_sets():
    rows = []
    for place, name in enumerate("abcdefgh"):
        for rep in (0, 1):
            base = {"data": name, "rep": rep, "metric": "error"}
            rows.append(base | {"method": "default", "value": 0.1 * place + rep})
            rows.append(base | {"method": "one neighbour", "value": 0.1 * place + rep + 0.02})
            other = 0.1 * place + rep + (0.1 if place % 2 else -0.1)
            rows.append(base | {"method": "gate gaussian", "value": other})
    frame = pd.DataFrame(rows)
    table = ablation.compare(frame, ["error"]).set_index("method")
    assert table.loc["default", "mean"] == pytest.approx(0.35 + 0.5)
    # The sets differ a lot, the differences do not: the interval is a point.
    assert table.loc["one neighbour", ["mean", "low", "high"]].tolist() == pytest.approx([0.02] * 3)
    low, high = table.loc["gate gaussian", ["low", "high"]]
    assert low == pytest.approx(-high, abs=0.02)
    assert 0.05 < high < 0.1
    text = ablation.markdown(ablation.compare(frame, ["error"]), ["error"])
    assert "**+0.0200 (+0.0200 to +0.0200)**" in text
    assert "| gate gaussian | +0.0000 (" in text


def test_tiny_ablation(folder, tmp_path):
    options = options_for(folder, sets=["balance-scale"])
    (cell, _) = ablation.cells(options)
    assert cell == {"data": "balance-scale", "parent": "forest", "rep": 0}
    changes = {key: ablation.CHANGES[key] for key in ("default", "floor log b = -10")}
    frame = pd.DataFrame(ablation.run(cell, options, changes)).assign(**cell)
    at = frame.pivot_table("value", "method", "metric")
    # A floor moves scores only by the pool that is fitted through the gate, which is hardly at all.
    assert (
        at[["AUROC classes", "AUROC shuffled"]].max()
        - at[["AUROC classes", "AUROC shuffled"]].min()
    ).max() < 0.01
    assert at.loc["default", "false alarms"] < 0.1
    names = {path.name for path in ablation.draw(frame, tmp_path)}
    assert names == {"ablation.md", "ablation.png", "ablation.svg"}
    assert (
        f"| default | {at.loc['default', 'error']:.4f} |" in (tmp_path / "ablation.md").read_text()
    )
