"""Predictions on Dask collections equal those on local rows, on worker processes too."""

from __future__ import annotations

import os
import pickle
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from polycal import GeodesicCalibrator, KernelDensityForest, ShiftWarning, evaluate, report
from polycal.estimators.collections import SharedModel
from polycal.parents.torch.hooks import Recorder
from tests.toys.families import FAMILIES

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
pd = pytest.importorskip("pandas")

METHODS = ["predict_proba", "predict_log_proba", "predict", "score_samples", "in_distribution"]


@pytest.fixture(scope="module")
def model(blobs):
    X, y = blobs
    return KernelDensityForest(20, random_state=0).fit(X, np.array(["no", "yes"])[y])


@pytest.fixture(scope="module")
def frame(blobs):
    """Four numbers and a category."""
    frame = pd.DataFrame(blobs[0], columns=list("abcde"))
    return frame.assign(c=pd.cut(frame["c"], 4, labels=list("wxyz")))


@pytest.fixture(scope="module")
def frame_model(frame, blobs):
    parent = FAMILIES["hist gradient boosting"]().set_params(categorical_features="from_dtype")
    return GeodesicCalibrator(parent, random_state=0).fit(frame, blobs[1])


def partitioned(frame, changed):
    """Four partitions of 100 rows; ``changed`` makes another frame of the third."""
    parts = [frame[start : start + 100] for start in range(0, 400, 100)]
    parts[2] = changed(parts[2])
    return dd.from_map(lambda part: part, parts, meta=frame[:0])


def locally(lazy):
    return lazy.compute(scheduler="synchronous")


@pytest.mark.parametrize("method", METHODS)
def test_an_array_is_answered_by_block(model, blobs, method):
    X = blobs[0]
    expected = getattr(model, method)(X)
    lazy = getattr(model, method)(da.from_array(X, chunks=((250, 100, 250), (2, 3))))
    assert isinstance(lazy, da.Array)
    assert lazy.chunks == ((250, 100, 250), *((width,) for width in expected.shape[1:]))
    assert lazy.dtype == expected.dtype
    np.testing.assert_array_equal(locally(lazy), expected)


@pytest.mark.parametrize("method", METHODS)
def test_a_frame_is_answered_by_partition(frame_model, frame, method):
    expected = getattr(frame_model, method)(frame)
    lazy = getattr(frame_model, method)(dd.from_pandas(frame, npartitions=3))
    assert isinstance(lazy, da.Array)
    assert lazy.numblocks[0] == 3
    assert np.isnan(lazy.shape[0])
    assert lazy.shape[1:] == expected.shape[1:]
    assert lazy.dtype == expected.dtype
    np.testing.assert_array_equal(locally(lazy), expected)


def test_threads_give_the_same_answer(model, blobs):
    lazy = model.predict_proba(da.from_array(blobs[0], chunks=(50, 5)))
    expected = model.predict_proba(blobs[0])
    np.testing.assert_array_equal(lazy.compute(scheduler="threads", num_workers=4), expected)


def test_numbers_of_rows_may_be_unknown(model, blobs):
    X = blobs[0]
    rows = da.from_array(X, chunks=(200, 2))
    lazy = model.predict_proba(rows[rows[:, 0] > 0])
    assert np.isnan(lazy.chunks[0]).all()
    np.testing.assert_array_equal(locally(lazy), model.predict_proba(X[X[:, 0] > 0]))


@pytest.mark.parametrize("method", METHODS)
def test_an_empty_partition_has_no_answers(model, frame_model, blobs, frame, method):
    X = blobs[0]
    rows = da.concatenate([da.from_array(part) for part in (X[:100], X[:0], X[100:150])])
    found = locally(getattr(model, method)(rows))
    np.testing.assert_array_equal(found, getattr(model, method)(X[:150]))
    parts = partitioned(frame, lambda part: part[:0])
    expected = getattr(frame_model, method)(frame[:400].drop(frame.index[200:300]))
    found = locally(getattr(frame_model, method)(parts))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    nothing = locally(getattr(model, method)(da.from_array(X[:0])))
    assert nothing.shape == (0, *expected.shape[1:])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda part: part[list("bacde")], r"^partition 2 of X: .*same order"),
        (lambda part: part.drop(columns="b"), r"^partition 2 of X: .*missing:\n- b"),
        (lambda part: part.assign(a="far"), "^partition 2 of X: .*'a' held numbers in the fit"),
        (lambda part: part.assign(a=np.inf), "^partition 2 of X: .*inf"),
    ],
)
def test_an_error_names_the_partition(frame_model, frame, changed, message):
    lazy = frame_model.predict_proba(partitioned(frame, changed))
    with pytest.raises(ValueError, match=f"(?s){message}"):
        locally(lazy)


def test_an_error_names_the_block(model, blobs):
    X = blobs[0].copy()
    X[250] = np.inf
    with pytest.raises(ValueError, match="^partition 2 of X: "):
        locally(model.predict(da.from_array(X, chunks=(100, 5))))


def test_columns_are_compared_before_any_work(model, frame_model, frame):
    rows = dd.from_pandas(frame, npartitions=2)
    with pytest.raises(ValueError, match="same order"):
        frame_model.predict(rows[list("bacde")])
    with pytest.raises(ValueError, match="4 features"):
        model.predict(da.zeros((10, 4)))
    with pytest.raises(ValueError, match="Expected 2D array"):
        model.predict(da.zeros(10))
    zeros = da.zeros((10, 5))
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        model.predict(zeros[:, zeros[0] == 0])
    with pytest.raises(TypeError, match="Dask array of rows or a Dask dataframe; got Series"):
        frame_model.predict(rows["a"])


