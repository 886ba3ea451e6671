"""Streams: the same sums in any batches and any order, bounded, saved and continued."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import polycal
from polycal import GeodesicCalibrator
from polycal._utils.warnings import DataWarning
from polycal.estimators import batches as batches_module
from polycal.estimators import streaming
from tests.toys.streams import assert_same_sums

X, Y = make_classification(
    6600, 6, n_informative=5, n_redundant=0, n_classes=3, n_clusters_per_class=3, random_state=0
)
PARENT_ROWS, ROWS, NEW = slice(0, 600), np.arange(600, 2600), slice(5600, None)
# Where answers are compared with the truth, the calibration rows must be more than a few.
MANY = np.arange(600, 5600)
PARENTS = {
    "forest": RandomForestClassifier(20, min_samples_leaf=3, random_state=0),
    "boosting": HistGradientBoostingClassifier(max_iter=20, random_state=0),
    "mlp": MLPClassifier((20, 20), max_iter=60, random_state=0),
    "linear": LogisticRegression(),
}
# The first rows are those of the frame wherever streams are compared.
FIRST, REST = ROWS[:500], ROWS[500:]


@pytest.fixture(scope="module")
def parents():
    names = {name: parent for name, parent in PARENTS.items() if name != "mlp"}
    fitted = {name: parent.fit(X[PARENT_ROWS], Y[PARENT_ROWS]) for name, parent in names.items()}
    with pytest.warns(match="Maximum iterations"):
        fitted["mlp"] = PARENTS["mlp"].fit(X[PARENT_ROWS], Y[PARENT_ROWS])
    return fitted


def started(parent, **parameters):
    parameters = {"random_state": 0, "memory_limit": "200MiB", "n_hyperplanes": 128, **parameters}
    return GeodesicCalibrator(FrozenEstimator(parent), **parameters)


def streamed(parent, *batches, **parameters):
    model = started(parent, **parameters)
    for rows in batches:
        model.partial_fit(X[rows], Y[rows])
    return model


@pytest.mark.parametrize("name", list(PARENTS))
def test_neither_batches_nor_order_change_what_is_known(parents, name):
    rng = np.random.default_rng(0)
    whole = streamed(parents[name], FIRST, REST)
    parts = np.array_split(rng.permutation(REST), 7)
    stream = streamed(parents[name], FIRST, *parts)
    assert_same_sums(whole.stream_, stream.stream_)
    whole.recalibrate()
    stream.recalibrate()
    assert_allclose(whole.predict_proba(X[NEW]), stream.predict_proba(X[NEW]), atol=1e-9)
    assert stream.n_rows_seen_ == len(ROWS)
    assert stream.calibration_ == "stream"
    assert_array_equal(stream.classes_, [0, 1, 2])


@pytest.mark.parametrize("name", list(PARENTS))
def test_a_stream_is_about_as_good_as_a_fit(parents, name):
    """A tenth of the rows calibrates both; those of a fit give their labels in the end."""
    losses, how = [], {"calibration": "holdout", "search": "sampled", "calibration_size": 0.1}
    for seed in range(3):
        fresh = started(parents[name], random_state=seed, **how).fit(X[MANY], Y[MANY])
        parts = MANY[:500], MANY[500:]
        stream = streamed(parents[name], *parts, random_state=seed).recalibrate()
        losses.append([log_loss(Y[NEW], model.predict_proba(X[NEW])) for model in (fresh, stream)])
    fit_loss, stream_loss = np.mean(losses, axis=0)
    assert stream_loss < fit_loss + 0.01
    assert stream_loss < log_loss(Y[NEW], parents[name].predict_proba(X[NEW])) - 0.05
    far = np.full((1, 6), 1e4)
    assert_allclose(stream.predict_proba(far)[0], stream.priors_, atol=1e-6)
    assert stream.explain(X[NEW][:2]).rows[0].tolist() == []


def test_streams_of_parts_merge_into_that_of_all(parents):
    whole = streamed(parents["forest"], FIRST, REST).stream_
    begun = started(parents["forest"])
    begun.partial_fit(X[FIRST], Y[FIRST])
    merged = begun.stream_
    for rows in (REST[1000:], REST[:0], REST[:400], REST[400:1000]):
        part = merged.without_rows()
        if len(rows):
            batch = begun._read_batch(X[rows], Y[rows], None)
            part.add(*batch[:3], begun._execution)
        merged.merge(part, begun._execution)
    assert_same_sums(whole, merged)


def test_a_tenth_is_set_apart_and_votes_for_nothing(parents):
    stream = streamed(parents["forest"], FIRST, REST).stream_
    n_apart = len(stream.reservoir)
    assert 150 < n_apart < 250
    assert stream.class_weight.sum() + n_apart == len(ROWS)
    assert stream.aged_rows == stream.class_weight.sum()


def test_weights_count_as_copies_do(parents):
    weight = np.random.default_rng(0).integers(0, 3, len(FIRST)).astype(float)
    weighted = started(parents["linear"]).partial_fit(X[FIRST], Y[FIRST], weight).stream_
    assert weighted.n_rows == (weight > 0).sum()
    apart = weighted.reservoir.weight.sum()
    assert_allclose(weighted.class_weight.sum() + apart, weight.sum())
    halves = started(parents["linear"]).partial_fit(X[FIRST], Y[FIRST], 0.5 * weight).stream_
    rows = weighted.parent.tables.unit * weighted.parent.tables.look_up(_sides(weighted))
    half = halves.parent.tables.unit * halves.parent.tables.look_up(_sides(halves))
    assert_allclose(2 * half, 4 * rows, rtol=1e-9)  # both are in rows of mean weight, twice


def _sides(stream):
    return stream.parent.stored.to_save().modes


def test_rows_that_repeat_by_nature_are_drawn_one_by_one(parents):
    cells = np.random.default_rng(0).integers(0, 2, (3000, 6)).astype(float)
    y = (cells.sum(axis=1) + np.random.default_rng(1).integers(0, 2, 3000) > 3).astype(int)
    parent = LogisticRegression().fit(cells[:500], y[:500])
    model = started(parent).partial_fit(cells[500:], y[500:])
    assert not model.stream_.frame.by_content
    assert len(model.polytopes_) == 64  # no cell was set apart whole
    assert streamed(parents["linear"], FIRST).stream_.frame.by_content


def test_the_saved_stream_goes_on_bit_for_bit(parents, tmp_path):
    parts = np.array_split(REST, 4)
    model = streamed(parents["boosting"], FIRST, *parts[:2])
    model.save(tmp_path / "m.polycal")
    again = polycal.load(tmp_path / "m.polycal")
    assert_array_equal(again.predict_proba(X[NEW]), model.predict_proba(X[NEW]))
    for some in (model, again):
        for rows in parts[2:]:
            some.partial_fit(X[rows], Y[rows])
    assert_array_equal(again.predict_proba(X[NEW]), model.predict_proba(X[NEW]))
    one, other = model.stream_.parent, again.stream_.parent
    assert_array_equal(one.tables.to_save().total, other.tables.to_save().total)
    assert_array_equal(one.stored.to_save().values, other.stored.to_save().values)


def test_old_rows_fade(parents):
    """Labels that change in the middle: only a stream with a half-life follows."""
    order = np.random.default_rng(0).permutation(len(X) - 600)[:2400] + 600
    changed = (Y + 1) % 3
    losses = {}
    for half_life in (None, 150.0):
        model = started(parents["forest"], half_life=half_life)
        for n, rows in enumerate(np.array_split(order, 12)):
            model.partial_fit(X[rows], Y[rows] if n < 8 else changed[rows])
        model.recalibrate()
        losses[half_life] = log_loss(changed[NEW], model.predict_proba(X[NEW]))
    assert losses[150.0] < losses[None] - 0.1
    assert model.stream_.n_effective < 250
    with pytest.raises(ValueError, match="do not merge"):
        model.stream_.merge(model.stream_.without_rows(), model._execution)


def test_weights_that_grow_are_counted_in_larger_units(parents):
    plain, small = (started(parents["linear"], half_life=h) for h in (1e9, 1.0))
    for rows in np.array_split(FIRST, 5):
        plain.partial_fit(X[rows], Y[rows])
        small.partial_fit(X[rows], Y[rows])
    assert small.stream_.base > 0
    assert np.isfinite(small.stream_.class_weight).all()
    assert small.stream_.n_effective < 3
    assert_allclose(plain.stream_.n_effective, plain.stream_.class_weight.sum(), rtol=1e-4)


def test_rows_that_have_faded_leave_nothing(parents):
    model = started(parents["forest"], half_life=1)
    for rows in np.array_split(ROWS[:1800], 3):  # as long as 600 half-lives
        with pytest.warns(match="independent calibration rows"):
            model.partial_fit(X[rows], Y[rows])
    size = model.polytopes_.size
    assert len(size) < 400
    assert (size > 0).all()
    assert np.isfinite(model.predict_proba(X[NEW])).all()
    with pytest.raises(ValueError, match=r"half_life is 9.0, and the stream began with 1"):
        model.set_params(half_life=9.0).partial_fit(X[NEW], Y[NEW])


def batches(rows=ROWS, size=300):
    return [(X[some], Y[some]) for some in np.array_split(rows, len(rows) // size)]


def test_a_fit_of_batches_depends_on_neither_order_nor_batches(parents):
    one = started(parents["boosting"]).fit_batches(batches())
    shuffled = np.random.default_rng(0).permutation(ROWS)
    other = started(parents["boosting"]).fit_batches(lambda: iter(batches(shuffled, 90)))
    assert_same_sums(one.stream_, other.stream_)
    assert_allclose(one.predict_proba(X[NEW]), other.predict_proba(X[NEW]), atol=1e-9)
    parts = list(one.predict_batches([X[NEW][:100], X[NEW][100:]]))
    assert_array_equal(np.concatenate(parts), one.predict_proba(X[NEW]))
    goes_on = one.partial_fit(X[NEW], Y[NEW])
    assert goes_on.n_rows_seen_ == len(ROWS) + 1000


def test_an_unfitted_parent_is_fitted_on_a_sample_that_is_not_calibrated_on():
    parent = RandomForestClassifier(20, random_state=0)
    model = GeodesicCalibrator(parent, random_state=0, memory_limit="200MiB")
    model.fit_batches(batches(np.arange(2600)), parent_rows=800)
    assert model.n_rows_seen_ == 2600
    known = {row.tobytes() for row in model.stream_.reservoir.X}
    assert 100 < len(known) < 250
    exact = model.estimator_.predict(X[:2600]) == Y[:2600]
    apart = np.array([row.tobytes() in known for row in X[:2600]])
    assert exact[apart].mean() < 0.9 < exact[~apart].mean() + 0.3
    assert log_loss(Y[NEW], model.predict_proba(X[NEW])) < 0.8
    model.partial_fit(X[2600:3100], Y[2600:3100]).recalibrate()  # the parent is that of the fit
    assert model.n_rows_seen_ == 3100
    assert log_loss(Y[3100:], model.predict_proba(X[3100:])) < 0.8


def test_parquet(parents, tmp_path):
    pytest.importorskip("pyarrow")
    names = [f"x{j}" for j in range(6)]
    table = pd.DataFrame(X[ROWS], columns=names)
    parent = HistGradientBoostingClassifier(max_iter=20, random_state=0)
    parent.fit(pd.DataFrame(X[PARENT_ROWS], columns=names), Y[PARENT_ROWS])
    table.assign(label=Y[ROWS]).to_parquet(tmp_path / "big.parquet")
    model = started(parent).fit_batches(tmp_path / "big.parquet", target="label")
    frames = [(table[:900], Y[ROWS][:900]), (table[900:], Y[ROWS][900:])]
    assert_same_sums(model.stream_, started(parent).fit_batches(frames).stream_)
    found = np.concatenate(list(model.predict_batches(tmp_path / "big.parquet", "predict")))
    assert_array_equal(found, model.predict(table))
    with pytest.raises(ValueError, match="target is missing"):
        started(parent).fit_batches(tmp_path / "big.parquet")
    with pytest.raises(ValueError, match="no column 'lable'"):
        started(parent).fit_batches(tmp_path / "big.parquet", target="lable")


def test_errors_change_nothing(parents):
    model = streamed(parents["linear"], FIRST)
    before = model.predict_proba(X[NEW])
    for rows, labels, message in (
        (X[:3], [0, 1, 7], "y holds .7., which is none of the classes"),
        (X[:3, :4], [0, 1, 2], "features"),
        (X[:3], [0, 1], "label"),
        (np.where(X[:3] > 0, np.nan, X[:3]), [0, 1, 2], "NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(rows, labels)
    with pytest.raises(ValueError, match="classes differ"):
        model.partial_fit(X[:3], [0, 1, 2], classes=[0, 1])
    with pytest.raises(ValueError, match=r"y holds \[7, .* 26, ...\], which is none"):
        model.partial_fit(X[:40], np.arange(7, 47))
    assert_array_equal(model.predict_proba(X[NEW]), before)
    assert model.n_rows_seen_ == len(FIRST)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"posterior": "kernel"}, 'a stream needs posterior="pooled"'),
        ({"search": "exact"}, "not possible"),
        ({"half_life": -1}, "half_life"),
        ({"half_life": 1e-300}, "half_life is a number of rows, of at least 1"),
        ({"calibration": "oob"}, "calibration='oob' is not possible"),
        ({"memory_limit": "1MiB"}, "memory_limit is too small .* Use at least"),
    ],
)
def test_parameters_that_a_stream_cannot_follow(parents, parameters, message):
    model = started(parents["forest"]).set_params(**parameters)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X[FIRST], Y[FIRST])
    assert not hasattr(model, "stream_")


def test_a_parent_that_is_not_fitted_cannot_take_more_rows(parents):
    model = started(parents["forest"]).set_params(estimator=RandomForestClassifier())
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match="no attribute") as error:
        model.partial_fit(X[FIRST], Y[FIRST])
    assert "FrozenEstimator(parent)" in str(error.value.__cause__)


def test_a_short_stream_has_no_answer_yet(parents):
    model = started(parents["forest"]).partial_fit(X[600:640], Y[600:640])
    with pytest.raises(NotFittedError):
        model.predict_proba(X[:2])
    with pytest.raises(NotFittedError, match="too short .* calibration rows, of at least 20"):
        model.recalibrate()
    model.partial_fit(X[ROWS], Y[ROWS])
    assert model.predict_proba(X[:2]).shape == (2, 3)


def test_a_fit_ends_the_stream(parents):
    model = streamed(parents["linear"], FIRST)
    model.set_params(calibration="holdout").fit(X[FIRST], Y[FIRST])
    assert not hasattr(model, "stream_")
    assert model.partial_fit(X[REST], Y[REST]).n_rows_seen_ == len(ROWS)
    model.fit_batches([(X[FIRST], Y[FIRST])]).partial_fit(X[REST], Y[REST])
    assert model.n_rows_seen_ == len(ROWS)


def test_a_second_pass_that_is_another_one(parents):
    passes = []

    def begin():
        passes.append(1)
        return iter(batches(ROWS if len(passes) == 1 else ROWS[:-300]))

    with pytest.raises(ValueError, match="2000 rows in the first pass and 1700 in the second"):
        started(parents["linear"]).fit_batches(begin)


def test_batches_that_are_none(parents):
    model = started(parents["forest"])
    with pytest.raises(TypeError, match="only once"):
        model.fit_batches(iter(batches()))
    with pytest.raises(TypeError, match="batch 0 is no tuple"):
        model.fit_batches([X])
    with pytest.raises(TypeError, match="path of a Parquet file"):
        model.fit_batches(7)
    with pytest.raises(ValueError, match="no row"):
        model.fit_batches([(X[:0], Y[:0])])
    with pytest.raises(ValueError, match="too few rows to fit in batches"):
        model.fit_batches([(X[:50], Y[:50])])


def test_a_category_that_the_stream_did_not_begin_with():
    rng = np.random.default_rng(0)
    n = 1500
    table = pd.DataFrame({"x": rng.normal(size=n), "city": rng.choice(["a", "b", "c"], n)})
    table["city"] = table["city"].astype("category")
    y = (table["x"] + (table["city"] == "a") + rng.normal(size=n) > 0).astype(int)
    parent = HistGradientBoostingClassifier(max_iter=10, categorical_features="from_dtype")
    parent.fit(table[:500], y[:500])
    model = started(parent).partial_fit(table[500:1000], y[500:1000])
    model.partial_fit(table[1000:], y[1000:])
    other = table[:3].assign(city=pd.Categorical(["a", "z", "b"]))
    with pytest.raises(ValueError, match="column 'city' holds 'z', which is none"):
        model.partial_fit(other, y[:3])
    numbers = table[:3].assign(city=[0, 1, 2])
    with (
        pytest.warns(match="held categories in the fit, and holds numbers now"),
        pytest.raises(ValueError, match="column 'city' holds 0, which is none"),
    ):
        model.partial_fit(numbers, y[:3])
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(table.rename(columns={"x": "t"})[:3], y[:3])


def cities(n=1200):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=n), "city": rng.choice(["a", "b"], n)})
    table.loc[700, "city"] = "rare"
    y = (table["x"] + (table["city"] == "a") + rng.normal(size=n) > 0).astype(int)
    return table.astype({"city": "category"}), y.to_numpy()


def test_every_category_is_known_also_one_that_a_sample_lacks(monkeypatch):
    monkeypatch.setattr(streaming, "FRAME_ROWS", 50)
    table, y = cities()
    parent = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype")
    parent.fit(table, y)
    parts = [slice(0, 500), slice(500, 1200)]
    models = [
        started(parent).fit_batches([(table[some], y[some]) for some in order])
        for order in (parts, parts[::-1])
    ]
    levels = models[0].stream_.frame.table.levels[0]
    assert set(levels.tolist()) == {"a", "b", "rare"}
    assert_same_sums(models[0].stream_, models[1].stream_)
    monkeypatch.setattr(batches_module, "MOST_LEVELS", 2)
    with pytest.warns(DataWarning, match="column 'city' has more than 1000 levels"):
        started(parent).fit_batches([(table[some], y[some]) for some in parts])


def test_a_parent_is_fitted_on_every_category(monkeypatch):
    """Those that come before the encoder of a Pipeline are texts."""
    table, y = cities()
    encoder = ColumnTransformer([("city", OneHotEncoder(), ["city"])], remainder="passthrough")
    parent = make_pipeline(encoder, LogisticRegression())
    model = GeodesicCalibrator(parent, random_state=0, memory_limit="200MiB")
    text = table.astype({"city": object})
    model.fit_batches([(text[:500], y[:500]), (text[500:], y[500:])], parent_rows=60)
    assert set(model.estimator_[0].transformers_[0][1].categories_[0]) == {"a", "b", "rare"}
