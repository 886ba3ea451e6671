"""A stream that goes on from a plain fit holds what one that got the same rows would hold."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier

import polycal
from polycal import GeodesicCalibrator
from polycal.calibration.stream import Frame, Stream
from polycal.parents import Adapter
from tests.toys.streams import assert_same_sums

X, Y = make_classification(
    2200, 6, n_informative=5, n_redundant=0, n_classes=3, n_clusters_per_class=2, random_state=0
)
PARENT, FIT, CAL, MORE = (slice(a, b) for a, b in ((0, 500), (500, 900), (900, 1100), (1100, 1600)))
NEW = slice(1600, None)
PARENTS = {
    "forest": RandomForestClassifier(20, min_samples_leaf=3, random_state=0),
    "boosting": HistGradientBoostingClassifier(max_iter=15, random_state=0),
    "network": MLPClassifier((12, 12), max_iter=40, random_state=0),
    "classifier": LogisticRegression(),
}


@pytest.fixture(scope="module", params=PARENTS)
def parent(request):
    with pytest.warns() if request.param == "network" else nullcontext():
        return PARENTS[request.param].fit(X[PARENT], Y[PARENT])


def started(parent, **parameters):
    parameters = {"random_state": 0, "memory_limit": "200MiB", "n_hyperplanes": 64, **parameters}
    return GeodesicCalibrator(FrozenEstimator(parent), **parameters)


def stream_of(model, rows, *parts):
    """A stream with the frame of some rows, to which ``parts`` are added: X, y, weight, apart."""
    other = clone(model)
    other.classes_ = model.classes_
    reading = other._read_batch(*rows, Adapter.find(other.estimator), True)[0]
    settings = other._stream_options(len(model.classes_)).reference
    stream = Stream.empty(Frame.learn(reading, settings), reading, settings, None)
    for *batch, apart in parts:
        reading, codes, weights, _ = other._read_batch(*batch)
        stream.add(reading, codes, weights, other._execution, apart=apart)
    return stream


def test_a_fit_and_a_stream_of_the_same_rows_hold_the_same(parent, tmp_path):
    model = started(parent).fit(X[FIT], Y[FIT], X_cal=X[CAL], y_cal=Y[CAL])
    before = model.predict_proba(X[NEW])
    model.save(tmp_path / "m.polycal")
    loaded = polycal.load(tmp_path / "m.polycal")
    assert_array_equal(loaded.predict_proba(X[NEW]), before)
    for some in (model, loaded):
        some.partial_fit(X[MORE], Y[MORE])
        assert some.n_rows_seen_ == 1100
        assert some.calibration_ == "stream"
    parts = [(X[FIT], Y[FIT], None, False), (X[CAL], Y[CAL], None, True)]
    parts += [(X[MORE], Y[MORE], None, None)]
    assert_same_sums(stream_of(model, (X[FIT], Y[FIT], None), *parts), model.stream_)
    assert_same_sums(model.stream_, loaded.stream_)
    assert_array_equal(model.predict_proba(X[NEW]), loaded.predict_proba(X[NEW]))
    model.save(tmp_path / "m.polycal")
    again = polycal.load(tmp_path / "m.polycal").partial_fit(X[NEW][:300], Y[NEW][:300])
    model.partial_fit(X[NEW][:300], Y[NEW][:300])
    assert_array_equal(model.predict_proba(X[NEW]), again.predict_proba(X[NEW]))


@pytest.fixture(scope="module")
def boosting():
    return PARENTS["boosting"].fit(X[PARENT], Y[PARENT])


def test_more_rows_help_after_a_plain_fit(boosting):
    model = started(boosting, calibration="holdout").fit(X[FIT], Y[FIT])
    before = log_loss(Y[NEW], model.predict_proba(X[NEW]))
    model.partial_fit(X[MORE], Y[MORE])
    assert log_loss(Y[NEW], model.predict_proba(X[NEW])) < before - 0.01
    assert model.n_rows_seen_ == 900
    votes = model.stream_.class_weight.sum()
    assert votes + len(model.stream_.reservoir) == 900
    assert 390 < votes - 0.9 * 500 + 120 < 460  # 280 of the fit, nine tenths of the others


@pytest.mark.parametrize("search", ["auto", "sampled"])
def test_weights_missing_values_categories_and_far_values(search, tmp_path):
    """All that has sums of its own: nothing of it is lost."""
    rng = np.random.default_rng(0)
    n = 1500
    table = pd.DataFrame({"x": rng.standard_t(1.1, n), "z": rng.normal(size=n).round(1)})
    table.loc[rng.random(n) < 0.2, "z"] = np.nan
    table["city"] = pd.Categorical(rng.choice(["a", "b", "c"], n))
    y = np.where(table["x"] + 2 * (table["city"] == "a") + rng.normal(size=n) > 0, "yes", "no")
    weight = rng.integers(0, 4, n) * 2.5
    parent = HistGradientBoostingClassifier(max_iter=10, categorical_features="from_dtype")
    parent.fit(table[:400], y[:400])
    fit, more, cal = slice(400, 900), slice(900, 1200), slice(1200, None)
    model = started(parent, search=search)
    model.fit(table[fit], y[fit], weight[fit], X_cal=table[cal], y_cal=y[cal])
    assert len(model.model_.start.clipped_polytope) > 0
    model.partial_fit(table[more], y[more], weight[more])
    unit = weight[fit][weight[fit] > 0].mean()
    parts = [(table[fit], y[fit], weight[fit], False)]
    parts += [(table[cal], y[cal], np.full(300, unit), True)]
    parts += [(table[more], y[more], weight[more], None)]
    counted = weight[fit] > 0
    rows = (table[fit][counted], y[fit][counted], None)
    assert_same_sums(stream_of(model, rows, *parts), model.stream_)
    model.save(tmp_path / "m.polycal")
    loaded = polycal.load(tmp_path / "m.polycal")
    assert_array_equal(loaded.predict_proba(table[cal]), model.predict_proba(table[cal]))


def test_rows_of_a_fit_fade_as_those_of_its_end(boosting):
    half_life = 200.0
    model = started(boosting, half_life=half_life)
    model.fit(X[FIT], Y[FIT], X_cal=X[CAL], y_cal=Y[CAL])
    stream = model.partial_fit(X[MORE], Y[MORE]).stream_
    assert_allclose(stream.unit * stream.class_weight.sum(), stream.n_effective)
    aged = 2.0 ** (-(1100 - np.arange(600, 1100)) / half_life)
    votes = 400 * 2.0 ** (-500 / half_life) + 0.9 * aged.sum()
    assert_allclose(stream.n_effective, votes, rtol=0.05)  # nine tenths of the rows, at random
    assert stream.reservoir.time.min() == 600 / half_life
    model.set_params(half_life=1).fit(X[FIT], Y[FIT], X_cal=X[CAL], y_cal=Y[CAL])
    model.partial_fit(X[MORE], Y[MORE])
    assert np.isfinite(model.predict_proba(X[NEW])).all()


@pytest.mark.parametrize("options", [{"search": "exact"}, {"groups": np.arange(400) // 4}])
def test_fits_that_no_stream_goes_on_from(boosting, options):
    parameters = {"search": options.pop("search", "auto"), "calibration": "holdout"}
    model = started(boosting, **parameters).fit(X[FIT], Y[FIT], **options)
    model.set_params(search="auto")
    before = model.predict_proba(X[NEW])
    with pytest.raises(ValueError, match="cannot go on from this fit: its parent was not frozen"):
        model.partial_fit(X[MORE], Y[MORE])
    assert not hasattr(model, "stream_")
    assert_array_equal(model.predict_proba(X[NEW]), before)


def test_a_fit_with_few_calibration_rows(boosting):
    with pytest.warns(match="calibration rows"):
        model = started(boosting).fit(X[FIT], Y[FIT], X_cal=X[CAL][:15], y_cal=Y[CAL][:15])
    with pytest.raises(ValueError, match="15 calibration rows, of at least 20. Fit it again"):
        model.partial_fit(X[MORE], Y[MORE])
    assert not hasattr(model, "stream_")


def test_errors_leave_the_fit_as_it_was(boosting):
    model = started(boosting).fit(X[FIT], Y[FIT], X_cal=X[CAL], y_cal=Y[CAL])
    before = model.predict_proba(X[NEW])
    with pytest.raises(ValueError, match="none of the classes"):
        model.partial_fit(X[MORE], Y[MORE] + 5)
    with pytest.raises(ValueError, match="classes differ"):
        model.partial_fit(X[MORE], Y[MORE], classes=[0, 1])
    assert not hasattr(model, "stream_")
    assert_array_equal(model.predict_proba(X[NEW]), before)
