"""explain: verdicts that keep their false-alarm levels, and the terms behind them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from polycal import PAPER, GeodesicCalibrator, KernelDensityForest, KernelDensityNetwork

X, y = load_wine(return_X_y=True)


MODELS = {
    "forest": KernelDensityForest(30, random_state=0),
    "holdout": KernelDensityForest(30, calibration="holdout", random_state=0),
    "paper": KernelDensityForest(30, random_state=0, **PAPER),
    "euclidean": KernelDensityForest(30, distance="euclidean", random_state=0),
    "network": KernelDensityNetwork((16, 16), max_iter=40, random_state=0),
}


@pytest.fixture(scope="module", params=list(MODELS))
def model(request):
    return MODELS[request.param].fit(X, y)


def test_one_split_by_hand():
    """A tree with one split on x0 has two polytopes, each with its rows."""
    rows = np.array([[0.0, 5.0], [2.0, 7.0], [10.0, 5.0], [12.0, 7.0]])
    stump = DecisionTreeClassifier(max_depth=1, random_state=0)
    model = GeodesicCalibrator(stump, bandwidth="polytope", regularization=1.0)
    model.fit(rows, [0, 0, 1, 1], X_cal=np.add(rows, [0.5, 0.25]), y_cal=[0, 0, 1, 1])
    found = model.explain([[1.0, 6.0], [15.0, 6.0]])
    assert [sorted(r.tolist()) for r in found.rows] == [[0, 1], [2, 3]]
    np.testing.assert_array_equal(found.counts, [[2, 0], [0, 2]])
    np.testing.assert_array_equal(found.similarity, [1.0, 1.0])
    # Means (1, 6) and (11, 6); variance of each feature 1, and 1 for regularization.
    np.testing.assert_allclose(found.surprise, [[0.0, 0.0], [0.5 * 16 / 2, 0.0]])
    names, surprise = found.top_features(1)
    assert names.tolist() == [["x0"], ["x0"]]
    np.testing.assert_allclose(surprise[:, 0], [0.0, 4.0])


def test_agrees_with_the_other_methods(model):
    new = np.concatenate([X, X * 1.5, X * 50])
    found = model.explain(new)
    np.testing.assert_array_equal(found.score, model.score_samples(new))
    np.testing.assert_array_equal(found.weight, model.in_distribution(new))
    similarity, polytope = model.nearest(new)
    np.testing.assert_allclose(found.similarity, similarity[:, 0])
    np.testing.assert_array_equal(found.polytope, polytope[:, 0])
    assert found.thresholds[0] == model.out_floor_
    np.testing.assert_array_equal(found.verdict == "out", found.score < model.out_floor_)
    assert len(found) == len(new)


def test_surprises_add_up_to_the_kernel(model):
    found = model.explain(X * 1.2)
    kernel = model.model_.reference.density.log_kernel(X * 1.2, found.polytope[:, None])[:, 0]
    np.testing.assert_allclose(found.surprise.sum(axis=1), -kernel)


def test_training_rows_are_those_of_the_polytope(model):
    found = model.explain(X)
    modes = model.model_.parent.read(X).modes.codes
    stored = model.polytopes_.modes.codes
    for i in range(0, len(X), 7):
        same = np.flatnonzero((modes == stored[found.polytope[i]]).all(axis=1))
        assert set(found.rows[i]) <= set(same)
        assert len(found.rows[i]) == found.counts[i].sum()
        np.testing.assert_array_equal(np.bincount(y[found.rows[i]], minlength=3), found.counts[i])


def test_ids_count_rows_of_weight_zero():
    weight = np.ones(len(X))
    weight[::3] = 0.0
    model = KernelDensityForest(20, calibration="holdout", random_state=0).fit(X, y, weight)
    used = np.concatenate(model.explain(X).rows)
    assert not np.isin(used, np.arange(0, len(X), 3)).any()
    kept = X[used]
    modes = model.model_.parent.read(kept).modes.codes
    polytope = np.repeat(model.explain(X).polytope, [len(r) for r in model.explain(X).rows])
    np.testing.assert_array_equal(modes, model.polytopes_.modes.codes[polytope])


def test_verdict_follows_the_thresholds(model):
    found = model.explain(np.concatenate([X, X * 1.3, X * 1e3]))
    low, high = found.thresholds
    assert low <= high
    expected = np.where(
        found.score < low, "out", np.where(found.score < high, "edge", "in distribution")
    )
    np.testing.assert_array_equal(found.verdict, expected)
    assert (found.verdict[-len(X) :] == "out").all()


def test_false_alarms_of_each_verdict():
    """Rows in distribution are out, or at most at the edge, as often as the levels allow."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(9000, 3))
    label = (rows[:, 0] + 0.5 * rng.normal(size=9000) > 0).astype(int)
    parent = RandomForestClassifier(20, min_samples_leaf=5, random_state=0)
    model = GeodesicCalibrator(parent, false_alarm=0.05, calibration="holdout", random_state=0)
    found = model.fit(rows[:3000], label[:3000]).explain(rows[3000:])
    assert found.levels == (0.05, 0.25)
    # 900 calibration rows: the standard error of the share has their part too.
    for share, level in zip(
        [(found.verdict == "out").mean(), (found.verdict != "in distribution").mean()],
        found.levels,
        strict=True,
    ):
        error = np.sqrt(level * (1 - level) * (1 / 6000 + 1 / 900))
        assert abs(share - level) < 4 * error
    np.testing.assert_allclose(found.p_value.mean(), 0.5, atol=0.05)


