"""The fitted model: its one answer, its invariances, and that it does not know how it is run."""

from __future__ import annotations

import pickle
from dataclasses import fields, is_dataclass, replace
from typing import get_type_hints

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.frozen import FrozenEstimator

from polycal import PAPER, GeodesicCalibrator, load
from polycal.calibration.fitted_model import FittedModel, check_proba
from polycal.calibration.reference_set import ReferenceSet
from polycal.core.execution import Execution
from polycal.persistence.state import pack_part
from polycal.persistence.values import Packer
from tests.toys.models import small_forest, small_network
from tests.toys.settings import SETTINGS


@pytest.mark.parametrize("setting", [{}, PAPER], ids=["default", "paper"])
@pytest.mark.parametrize("parent", [small_forest, small_network], ids=["forest", "network"])
class TestInvariance:
    """Permuting rows, trees or neurons changes nothing; relabelling permutes columns."""

    def fit(self, parent, setting, data, order=None, labels=None):
        X, y = data
        fitted = parent().fit(X[:300], y[:300] if labels is None else labels[:300])
        y = y if labels is None else labels
        order = np.arange(300) if order is None else order
        model = GeodesicCalibrator(FrozenEstimator(fitted), **setting)
        return model.fit(X[:300][order], y[:300][order], X_cal=X[300:500], y_cal=y[300:500])

    def test_rows(self, parent, setting, blobs):
        order = np.random.default_rng(0).permutation(300)
        a = self.fit(parent, setting, blobs)
        b = self.fit(parent, setting, blobs, order)
        X = blobs[0][500:]
        assert_allclose(b.predict_proba(X), a.predict_proba(X), atol=1e-7)

    def test_parts_of_the_parent(self, parent, setting, blobs):
        a = self.fit(parent, setting, blobs)
        X, y = blobs
        expected = a.predict_proba(X[500:])
        other = a.estimator_
        rng = np.random.default_rng(0)
        if parent is small_forest:
            other.estimators_ = [other.estimators_[t] for t in rng.permutation(20)]
        else:
            p = rng.permutation(16)
            other.coefs_[0], other.intercepts_[0] = other.coefs_[0][:, p], other.intercepts_[0][p]
            other.coefs_[1] = other.coefs_[1][p]
        model = GeodesicCalibrator(FrozenEstimator(other), **setting)
        model.fit(X[:300], y[:300], X_cal=X[300:500], y_cal=y[300:500])
        assert_allclose(model.predict_proba(X[500:]), expected, atol=1e-7)

    def test_relabelling_permutes_columns(self, parent, setting, iris):
        X, y = iris
        order = np.random.default_rng(0).permutation(150)
        X, y = X[order], y[order]
        names, columns = np.array(["b", "c", "a"]), [2, 0, 1]  # names[columns] is sorted
        fitted = parent().fit(X[:80], y[:80])
        renamed = parent().fit(X[:80], names[y[:80]])
        if parent is small_network:
            # The same network with its outputs in the new order, not a second training run.
            renamed.coefs_ = [*fitted.coefs_[:-1], fitted.coefs_[-1][:, columns]]
            renamed.intercepts_ = [*fitted.intercepts_[:-1], fitted.intercepts_[-1][columns]]
        models = []
        for estimator, labels in ((fitted, y), (renamed, names[y])):
            model = GeodesicCalibrator(FrozenEstimator(estimator), **setting)
            model.fit(X[:80], labels[:80], X_cal=X[80:120], y_cal=labels[80:120])
            models.append(model.predict_proba(X[120:]))
        assert_allclose(models[1], models[0][:, columns], atol=1e-6)


# ------------------------------------------------------------------ the answer


PARENTS = {"forest": small_forest, "network": small_network}


@pytest.fixture(scope="module", params=[f"{s}-{p}" for s in SETTINGS for p in PARENTS])
def asked(request, blobs):
    """A model of each setting and parent, and rows near and far, some of which share no leaf."""
    setting, parent = request.param.split("-")
    X, y = blobs
    model = GeodesicCalibrator(PARENTS[parent](), random_state=0, **SETTINGS[setting])
    rng = np.random.default_rng(0)
    far = X[400:500] * 10.0 ** rng.uniform(0, 6, (100, 1))
    return model.fit(X[:400], y[:400]), np.concatenate([X[400:], far])


def assert_same_explanation(a, b):
    for field in fields(a):
        left, right = getattr(a, field.name), getattr(b, field.name)
        if field.name == "rows":
            assert [r.tolist() for r in left] == [r.tolist() for r in right]
        else:
            assert_array_equal(left, right)


def test_answer_is_what_the_methods_say(asked):
    model, X = asked
    answer = model.answer(X)
    assert len(answer) == len(X)
    assert_array_equal(answer.probabilities, model.predict_proba(X))
    assert_array_equal(model.classes_[answer.most_probable], model.predict(X))
    assert_array_equal(answer.log_f, model.score_samples(X))
    assert_array_equal(answer.alpha, model.in_distribution(X))
    assert_same_explanation(model.explain_answer(answer), model.explain(X))
    alpha, prior = answer.alpha[:, None], model.priors_
    mixture = alpha * np.exp(answer.log_posterior) + (1 - alpha) * prior
    assert_allclose(answer.probabilities, mixture, atol=1e-14)
    assert_array_equal(answer.reading.proba, model.model_.parent.read(X).proba)
    assert_array_equal(answer.X, model.model_.reference.table.encode(X))
    similarity, index = model.nearest(X)
    shown = model.model_.polytopes_shown(answer, 1, Execution())
    assert_array_equal(shown[0], index)
    assert_array_equal(shown[1], similarity)


