"""A fit on Dask collections equals one on local batches, on worker processes too."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from polycal import GeodesicCalibrator, KernelDensityForest, LeakWarning
from polycal.estimators.dask_fit import Chains
from polycal.estimators.dask_progress import Worker
from polycal.estimators.dask_rows import Partitions

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
pd = pytest.importorskip("pandas")

pytestmark = pytest.mark.filterwarnings("ignore::polycal.FewRowsWarning")

X, Y = make_classification(
    2600, 5, n_informative=4, n_redundant=0, n_clusters_per_class=3, class_sep=0.7, random_state=0
)
FITTED, ROWS, NEW = slice(0, 400), slice(400, 2000), slice(2000, None)
QUICK = {
    "random_state": 0,
    "memory_limit": "100MiB",
    "n_hyperplanes": 64,
    "calibration": "holdout",
}
BLOCKS = (400, 300, 500, 400)


@pytest.fixture(autouse=True)
def in_this_process():
    """Unless a test asks for a cluster; with one thread, as in workers."""
    with dask.config.set(scheduler="synchronous"), threadpool_limits(1):
        yield


@contextmanager
def on_cluster():
    with dask.config.set(scheduler=None):
        yield


@pytest.fixture(scope="module")
def parent():
    return RandomForestClassifier(10, min_samples_leaf=3, random_state=0).fit(X[FITTED], Y[FITTED])


@pytest.fixture(scope="module")
def frame():
    """Four numbers and a category."""
    frame = pd.DataFrame(X, columns=list("abcde"))
    return frame.assign(c=pd.cut(frame["c"], 4, labels=list("wxyz")))


@pytest.fixture(scope="module")
def frame_parent(frame):
    parent = HistGradientBoostingClassifier(max_iter=10, categorical_features="from_dtype")
    return parent.fit(frame[FITTED], Y[FITTED])


def calibrator(parent, **parameters):
    return GeodesicCalibrator(FrozenEstimator(parent), **{**QUICK, **parameters})


def arrays(blocks=BLOCKS):
    return da.from_array(X[ROWS], chunks=(blocks, (2, 3))), da.from_array(Y[ROWS], chunks=blocks)


def frames(frame, changed=lambda part: part, labels=lambda part: part):
    """Four partitions of a frame and of its labels; the third are changed."""
    edges = 400 + np.cumsum((0, *BLOCKS))
    parts = [frame[a:b] for a, b in pairwise(edges)]
    names = [pd.Series(Y[a:b], name="y") for a, b in pairwise(edges)]
    parts[2], names[2] = changed(parts[2]), labels(names[2])
    table = dd.from_map(lambda part: part, parts, meta=frame[:0])
    return table, dd.from_map(lambda part: part, names, meta=names[0][:0])


@pytest.fixture(scope="module")
def local(parent):
    return calibrator(parent).fit_batches([(X[ROWS], Y[ROWS])])


@pytest.fixture(scope="module")
def local_frame(frame_parent, frame):
    return calibrator(frame_parent).fit_batches([(frame[ROWS], Y[ROWS])])


def assert_same(one, other, rows=X[NEW]):
    assert_allclose(one.predict_proba(rows), other.predict_proba(rows), rtol=0, atol=1e-9)
    assert_allclose(one.score_samples(rows), other.score_samples(rows), rtol=0, atol=1e-9)
    assert_array_equal(one.classes_, other.classes_)
    assert one.n_rows_seen_ == other.n_rows_seen_


# ----------------------------------------------------------- the same answer


def test_arrays_give_the_model_of_local_rows(parent, local):
    model = calibrator(parent).fit(*arrays())
    assert_same(model, local)
    assert model.calibration_ == "stream"
    model.partial_fit(X[NEW], Y[NEW])  # rows may be added later
    assert model.n_rows_seen_ == len(Y) - 400
    reblocked = calibrator(parent).fit(arrays()[0], da.from_array(Y[ROWS], chunks=700))
    assert_same(reblocked, local)


def test_frames_give_the_model_of_local_rows(frame_parent, frame, local_frame):
    model = calibrator(frame_parent).fit(*frames(frame))
    assert_same(model, local_frame, frame[NEW])


def test_rows_in_a_file_with_words_as_labels(frame_parent, frame, tmp_path):
    """Categories are those of the file, and X and y come from one reading of it."""
    pytest.importorskip("pyarrow")
    table = frame.assign(label=np.array(["no", "yes"])[Y], other="not needed")
    words = table["label"].to_numpy()
    parent = clone(frame_parent).fit(frame[FITTED], words[FITTED])
    table[ROWS].to_parquet(tmp_path / "rows.parquet", row_group_size=400)
    rows = dd.read_parquet(tmp_path, split_row_groups=True)
    assert rows.npartitions == 4
    parts = list(Partitions(rows[list("abcde")], rows["label"]))
    for part, _ in parts:
        assert sum("read" in str(key) for key in part.graph) == 1
    model = calibrator(parent).fit(rows[list("abcde")], rows["label"])
    expected = calibrator(parent).fit_batches([(frame[ROWS], words[ROWS])])
    assert_same(model, expected, frame[NEW])


def test_numbers_of_rows_may_be_unknown(parent):
    rows, y = arrays()
    some = np.sin(99 * X[ROWS][:, 0]) > -0.5
    chosen = da.sin(99 * rows[:, 0]) > -0.5
    model = calibrator(parent).fit(rows[chosen], y[chosen])
    assert_same(model, calibrator(parent).fit_batches([(X[ROWS][some], Y[ROWS][some])]))


def test_partitions_that_are_made_of_each_other(parent, local):
    """Tasks that several partitions need are not made in each of them."""
    rows, y = arrays()
    mixed = rows.rechunk((700, 5))
    parts = Partitions(mixed, y)
    assert any(part.inputs for part, _ in parts)
    assert_same(calibrator(parent).fit(mixed, y.rechunk(700)), local)


def test_weights_and_rows_without_weight(parent):
    weight = np.random.default_rng(0).integers(0, 3, len(Y[ROWS])).astype(float)
    weight[400:700] = 0.0  # a whole partition
    model = calibrator(parent).fit(*arrays(), da.from_array(weight, chunks=BLOCKS))
    assert_same(model, calibrator(parent).fit_batches([(X[ROWS], Y[ROWS], weight)]))


def test_rows_that_repeat_by_nature(parent):
    """They are set apart by their place, which partitions must know."""
    cells = np.random.default_rng(0).integers(0, 2, (2400, 5)).astype(float)
    y = (cells.sum(axis=1) + np.random.default_rng(1).integers(0, 2, 2400) > 3).astype(int)
    linear = LogisticRegression().fit(cells[:400], y[:400])
    expected = calibrator(linear).fit_batches([(cells[400:], y[400:])])
    assert not expected.stream_.frame.by_content
    parts = da.from_array(cells[400:], chunks=(300, 5)), da.from_array(y[400:], chunks=300)
    assert_same(calibrator(linear).fit(*parts), expected, cells[:32])


@pytest.mark.parametrize("on_dask", [False, True])
def test_calibration_rows_may_be_given(parent, on_dask):
    rows, y = X[2000:2300], Y[2000:2300]
    given = rows, y
    if on_dask:
        given = da.from_array(rows, chunks=(100, 5)), da.from_array(y, chunks=100)
    model = calibrator(parent, calibration="auto")
    model.fit(*arrays(), X_cal=given[0], y_cal=given[1])
    reservoir = model.stream_.reservoir
    assert_array_equal(np.sort(reservoir.X[:, 0]), np.sort(rows[:, 0]))
    # All rows of X vote, and none of the calibration rows.
    assert_array_equal(model.stream_.class_weight, np.bincount(Y[ROWS]))
    assert_allclose(model.priors_, np.bincount(Y[ROWS]) / len(Y[ROWS]))
    if on_dask:
        assert_same(model, calibrator(parent).fit(*arrays(), X_cal=rows, y_cal=y))


def test_an_empty_partition_and_one_of_a_single_class(parent, frame_parent, frame):
    order = np.argsort(Y[ROWS], kind="stable")
    rows, y = X[ROWS][order], Y[ROWS][order]
    blocks = (400, 0, 500, 700)
    assert len(set(y[:400])) == 1
    model = calibrator(parent)
    model.fit(da.from_array(rows, chunks=(blocks, 5)), da.from_array(y, chunks=blocks))
    assert_same(model, calibrator(parent).fit_batches([(rows, y)]))
    without = frames(frame, lambda part: part[:0], lambda part: part[:0])
    kept = np.r_[400:1100, 1600:2000]
    expected = calibrator(frame_parent).fit_batches([(frame.iloc[kept], Y[kept])])
    assert_same(calibrator(frame_parent).fit(*without), expected, frame[NEW])


def test_numbers_of_another_type_are_numbers(frame_parent, frame):
    coarse = frame.assign(a=(10 * frame["a"]).round())
    changed = frames(coarse, lambda part: part.assign(a=part["a"].astype(np.int16)))
    expected = calibrator(frame_parent).fit_batches([(coarse[ROWS], Y[ROWS])])
    assert_same(calibrator(frame_parent).fit(*changed), expected, coarse[NEW])


# ------------------------------------------------------------------ messages


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda part: part[list("bacde")], "same columns in the same order"),
        (lambda part: part.drop(columns="b"), r"its columns are \['a', 'c', 'd', 'e'\]"),
        (lambda part: part.assign(a="far"), "'a' holds text .* in the frame it holds numbers"),
        (lambda part: part.assign(c=1.0), "'c' holds numbers .* in the frame it holds categories"),
        (lambda part: part[:-1], "it has 499 rows, and partition 2 of y has 500"),
        (lambda part: part.assign(a=np.inf), "inf"),
    ],
)
def test_an_error_names_the_partition(frame_parent, frame, changed, message):
    with pytest.raises(ValueError, match=f"(?s)^partition 2 of X: .*{message}"):
        calibrator(frame_parent).fit(*frames(frame, changed))


def test_an_error_names_the_partition_of_labels(frame_parent, frame):
    strange = frames(frame, labels=lambda part: part.astype(float).where(part.index > 5))
    with pytest.raises(ValueError, match="^partition 2 of X: Input y contains NaN"):
        calibrator(frame_parent).fit(*strange)


def test_a_failed_fit_leaves_the_model_as_it_was(parent):
    model = calibrator(parent).fit(*arrays())
    before = model.predict_proba(X[NEW])
    rows = X[ROWS].copy()
    rows[800] = np.inf
    with pytest.raises(ValueError, match="^partition 2 of X: "):
        model.fit(da.from_array(rows, chunks=(BLOCKS, 5)), arrays()[1])
    assert_array_equal(model.predict_proba(X[NEW]), before)


def test_collections_that_do_not_fit_together(parent, frame):
    rows, y = arrays()
    model = calibrator(parent)
    with pytest.raises(ValueError, match="y must hold one value for each of the 1600 rows of X"):
        model.fit(rows, y[:-1])
    with pytest.raises(ValueError, match="X has 4 partitions and y has 2. Partition both alike"):
        model.fit(rows, dd.from_pandas(pd.Series(Y[ROWS]), npartitions=2))
    with pytest.raises(TypeError, match="y must be a Dask collection as X is.* got ndarray"):
        model.fit(rows, Y[ROWS])
    with pytest.raises(TypeError, match="X must be a Dask array of rows and columns"):
        model.fit(rows[:, 0], y)
    with pytest.raises(ValueError, match=r"columns of X is not known.*compute_chunk_sizes"):
        model.fit(rows[:, rows[0] > -99], y)
    with pytest.raises(ValueError, match="X holds no row"):
        model.fit(rows[:0], y[:0])


def test_what_a_cluster_cannot_follow(parent):
    rows, y = arrays()
    unfitted = GeodesicCalibrator(RandomForestClassifier(), **QUICK)
    with pytest.raises(ValueError, match="the parent is not fitted.*FrozenEstimator"):
        unfitted.fit(rows, y)
    with pytest.raises(ValueError, match="groups are not supported.*X_cal"):
        calibrator(parent).fit(rows, y, groups=np.zeros(len(Y[ROWS])))
    with pytest.raises(ValueError, match="half_life needs rows in an order"):
        calibrator(parent, half_life=100.0).fit(rows, y)
    with pytest.raises(ValueError, match="calibration='oob' is not possible"):
        calibrator(parent, calibration="oob").fit(rows, y)
    with pytest.raises(ValueError, match="X_cal and y_cal go together"):
        calibrator(parent).fit(rows, y, X_cal=X[NEW])
    known = X[ROWS][:100], Y[ROWS][:100]
    on_dask = [da.from_array(part, chunks=50) for part in known]
    on_dask[0] = on_dask[0].rechunk((50, 5))
    for X_cal, y_cal in (known, on_dask):
        with pytest.raises(ValueError, match="100 of the 100 rows of X_cal also stand in X"):
            calibrator(parent).fit(rows, y, X_cal=X_cal, y_cal=y_cal)
    with pytest.raises(TypeError, match="GeodesicCalibrator"):
        KernelDensityForest(5).fit(rows, y)
    with pytest.warns(LeakWarning, match="all rows of X are taken to be new"):
        calibrator(parent, calibration="auto").fit(rows, y)


# ------------------------------------------------------- progress and chains


def test_progress_counts_partitions(parent, capsys):
    calibrator(parent, verbose=1).fit(*arrays())
    shown = capsys.readouterr().err
    assert "sample: 100%" in shown
    assert "4/4" in shown
    assert "tables: 100%" in shown


def test_there_are_as_many_chains_as_workers_have_room_for(monkeypatch):
    GiB = 2**30
    workers = [Worker("a", 8, 4 * GiB), Worker("b", 2, 64 * GiB), Worker("c", 4, 0)]
    module = "polycal.estimators.dask_fit"
    monkeypatch.setattr(f"{module}.current_client", lambda: True)
    monkeypatch.setattr(f"{module}.workers_of", lambda client: workers)
    assert Chains.of_cluster(0.5 * GiB) == Chains(("a", "a", "b", "b", "c"), 1)
    assert Chains.of_cluster(2.0 * GiB) == Chains(("a", "b", "b", "c"), 1)
    workers.pop(1)
    assert Chains.of_cluster(2.0 * GiB) == Chains(("a", "c"), 4)


# ---------------------------------------------------------- worker processes


@pytest.mark.slow
def test_worker_processes_give_the_model_of_local_rows(
    client, parent, local, frame_parent, frame, local_frame, capsys
):
    with on_cluster():
        assert len(Chains.of_cluster(2.0**20).workers) == 2
        assert_same(calibrator(parent, verbose=1).fit(*arrays()), local)
        assert "tables: 100%" in capsys.readouterr().err
        held = [rows.persist() for rows in arrays()]  # lies on the workers already
        assert_same(calibrator(parent).fit(*held), local)
        model = calibrator(frame_parent).fit(*frames(frame))
        assert_same(model, local_frame, frame[NEW])
        broken = frames(frame, lambda part: part.assign(a=np.inf))
        with pytest.raises(ValueError, match="^partition 2 of X: "):
            calibrator(frame_parent).fit(*broken)


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_nothing(client, parent, tmp_path):
    """Rows are made on the fly, slowly, and marks on disk say how far the fit is."""
    n_blocks, marks = 24, str(tmp_path)

    def rows_of(block_id):
        time.sleep(0.05)
        name = os.path.join(marks, f"{time.monotonic_ns()}-{os.getpid()}")
        with open(name, "w"):
            return some_rows(block_id[0])

    def kill_the_latest():
        deadline = time.monotonic() + 60
        while len(os.listdir(marks)) < n_blocks + 8 and time.monotonic() < deadline:
            time.sleep(0.01)
        found = sorted(os.listdir(marks))
        done.append(len(found))
        os.kill(int(found[-1].partition("-")[2]), signal.SIGKILL)

    done = []
    rows = da.map_blocks(
        rows_of, chunks=((100,) * n_blocks, (5,)), dtype=float, meta=np.empty((0, 5))
    )
    y = rows.map_blocks(labels_of, drop_axis=1, dtype=int, meta=np.empty(0, int))
    with on_cluster():
        killer = threading.Thread(target=kill_the_latest, daemon=True)
        killer.start()
        model = calibrator(parent).fit(rows, y)
        killer.join(timeout=60)
    # It was killed in the second pass, in the middle of its tables.
    assert n_blocks + 8 <= done[0] < 2 * n_blocks
    assert len(os.listdir(marks)) > 2 * n_blocks
    whole = np.concatenate([some_rows(i) for i in range(n_blocks)])
    assert_same(model, calibrator(parent).fit_batches([(whole, labels_of(whole))]))


def some_rows(block):
    return np.random.default_rng(block).normal(size=(100, 5))


def labels_of(rows):
    return (rows[:, 0] * rows[:, 1] + 0.3 * np.sin(40 * rows[:, 2]) > 0).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_a_parent_that_was_fitted_on_the_cluster(client, library):
    module = pytest.importorskip(f"{library}.dask")
    name = {"lightgbm": "DaskLGBMClassifier", "xgboost": "DaskXGBClassifier"}[library]
    quiet = {"verbose": -1} if library == "lightgbm" else {}
    rows, y = arrays()[0].rechunk((800, 5)), arrays()[1].rechunk(800)
    with on_cluster():
        parent = getattr(module, name)(n_estimators=5, **quiet)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of parameters that are its own
            parent.fit(rows, y)
        model = calibrator(parent).fit(rows, y)
        assert_same(model, calibrator(parent).fit_batches([(X[ROWS], Y[ROWS])]))
        found = np.asarray(parent.predict_proba(rows).compute())
    assert_allclose(model.answer(X[ROWS]).reading.proba, found, rtol=1e-6)
    with pytest.raises(Exception, match="not fitted"):
        calibrator(getattr(module, name)()).fit(rows, y)