@pytest.mark.parametrize(("false_alarm", "edge"), [(0.01, 0.05), (0.2, 0.5), (0.6, 0.6)])
def test_edge_level(false_alarm, edge):
    model = KernelDensityForest(20, false_alarm=false_alarm, random_state=0).fit(X, y)
    assert model.explain(X).levels == (false_alarm, pytest.approx(edge))


def test_a_floor_set_by_hand_leaves_the_verdict():
    """The thresholds come from the calibration rows; the floor shapes the weight."""
    auto = KernelDensityForest(20, random_state=0).fit(X, y)
    by_hand = KernelDensityForest(20, floor=1e6, random_state=0).fit(X, y)
    np.testing.assert_array_equal(auto.explain(X).verdict, by_hand.explain(X).verdict)
    assert by_hand.explain(X).weight.max() == 0.0


def test_nothing_agrees():
    """Two one-leaf-apart trees: a row that no tree reads as any training row is out."""
    rows = np.array([[0.0, 0.0], [0.1, 0.1], [1.0, 1.0], [1.1, 1.1]] * 5)
    label = np.array([0, 0, 1, 1] * 5)
    model = KernelDensityForest(40, max_features=1, random_state=0).fit(rows, label)
    found = model.explain([[0.0, 1e4]])
    assert found.verdict[0] == "out"
    assert found.polytope[0] >= 0
    assert found.top_features(1)[0][0, 0] == "x1"


def test_the_feature_that_was_changed_is_found():
    data = load_iris(as_frame=True)
    model = KernelDensityForest(50, random_state=0).fit(data.data, data.target)
    rng = np.random.default_rng(0)
    wrong = rng.integers(4, size=len(data.data))
    new = data.data.to_numpy().copy()
    new[np.arange(len(new)), wrong] += 100
    found = model.explain(pd.DataFrame(new, columns=data.data.columns))
    names = np.array(data.data.columns)[wrong]
    np.testing.assert_array_equal(found.top_features(1)[0][:, 0], names)
    assert (found.verdict == "out").all()


