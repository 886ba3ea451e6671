"""Missing values and categories in the density."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from polycal import PAPER, GeodesicCalibrator
from polycal.core.density import Density, row_terms
from polycal.core.polytopes import Polytopes
from polycal.core.reading import ActivationModes
from polycal.core.table import Table, find_categories
from polycal.gate.bandwidth import geodesic_density, polytope_density, smoothed_shares
from polycal.kernels import Execution, build_index, reference
from tests.toys.models import small_forest, small_network


def boosting(**kwargs):
    return HistGradientBoostingClassifier(**({"max_iter": 20, "random_state": 0} | kwargs))


def make_mixed(n=600, seed=0, missing=0.1):
    """Two numbers, one of them with holes, and two categories; the label depends on all."""
    rng = np.random.default_rng(seed)
    colour = rng.choice(["red", "green", "blue"], n, p=[0.5, 0.3, 0.2])
    size = rng.choice([1, 2], n)
    a, b = rng.normal(size=n), rng.normal(size=n) + (colour == "red")
    y = (a + b + 1.5 * (colour == "blue") + size + 0.3 * rng.normal(size=n) > 2.2).astype(int)
    b = np.where(rng.random(n) < missing, np.nan, b)
    table = {"a": a, "b": b, "colour": pd.Categorical(colour), "size": pd.Categorical(size)}
    return pd.DataFrame(table), y


# ---------------------------------------------------------------- the table


def test_a_table_by_hand():
    X = pd.DataFrame(
        {"c": pd.Categorical(["x", "y", None]), "a": [1.0, np.nan, 3.0], "b": [1, 2, 3]}
    )
    table, encoded = Table.learn(X, find_categories(X, "from_dtype"))
    assert_array_equal(encoded, table.encode(X))
    assert_array_equal(table.numbers, [1, 2])
    assert_array_equal(table.start, [0, 4, 6])  # missing, x, y, never seen; there, missing
    nan = np.nan
    expected = [[1, 1, 1, 0], [nan, 2, 2, 1], [3, 3, 0, 0]]
    assert_array_equal(table.encode(X), expected)
    new = pd.DataFrame({"c": ["z"], "a": [0.0], "b": [np.nan]})
    assert_array_equal(table.encode(new), [[0, nan, 3, 0]])


def test_numbers_alone_stay_as_they_are():
    X = np.random.default_rng(0).normal(size=(5, 3))
    table, encoded = Table.learn(X, find_categories(X, "from_dtype"))
    assert_array_equal(encoded, table.encode(X))
    assert_array_equal(table.encode(X), X)
    assert len(table.start) == 1


@pytest.mark.parametrize(
    "wanted",
    [["colour", "size"], [2, 3], [-2, -1], [False, False, True, True], np.array([2, 3])],
    ids=["names", "numbers", "from the end", "mask", "array"],
)
def test_categories_by_name_number_and_mask(wanted):
    X, _ = make_mixed(20)
    assert_array_equal(find_categories(X, wanted), [2, 3])
    assert_array_equal(find_categories(X, "from_dtype"), [2, 3])
    assert len(find_categories(X, None)) == 0


def test_containers_give_the_same_rows():
    X, _ = make_mixed(50)
    wanted = find_categories(X, "from_dtype")
    expected = Table.learn(X, wanted)[0].encode(X)
    polars = pl.DataFrame(
        {
            "a": X["a"].to_list(),
            "b": [None if np.isnan(v) else v for v in X["b"]],
            "colour": pl.Series(X["colour"].astype(str).to_list(), dtype=pl.Categorical),
            "size": X["size"].astype(int).to_list(),
        }
    )
    assert_array_equal(Table.learn(polars, wanted)[1], expected)
    assert_array_equal(find_categories(polars, "from_dtype"), [2])
    objects = X.astype(object).to_numpy()
    assert_array_equal(Table.learn(objects, wanted)[1], expected)
    nullable = X.astype({"a": "Float64", "b": "Float64"})
    assert_array_equal(Table.learn(nullable, wanted)[1], expected)


# -------------------------------------------------------------- the density


def test_the_density_of_a_mixed_row_by_hand():
    """One number with mean 1 and variance 4, one symbol of shares 0.75 and 0.25."""
    density = Density.from_parts(
        np.array([[1.0]]),
        np.array([[4.0]]),
        np.ones(1),
        log_missing=np.array([np.log(0.01)]),
        log_share=np.log([[0.75, 0.25]]),
        start=np.array([0, 2]),
    )
    X = np.array([[3.0, 0.0], [3.0, 1.0], [np.nan, 0.0]])
    at = np.zeros((3, 1), dtype=int)
    normal = np.exp(-0.5) / np.sqrt(2 * np.pi * 4)
    expected = np.log([normal * 0.75, normal * 0.25, 0.01 * 0.75])
    assert_allclose(density.log_density(X, at)[:, 0], expected)
    heights = [-0.5, -0.5 + np.log(1 / 3), np.log(0.01)]  # 1 at the centre
    assert_allclose(density.log_kernel(X, at)[:, 0], heights)


def test_shares_by_hand():
    """Levels with 3 and 1 of 4 rows, one never seen; a polytope that holds two of the first."""
    levels, start = np.array([[2.0, 0.0, 0.0], [1.0, 1.0, 0.0]]), np.array([0, 3])
    common = (np.array([3.0, 1.0, 0.0]) + 1 / 3) / 5
    expected = (levels + common) / 3
    shares = smoothed_shares(levels, levels, start)
    assert_allclose(shares, expected)
    assert_allclose(shares.sum(axis=1), 1)
    assert (shares[:, 2] < shares[:, :2].min(axis=1)).all()


def mixed_polytopes(seed=0, n=80):
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(n, 2)) + 50
    numbers[rng.random(n) < 0.3, 1] = np.nan
    symbols = np.column_stack([rng.integers(0, 3, n), np.isnan(numbers[:, 1])])
    X, start = np.column_stack([numbers, symbols]), np.array([0, 4, 6])
    modes = ActivationModes.from_leaves(rng.integers(0, 3, (n, 3)))
    y, weight = rng.integers(0, 2, n), rng.uniform(0.5, 2, n)
    return modes, X, y, weight, start


def test_polytopes_with_missing_values_merge_as_one_batch():
    modes, X, y, weight, start = mixed_polytopes()
    whole = Polytopes.from_rows(modes, X, y, weight, 2, start)
    a, b = (
        Polytopes.from_rows(modes[part], X[part], y[part], weight[part], 2, start)
        for part in (slice(0, 30), slice(30, 80))
    )
    for name in ("counts", "mean", "variance", "observed", "levels"):
        assert_allclose(getattr(a.merge(b), name), getattr(whole, name), atol=1e-9)
    for r, code in enumerate(whole.modes.codes):
        inside = (modes.codes == code).all(axis=1) & ~np.isnan(X[:, 1])
        assert whole.observed[r, 1] == pytest.approx(weight[inside].sum())
        if inside.any():
            mean = np.average(X[inside, 1], weights=weight[inside])
            assert whole.mean[r, 1] == pytest.approx(mean)


def test_geodesic_density_with_missing_values_equals_its_definition():
    modes, X, y, weight, start = mixed_polytopes()
    polytopes = Polytopes.from_rows(modes, X, y, weight, 2, start)
    density = geodesic_density(polytopes, build_index(polytopes.modes), 1e-6, Execution(), start)
    K = reference.similarity(polytopes.modes, modes) * weight
    there = ~np.isnan(X[:, 1])
    near = (K[:, there] * X[there, 1]).sum(axis=1) / K[:, there].sum(axis=1)
    mean = np.where(polytopes.observed[:, 1] > 0, polytopes.mean[:, 1], near)
    assert_allclose(density.mean[:, 1], mean, rtol=1e-9)
    square = (X[there, 1][None] - mean[:, None]) ** 2
    local = (K[:, there] * square).sum(axis=1) / K[:, there].sum(axis=1) + 1e-6
    common = np.average(local, weights=polytopes.size)
    assert_allclose(density.precision[:, 1], 1 / np.sqrt(local * common), rtol=1e-8)
    counts = np.stack([(K * (X[:, 2] == level)).sum(axis=1) for level in range(4)], axis=1)
    total = np.array([weight[X[:, 2] == level].sum() for level in range(4)])
    everyone = (total + 1 / 4) / (total.sum() + 1)
    local_share = (counts + everyone) / (counts.sum(axis=1, keepdims=True) + 1)
    common_share = (total + everyone) / (total.sum() + 1)
    log_share = 0.5 * (np.log(local_share) + np.log(common_share))
    expected = log_share - log_share.max(axis=1, keepdims=True)
    assert_allclose(density.log_share[:, :4], expected, atol=1e-9)


@pytest.mark.parametrize("bandwidth", ["own", "shared"])
def test_densities_side_by_side_are_those_of_one_row_at_a_time(bandwidth):
    modes, X, y, weight, start = mixed_polytopes()
    polytopes = Polytopes.from_rows(modes, X, y, weight, 2, start)
    density = polytope_density(polytopes, 0.1, start)
    if bandwidth == "shared":
        density = replace(density, precision=density.precision[:1])
    index = np.random.default_rng(1).integers(-1, len(polytopes), (80, 5))
    kernel, total = density.log_kernel(X, index), density.log_density(X, index)
    for i, j in np.ndindex(index.shape):
        expected = (-np.inf, 0.0)
        if index[i, j] >= 0:
            expected = row_terms(X[i], index[i, j], density.parts)
        assert (kernel[i, j], total[i, j]) == (expected[0], sum(expected))


def test_a_number_that_nobody_has():
    """A column that is missing in every row of the fit leaves the density finite."""
    modes, X, y, weight, start = mixed_polytopes()
    X[:, 1], X[:, 3] = np.nan, 1
    polytopes = Polytopes.from_rows(modes, X, y, weight, 2, start)
    index = build_index(polytopes.modes)
    for density in (
        geodesic_density(polytopes, index, 1e-6, Execution(), start),
        polytope_density(polytopes, 1e-6, start),
    ):
        assert np.isfinite(density.log_density(X, np.zeros((80, 1), dtype=int))).all()


# ---------------------------------------------------------------- the model

MODELS = {
    "boosting": boosting,
    "forest of numbers": lambda: make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), ["colour", "size"]), remainder="passthrough"
        ),
        small_forest(),
    ),
}


@pytest.mark.parametrize("plan", ["holdout", "cv"])
@pytest.mark.parametrize("setting", [{}, PAPER], ids=["default", "paper"])
@pytest.mark.parametrize("name", MODELS)
def test_mixed_rows(name, setting, plan):
    X, y = make_mixed(900)
    model = GeodesicCalibrator(MODELS[name](), calibration=plan, random_state=0, **setting)
    model.fit(X[:700], y[:700])
    P = model.predict_proba(X[700:])
    assert_allclose(P.sum(axis=1), 1, atol=1e-9)
    assert model.score(X[700:], y[700:]) > 0.8
    far = X[700:].assign(a=1e6)
    assert_allclose(model.predict_proba(far), np.tile(model.priors_, (200, 1)), atol=1e-6)


def test_an_unseen_category_lowers_the_density():
    X, y = make_mixed(900)
    model = GeodesicCalibrator(boosting(), random_state=0).fit(X[:700], y[:700])
    rows = X[700:].copy()
    before = model.score_samples(rows)
    rows["colour"] = pd.Categorical(["violet"] * 200)
    assert (model.score_samples(rows) < before).mean() > 0.99
    assert np.median(model.score_samples(rows)) < np.quantile(before, 0.2)


def test_a_value_that_was_never_missing_lowers_the_density():
    X, y = make_mixed(900)
    model = GeodesicCalibrator(boosting(), random_state=0).fit(X[:700], y[:700])
    rows = X[700:].assign(a=np.nan)
    assert np.median(model.score_samples(rows)) < np.quantile(model.score_samples(X[700:]), 0.2)


def test_missing_values_in_a_forest(blobs):
    X, y = blobs
    rng = np.random.default_rng(0)
    X = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    model = GeodesicCalibrator(small_forest(), random_state=0).fit(X[:500], y[:500])
    assert model.score(X[500:], y[500:]) > 0.8
    reading = model._parent.read(X[:50])
    assert_array_equal(reading.modes.codes, model.estimator_.apply(X[:50]))
    assert_allclose(reading.proba, model.estimator_.predict_proba(X[:50]))


def test_categories_in_an_array_and_in_a_frame_are_the_same():
    X, y = make_mixed(400)
    codes = X.assign(colour=X["colour"].cat.codes, size=X["size"].cat.codes).to_numpy(dtype=float)
    framed = GeodesicCalibrator(boosting(), random_state=0).fit(X, y)
    plain = GeodesicCalibrator(
        boosting(categorical_features=[2, 3]), categorical_features=[2, 3], random_state=0
    ).fit(codes, y)
    assert_allclose(plain.predict_proba(codes), framed.predict_proba(X), atol=1e-9)


def test_columns_that_are_no_numbers_get_a_remedy():
    X, y = make_mixed(100)
    words = X.assign(colour=X["colour"].astype(str))
    with pytest.raises(ValueError, match="column 'colour' holds '.*categorical_features"):
        GeodesicCalibrator(boosting()).fit(words, y)
    with pytest.raises(ValueError, match=r"NaN in column \['b'\].*Pipeline with an imputer"):
        GeodesicCalibrator(small_network()).fit(X[["a", "b"]], y)
    with pytest.raises(ValueError, match="names 'shape', which is not in the table"):
        GeodesicCalibrator(boosting(), categorical_features=["shape"]).fit(X, y)
    with pytest.raises(ValueError, match="holds 9, which is no column of X with 4"):
        GeodesicCalibrator(boosting(), categorical_features=[9]).fit(X, y)
    with pytest.raises(ValueError, match="categorical_features must be"):
        GeodesicCalibrator(boosting(), categorical_features="colour").fit(X, y)
    with pytest.raises(ValueError, match="infinity"):
        GeodesicCalibrator(boosting()).fit(X.assign(a=np.inf), y)
    with pytest.raises(ValueError, match='distance="euclidean" needs numbers'):
        GeodesicCalibrator(boosting(), distance="euclidean").fit(X, y)


def test_a_pipeline_puts_the_density_where_its_last_step_is(blobs):
    X, y = blobs
    pipeline = make_pipeline(StandardScaler(), small_forest())
    model = GeodesicCalibrator(pipeline, calibration="holdout", random_state=0).fit(X * 1e3, y)
    assert np.abs(model.polytopes_.mean).max() < 10  # scaled
    assert_allclose(model.predict_proba(X[:3] * 1e9), np.tile(model.priors_, (3, 1)), atol=1e-9)
    by_hand = GeodesicCalibrator(small_forest(), calibration="holdout", random_state=0)
    rows = model.polytopes_.counts.sum()
    assert rows == by_hand.fit(X * 1e3, y).polytopes_.counts.sum()
