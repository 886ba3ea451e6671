"""Many threads ask one model at once, as a server does: each is answered as if it were alone."""

from __future__ import annotations

import sys
import threading
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import polycal
from polycal import PAPER, GeodesicCalibrator, TorchParent
from polycal.kernels import sampled
from tests.toys.families import FAMILIES, lightgbm, torch_net
from tests.toys.models import small_forest

N_THREADS = 8
ROUNDS = 2  # of freshly loaded models
HOLDOUT = {"calibration": "holdout", "random_state": 0}


@pytest.fixture(scope="module")
def rows(blobs):
    X, y = blobs
    return X.astype(np.float32), y


@pytest.fixture(autouse=True)
def _frequent_switches():
    """Threads take turns a hundred times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(before / 100)
    yield
    sys.setswitchinterval(before)


def together(ask):
    """What each of the threads gets; all start at the same moment."""
    barrier = threading.Barrier(N_THREADS, timeout=60)
    found, errors = [None] * N_THREADS, []

    def run(i):
        try:
            barrier.wait()
            found[i] = ask(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(N_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not errors, errors
    assert not any(thread.is_alive() for thread in threads)
    return found


def parts_of(X):
    """Other rows for each thread, in parts of different lengths."""
    return [X[i : i + 20 + 7 * i] for i in range(N_THREADS)]


def check(path, parts, module=None):
    """First queries of new models, by all threads at once, equal those of one thread."""
    alone = polycal.load(path, module)
    expected = [alone.answer(part) for part in parts]
    for _ in range(ROUNDS):
        found = together(partial(ask, polycal.load(path, module), parts))
        for answer, same in zip(found, expected, strict=True):
            assert_array_equal(answer.probabilities, same.probabilities)
            assert_array_equal(answer.log_f, same.log_f)


def ask(model, parts, i):
    """Index, tables and estimator of a loaded model are made at its first query, which is this."""
    return model.answer(parts[i])


@pytest.mark.parametrize("name", FAMILIES)
def test_each_family(name, rows, tmp_path):
    X, y = rows
    parent = FAMILIES[name]()
    model = GeodesicCalibrator(parent, **HOLDOUT).fit(X[:450], y[:450])
    model.save(tmp_path / "m.polycal")
    check(tmp_path / "m.polycal", parts_of(X[450:]), parent if name == "skorch" else None)


def test_a_torch_module(rows, tmp_path):
    X, y = rows
    net = torch_net(X[:300], y[:300])
    model = GeodesicCalibrator(TorchParent(net)).fit(X[:300], y[:300], X_cal=X[300:], y_cal=y[300:])
    model.save(tmp_path / "m.polycal")
    check(tmp_path / "m.polycal", parts_of(X), net)


SETTINGS = {
    "sampled": {"search": "sampled"},
    "sampled with little memory": {"search": "sampled", "memory_limit": "1MB"},
    "out of bag": {"calibration": "oob"},
    "the paper's": PAPER,
    "threads of its own": {"n_jobs": 2},
}


@pytest.mark.parametrize("make", [small_forest, lightgbm])
@pytest.mark.parametrize("name", SETTINGS)
def test_settings(name, make, rows, tmp_path):
    X, y = rows
    if name == "out of bag" and make is not small_forest:
        pytest.skip("only a forest has rows out of bag")
    model = GeodesicCalibrator(make(), **{**HOLDOUT, **SETTINGS[name]}).fit(X[:450], y[:450])
    model.save(tmp_path / "m.polycal")
    check(tmp_path / "m.polycal", parts_of(X[450:]))


def test_rows_as_dicts_and_missing_values(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=600), "c": rng.choice(["x", "y", "z"], 600)})
    frame["c"] = frame["c"].astype("category")
    frame.loc[::9, "a"] = np.nan
    y = (frame["a"].fillna(0) + (frame["c"] == "x") > 0.3).astype(int)
    model = GeodesicCalibrator(lightgbm(), **HOLDOUT).fit(frame[:450], y[:450])
    model.save(tmp_path / "m.polycal")
    check(tmp_path / "m.polycal", [part.to_dict("records") for part in parts_of(frame[450:])])


def test_tables_are_built_once(rows, monkeypatch):
    """They take gigabytes; a server must not build them once for each of its first requests."""
    X, y = rows
    model = GeodesicCalibrator(small_forest(), search="sampled", **HOLDOUT).fit(X[:450], y[:450])
    index, build, built = model.model_.reference.index, sampled.PathTables.build, []

    def counted(*arguments):
        built.append(threading.get_ident())
        return build(*arguments)

    monkeypatch.setattr(sampled.PathTables, "build", staticmethod(counted))
    index.forget_tables()
    together(lambda i: model.predict_proba(X[450:]))
    assert len(built) == 1
