"""Model files: the same model to the last bit; ``test_bad_files.py`` has the others."""

from __future__ import annotations

import os

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import polycal
from polycal import PAPER, GeodesicCalibrator, KernelDensityForest, KernelDensityNetwork
from polycal.persistence import UnknownTypeError, WrongModuleError
from tests.toys.model_files import MARKS, PARENTS, again, assert_same, forged
from tests.toys.models import small_forest

pytestmark = MARKS


@pytest.mark.parametrize("name", PARENTS)
def test_round_trip(name, rows, tmp_path):
    X, y = rows
    model = GeodesicCalibrator(PARENTS[name](), calibration="holdout", random_state=0)
    model.fit(X[:450], y[:450])
    module = PARENTS[name]() if name == "skorch" else None
    loaded = again(model, tmp_path, module)
    assert_same(loaded, model, X[400:])
    assert_array_equal(loaded.estimator_.predict_proba(X), model.estimator_.predict_proba(X))
    if name != "skorch":
        assert repr(loaded.get_params()) == repr(model.get_params())
        # What was loaded can be saved, and can be fitted again.
        assert_same(again(loaded, tmp_path), model, X[400:])
        refitted = clone(loaded).fit(X[:450], y[:450])
        assert_array_equal(refitted.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    "options",
    [PAPER, {"distance": "euclidean"}, {"posterior": "parent"}, {"prior": [0.9, 0.1], "floor": -3}],
    ids=["paper", "euclidean", "parent", "prior"],
)
@pytest.mark.parametrize("name", ["forest", "network"])
def test_every_setting(name, options, rows, tmp_path):
    X, y = rows
    model = GeodesicCalibrator(PARENTS[name](), calibration="holdout", random_state=0, **options)
    assert_same(again(model.fit(X[:300], y[:300]), tmp_path), model, X[250:])


@pytest.mark.parametrize("plan", ["oob", "cv"])
def test_every_plan(plan, rows, tmp_path):
    X, y = rows
    model = KernelDensityForest(20, calibration=plan, random_state=0).fit(X[:300], y[:300])
    assert_same(again(model, tmp_path), model, X)


def test_missing_values(rows, tmp_path):
    X, y = rows
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    parent = HistGradientBoostingClassifier(max_iter=10, random_state=0)
    model = GeodesicCalibrator(parent, calibration="holdout", random_state=0)
    loaded = again(model.fit(X[:450], y[:450]), tmp_path)
    assert_same(loaded, model, X[400:])
    kept = loaded.model_.known_rows
    assert np.isnan(kept.X).any()
    assert_array_equal(kept.X, model.model_.known_rows.X)
    assert_array_equal(kept.X_fit, model.model_.known_rows.X_fit)


def test_the_papers_network(rows, tmp_path):
    X, y = rows
    model = KernelDensityNetwork((16, 8), max_iter=30, calibration="holdout", random_state=0)
    assert_same(again(model.fit(X[:300], y[:300]), tmp_path), model, X)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes, äß"]),
        np.array(["no", "yes"], dtype=object),
        np.array([False, True]),
        np.array([-1.0, 1.0]),
        np.array([3, 7], dtype=np.int8),
    ],
    ids=["words", "objects", "bools", "floats", "small"],
)
def test_labels_keep_their_type(labels, rows, tmp_path):
    X, y = rows
    model = KernelDensityForest(10, calibration="holdout", random_state=0)
    model.fit(X[:200], labels[y[:200]])
    loaded = again(model, tmp_path)
    assert_same(loaded, model, X)
    assert list(map(type, loaded.classes_.tolist())) == list(map(type, model.classes_.tolist()))


def test_labels_of_the_other_byte_order(rows, tmp_path):
    X, y = rows
    model = KernelDensityForest(10, calibration="holdout", random_state=0)
    model.fit(X[:200], np.array([3, 7], dtype=">i4")[y[:200]])
    loaded = again(model, tmp_path)
    assert loaded.classes_.tolist() == [3, 7]
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_types_that_a_file_cannot_hold(iris, tmp_path):
    X, y = iris
    model = GeodesicCalibrator(make_pipeline(FunctionTransformer(lambda x: 2 * x), small_forest()))
    with pytest.raises(UnknownTypeError, match="can be imported by name"):
        model.fit(X, y).save(tmp_path / "m.polycal")

    class Own(KernelDensityForest):
        pass

    with pytest.raises(UnknownTypeError, match="does not hold Own"):
        Own(10).fit(X, y).save(tmp_path / "m.polycal")
    assert list(tmp_path.iterdir()) == []


class Doubler(StandardScaler):
    """A transformer of the user's own."""


def test_types_of_the_users_own_need_trust(iris, tmp_path):
    X, y = iris
    model = GeodesicCalibrator(make_pipeline(Doubler(), small_forest()), calibration="holdout")
    model.set_params(random_state=0).fit(X, y)
    path = tmp_path / "m.polycal"
    model.save(path)
    with pytest.raises(
        UnknownTypeError, match=r"holds tests.persistence.test_model.Doubler.*trusted=\["
    ):
        polycal.load(path)
    for trusted in (["tests.persistence.test_model.Doubler"], [Doubler]):
        assert_same(polycal.load(path, trusted=trusted), model, X)


def test_a_save_that_fails_leaves_the_old_file(iris, tmp_path, monkeypatch):
    X, y = iris
    model = KernelDensityForest(10, random_state=0).fit(X, y)
    path = tmp_path / "m.polycal"
    model.save(path)
    before = path.read_bytes()

    def full(handle):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        model.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.polycal"]


def test_an_unfitted_model_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        KernelDensityForest().save(tmp_path / "m.polycal")


def test_a_module_that_is_not_needed(iris, tmp_path):
    KernelDensityForest(10).fit(*iris).save(tmp_path / "m.polycal")
    with pytest.raises(WrongModuleError, match="holds the complete model"):
        polycal.load(tmp_path / "m.polycal", module=small_forest())


def test_permissions_and_links_stay(iris, tmp_path):
    model = KernelDensityForest(10, random_state=0).fit(*iris)
    (tmp_path / "real").mkdir()
    path, link = tmp_path / "real" / "m.polycal", tmp_path / "latest.polycal"
    model.save(path)
    path.chmod(0o600)
    link.symlink_to(path)
    model.save(link)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
    assert_same(polycal.load(link), model, iris[0])


def test_a_folder_that_is_not_there(iris, tmp_path):
    model = KernelDensityForest(10, random_state=0).fit(*iris)
    with pytest.raises(FileNotFoundError, match="there is no such folder: .*none'"):
        model.save(tmp_path / "none" / "m.polycal")


def test_roles_of_a_file_that_is_older_than_decimal_marks(iris, tmp_path):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(iris[0], columns=list("abcd"))
    model = GeodesicCalibrator(small_forest(), calibration="holdout", random_state=0)
    model.fit(X, iris[1]).save(tmp_path / "m.polycal")
    old = forged(tmp_path / "m.polycal", lambda m, a: m["state"]["columns"].pop("decimal"))
    loaded = polycal.load(old)
    assert loaded.columns_ == model.columns_
    assert loaded.columns_.decimal is None
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