def test_categories_and_missing_values():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.normal(50, 10, 400), "ward": rng.choice(["A", "B"], 400)})
    table["dose"] = rng.normal(size=400)
    table.loc[::10, "dose"] = np.nan
    table["ward"] = table["ward"].astype("category")
    label = (table["age"] > 50).astype(int)
    parent = HistGradientBoostingClassifier(max_iter=10, random_state=0)
    model = GeodesicCalibrator(parent, random_state=0).fit(table, label)
    row = table.iloc[1:2]
    new = pd.concat([row, row.assign(ward=pd.Categorical(["C"])), row.assign(age=np.nan)])
    new["ward"] = new["ward"].astype("category")
    found = model.explain(new)
    assert found.features == ["age", "ward", "dose"]
    plain, ward, age = found.surprise
    assert ward[1] > plain[1] + 2
    assert age[0] == pytest.approx(np.log(2 * 401))  # half a row in n + 1, never missing before
    kernel = model.model_.reference.density.log_kernel(
        model.model_.reference.table.encode(new), found.polytope[:, None]
    )
    np.testing.assert_allclose(found.surprise.sum(axis=1), -kernel[:, 0])


@pytest.mark.parametrize(
    ("steps", "names"),
    [
        ([StandardScaler()], list("ab")),
        ([PCA(2)], ["pca0", "pca1"]),
        ([FunctionTransformer(np.sqrt, feature_names_out=None)], ["x0", "x1"]),
        (
            [make_column_transformer((OneHotEncoder(), ["b"]), remainder="passthrough")],
            ["onehotencoder__b_0.0", "onehotencoder__b_1.0", "remainder__a"],
        ),
    ],
)
def test_names_in_a_pipeline(steps, names):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.uniform(size=60), "b": rng.integers(2, size=60) * 1.0})
    parent = make_pipeline(*steps, RandomForestClassifier(10, random_state=0))
    if isinstance(steps[0], FunctionTransformer):
        table = table.to_numpy()
    model = GeodesicCalibrator(parent, calibration="cv", random_state=0)
    model.fit(table, rng.integers(2, size=60))
    assert model.explain(table[:3]).features == names


def test_frame():
    model = KernelDensityForest(30, random_state=0).fit(X, y)
    found = model.explain(X[:4])
    frame = found.to_frame(n_features=2)
    assert list(frame.columns)[-4:] == ["feature_1", "surprise_1", "feature_2", "surprise_2"]
    assert frame["rows"][0] == found.rows[0].tolist()
    np.testing.assert_array_equal(frame["weight"], found.weight)
    np.testing.assert_array_equal(frame["surprise_1"], found.surprise.max(axis=1))


def test_bad_input():
    with pytest.raises(NotFittedError):
        KernelDensityForest().explain(X)
    found = KernelDensityForest(20, random_state=0).fit(X, y).explain(X[:2])
    with pytest.raises(ValueError, match="k must be"):
        found.top_features(0)
    with pytest.raises(ValueError, match="features"):
        MODELS["forest"].fit(X, y).explain(X[:, :3])


def test_printed_and_in_a_notebook():
    model = KernelDensityForest(30, random_state=0).fit(X[::2], y[::2])
    rows = pd.DataFrame(X[1::2], columns=[f"<f{j}>" for j in range(X.shape[1])])
    why = model.explain(rows.to_numpy())
    head, _, first, *others = repr(why).splitlines()
    assert head.split() == ["row", "verdict", "trust", "p-value", "most", "surprising", "features"]
    assert first.startswith("0 ")
    assert why.verdict[0] in first
    assert len([line for line in others if line[:1].isdigit()]) == 9
    assert f"... and {len(rows) - 10} more rows" in repr(why)
    assert why.guarantee.split()[0] in repr(why)
    assert why._repr_html_().count("<tr>") == 11
    assert "more rows" not in repr(model.explain(X[:3]))


def test_the_index_of_a_frame_is_kept():
    table = pd.DataFrame(X, columns=[f"f{j}" for j in range(X.shape[1])])
    table.index = [f"wine {i}" for i in range(len(table))]
    model = KernelDensityForest(30, random_state=0).fit(table[::2], y[::2])
    why = model.explain(table[1::2])
    assert list(why.to_frame().index) == list(table.index[1::2])
    assert "\nwine 1 " in repr(why)
    assert list(model.explain_answer(model.answer(table[:2])).to_frame().index) == [0, 1]