def test_other_methods_say_what_to_do(model, blobs, tmp_path):
    X, y = blobs
    rows = da.from_array(X, chunks=(100, 5))
    words = r"X\.partitions\[0\]\.compute\(\)"
    for method in (model.answer, model.explain, model.nearest):
        with pytest.raises(TypeError, match=words):
            method(rows)
    with pytest.raises(TypeError, match=words):
        model.similarity(X[:2], rows)
    with pytest.raises(TypeError, match=words):
        evaluate(model, rows, y)
    with pytest.raises(TypeError, match=words):
        report(model, rows, y, path=tmp_path / "report.html")
    assert len(model.explain(rows.partitions[0].compute())) == 100  # the advice works


def test_partitions_do_not_warn_of_a_shift(model, blobs, recwarn):
    far = da.from_array(blobs[0] + 100, chunks=(100, 5))
    with pytest.warns(ShiftWarning):
        model.predict(blobs[0] + 100)
    recwarn.clear()
    locally(model.predict(far))
    assert not [found for found in recwarn if issubclass(found.category, ShiftWarning)]


def test_the_model_is_in_the_graph_once(model, frame_model, frame, blobs):
    """Also after Dask has fused tasks: each task but one is small beside the model."""
    rows = (da.from_array(blobs[0], chunks=(20, 5)), dd.from_pandas(frame, npartitions=30))
    for fitted, X in zip((model, frame_model), rows, strict=True):
        (lazy,) = dask.optimize(fitted.predict_proba(X))
        size = len(pickle.dumps(fitted))
        tasks = [len(pickle.dumps(task)) for task in dict(lazy.__dask_graph__()).values()]
        assert sum(task > size / 10 for task in tasks) == 1


def test_progress_bars_stay_off(model, blobs, capsys):
    lazy = KernelDensityForest(20, random_state=0, verbose=1).fit(*blobs)
    capsys.readouterr()
    locally(lazy.predict(da.from_array(blobs[0], chunks=(100, 5))))
    assert capsys.readouterr().err == ""
    assert lazy.verbose == 1


@pytest.fixture
def torch_model(blobs):
    X, y = blobs[0].astype(np.float32), blobs[1]
    model = GeodesicCalibrator(FAMILIES["skorch"](), random_state=0, calibration="holdout")
    return model.fit(X, y)


def test_threads_read_one_torch_module_at_a_time(torch_model, blobs):
    """Its hooks and flags are shared, so one thread would record the rows of another."""
    parts = np.split(blobs[0].astype(np.float32), 12)
    expected = [torch_model.predict_proba(part) for part in parts]
    with ThreadPoolExecutor(6) as pool:
        for found, one in zip(pool.map(torch_model.predict_proba, parts), expected, strict=True):
            np.testing.assert_array_equal(found, one)


def test_a_model_is_sent_without_the_hooks_of_a_reading(torch_model, blobs):
    shared = SharedModel(torch_model)
    module, X = shared.model.model_.parent.estimator.module_, blobs[0].astype(np.float32)
    with ThreadPoolExecutor(1) as pool:
        with Recorder(module, []):
            sent = pool.submit(pickle.dumps, shared)
            time.sleep(0.1)
            assert not sent.done()
        copy = pickle.loads(sent.result(timeout=60)).model
    np.testing.assert_array_equal(copy.predict_proba(X), torch_model.predict_proba(X))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_answers_in_worker_processes(client, blobs, family):
    X, y = blobs
    if family == "skorch":
        X = X.astype(np.float32)
    model = GeodesicCalibrator(FAMILIES[family](), random_state=0, calibration="holdout")
    model.fit(X, y)
    rows = da.from_array(X, chunks=(300, 5))
    lazy = [model.predict_proba(rows), model.score_samples(rows)]
    answers = [future.result(timeout=120) for future in client.compute(lazy)]
    # The worker answers each partition as this process does, to the last bit.
    parts = (X[:300], X[300:])
    for found, method in zip(answers, (model.predict_proba, model.score_samples), strict=True):
        np.testing.assert_array_equal(found, np.concatenate([method(part) for part in parts]))
        np.testing.assert_allclose(found, method(X), rtol=0, atol=1e-9)


@pytest.mark.slow
def test_a_frame_is_answered_in_worker_processes(client, frame_model, frame):
    found = client.compute(frame_model.predict_proba(dd.from_pandas(frame, npartitions=3)))
    np.testing.assert_array_equal(found.result(timeout=120), frame_model.predict_proba(frame))


@pytest.mark.slow
def test_a_killed_worker_changes_nothing(client, model):
    """The rows are made on the fly, so that another worker can make them again.

    Every wait has an end.
    """

    def rows_of(block_id):
        return np.random.default_rng(block_id[0]).normal(size=(500, 5))

    def slowly(block):
        time.sleep(0.05)
        return block

    rows = da.map_blocks(rows_of, chunks=((500,) * 40, (5,)), dtype=float, meta=np.empty((0, 5)))
    lazy = model.predict_proba(rows).map_blocks(slowly, meta=np.empty((0, 2)))
    process = client.submit(os.getpid).result(timeout=60)
    # One array for each block, whose futures say how far the work is.
    futures = client.compute([lazy.blocks[i] for i in range(40)])
    deadline = time.monotonic() + 30
    while sum(future.done() for future in futures) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    done = sum(future.done() for future in futures)
    os.kill(process, signal.SIGKILL)
    distributed.wait(futures, timeout=60)
    found = np.concatenate([future.result(timeout=60) for future in futures])
    assert 5 <= done < 40
    expected = np.concatenate([model.predict_proba(rows_of((i,))) for i in range(40)])
    np.testing.assert_array_equal(found, expected)