def test_taken_rows_are_those_rows(asked):
    """In any order, once, twice or not at all."""
    model, X = asked
    answer, rows = model.answer(X), np.array([290, 3, 3, 0, 211])
    some = answer.take(rows)
    assert len(some) == 5
    for name in ("X", "log_f", "alpha", "log_posterior", "probabilities"):
        assert_array_equal(getattr(some, name), getattr(answer, name)[rows])
    assert_array_equal(some.most_probable, answer.most_probable[rows])
    for name in ("similarity", "index"):
        taken, whole = getattr(some.neighbours, name), getattr(answer.neighbours, name)
        assert_array_equal(taken, whole[rows])
    sums = answer.neighbours.class_sums
    if sums is None:
        assert some.neighbours.class_sums is None
    else:
        assert_array_equal(some.neighbours.class_sums, sums[:, rows])
    for name in ("proba", "features"):
        assert_array_equal(getattr(some.reading, name), getattr(answer.reading, name)[rows])
    assert_array_equal(some.reading.modes.codes, answer.reading.modes.codes[rows])
    assert_allclose(some.probabilities, model.predict_proba(X[rows]), rtol=1e-9)
    assert_same_explanation(model.explain_answer(some), model.explain_answer(answer.take(rows)))
    everything = model.explain_answer(answer)
    assert_array_equal(model.explain_answer(some).surprise, everything.surprise[rows])
    assert_array_equal(model.explain_answer(some).verdict, everything.verdict[rows])
    assert len(answer.take(np.empty(0, dtype=int))) == 0


def test_labels_and_energy_are_taken_too(blobs):
    X, y = blobs
    answer = GeodesicCalibrator(small_forest(), random_state=0).fit(X, y).answer(X[:20])
    reading = replace(answer.reading, labels=np.arange(20), energy=np.arange(20.0) / 2)
    some = replace(answer, reading=reading).take(np.array([7, 1])).reading
    assert_array_equal(some.labels, [7, 1])
    assert_array_equal(some.energy, [3.5, 0.5])


# ------------------------------------------------------- how it is run is an argument


def parts_of(value, path="model_", seen=None):
    """Every object that a fitted model holds, with the way to it; not inside the parent."""
    seen = {} if seen is None else seen
    yield path, value
    if id(value) in seen or path == "model_.parent":
        return
    seen[id(value)] = value  # kept, so that no other object takes its place
    inner = dict(vars(value)) if hasattr(value, "__dict__") else {}
    if isinstance(value, (list, tuple)):
        inner = dict(enumerate(value))
    elif isinstance(value, dict):
        inner = value
    for name, part in inner.items():
        yield from parts_of(part, f"{path}.{name}", seen)


def test_a_fitted_model_holds_no_execution(asked):
    model, X = asked
    model.answer(X)
    found = dict(parts_of(model.model_))
    assert "model_.reference.votes.evidence.index" in found  # the search works
    assert not [path for path, part in found.items() if isinstance(part, Execution)]
    names = {path.rsplit(".", 1)[-1] for path in found}
    assert not names & {"n_jobs", "verbose", "execution"}
    types = {type(part) for part in found.values() if is_dataclass(part)}
    assert {FittedModel, ReferenceSet} <= types
    hints = [hint for part in types for hint in get_type_hints(part).values()]
    assert Execution not in hints


def saved_state(model):
    packer = Packer()
    return pack_part(packer, model.model_, "model"), packer.arrays


@pytest.mark.parametrize(
    ("plan", "parent"),
    [
        ("holdout", "forest"),
        ("oob", "forest"),
        ("cv", "forest"),
        ("holdout", "network"),
        ("cv", "network"),
    ],
)
def test_how_a_model_is_fitted_leaves_no_trace(plan, parent, blobs, tmp_path):
    """In blocks of equal size: a matrix product of other blocks may differ in the last bit."""
    X, y = blobs
    with config_context(working_memory=1e-6):
        models = [
            GeodesicCalibrator(PARENTS[parent](), calibration=plan, random_state=0, **how).fit(X, y)
            for how in ({}, {"n_jobs": 2, "verbose": 1}, {"n_jobs": 1, "verbose": 2})
        ]
    plain, *others = models
    node, arrays = saved_state(plain)
    for model in others:
        other_node, other_arrays = saved_state(model)
        assert other_node == node
        assert other_arrays.keys() == arrays.keys()
        for name, values in arrays.items():
            assert_array_equal(other_arrays[name], values, err_msg=name)
        # scikit-learn's trees hold bytes that nobody has set.
        here, there = (pickle.dumps(replace(m.model_, parent=None)) for m in (model, plain))
        assert here == there
        model.save(tmp_path / "other")
        loaded_node, loaded_arrays = saved_state(load(tmp_path / "other"))
        assert loaded_node == node
        for name, values in arrays.items():
            assert_array_equal(loaded_arrays[name], values, err_msg=name)


def test_n_jobs_and_verbose_of_a_query_are_those_of_now(blobs, capfd):
    """A fitted model, or a loaded one, follows its parameters."""
    X, y = blobs
    model = GeodesicCalibrator(small_network(), random_state=0).fit(X, y)
    expected = model.predict_proba(X)
    assert capfd.readouterr().err == ""
    model.set_params(n_jobs=2, verbose=1)
    assert_array_equal(model.predict_proba(X), expected)
    assert "nearest polytopes" in capfd.readouterr().err


@pytest.mark.parametrize("row", [[np.nan, 1.0], [1.2, -0.2], [0.5, 0.4], [np.inf, -np.inf]])
def test_a_parent_without_probabilities_is_an_error(row):
    good = np.full((2, 2), 0.5)
    check_proba(good)
    with pytest.raises(ValueError, match="the parent gives row 1 of X .* no probabilities"):
        check_proba(np.vstack([good[:1], row]))
