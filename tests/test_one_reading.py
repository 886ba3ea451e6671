"""One question, one reading: the parent reads each set of rows once, whoever asks."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polycal import PAPER, GeodesicCalibrator, evaluate, report
from polycal.evaluation import evaluate_with_parent
from polycal.parents.forest import ForestAdapter
from tests.toys.models import small_forest, small_network

pd = pytest.importorskip("pandas")

MODELS = {
    "forest": (small_forest, {}),
    "paper": (small_forest, PAPER),
    "network": (small_network, {}),
    "pipeline": (lambda: make_pipeline(StandardScaler(), small_network()), {}),
}
QUERIES = (
    "answer",
    "predict_proba",
    "predict_log_proba",
    "predict",
    "explain",
    "in_distribution",
    "score_samples",
    "nearest",
)


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    """A model, test rows with labels, and rows far away, as tables with named columns."""
    parent, setting = MODELS[request.param]
    X, y = load_wine(return_X_y=True, as_frame=True)
    model = GeodesicCalibrator(parent(), random_state=0, **setting).fit(X[::2], y[::2])
    return model, X[1::2], y[1::2], X[1::2] * 4


@pytest.fixture
def reads(fitted, monkeypatch):
    """Number of rows in each reading of the model's parent."""
    adapter, seen = fitted[0].model_.parent, []
    read = adapter.read

    def counted(X, *args, **kwargs):
        seen.append(len(X))
        return read(X, *args, **kwargs)

    monkeypatch.setattr(adapter, "read", counted)
    return seen


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_reads_its_rows_once(query, fitted, reads):
    model, X, _, far = fitted
    rows = pd.concat([X, far * 100])  # some share no leaf with any row of the fit
    getattr(model, query)(rows)
    assert reads == [len(rows)]


def test_an_answer_is_explained_without_reading(fitted, reads):
    model, X, _, far = fitted
    answer = model.answer(pd.concat([X, far * 100]))
    reads.clear()
    model.explain_answer(answer)
    model.explain_answer(answer.take(np.arange(3)))
    assert reads == []


def test_similarity_reads_both_sides(fitted, reads):
    model, X, _, far = fitted
    model.similarity(X[:5], far[:3])
    assert reads == [5, 3]


def test_evaluate_reads_each_set_once(fitted, reads):
    model, X, y, far = fitted
    evaluate(model, X, y, n_rounds=3)
    assert reads == [len(X)]
    reads.clear()
    evaluate({"polycal": model}, X, y, ood={"far": far[:40], "other": far[:7]}, n_rounds=3)
    assert sorted(reads) == [7, 40, len(X)]


def test_a_model_and_its_parent_are_compared_in_one_reading(fitted, reads):
    model, X, y, far = fitted
    evaluate_with_parent(model, X, y, ood={"far": far[:40]})
    assert sorted(reads) == [40, len(X)]


def test_a_report_reads_test_rows_other_rows_and_moved_points(fitted, reads, tmp_path):
    model, X, y, far = fitted
    report(model, X, y, far[:40], tmp_path / "both.html")
    assert len(reads) == 3
    assert {40, len(X)} < set(reads)
    reads.clear()
    report(model, X, y, path=tmp_path / "alone.html")
    assert len(reads) == 2


def test_the_command_line_reads_a_table_once(fitted, reads):
    pytest.importorskip("typer")
    from polycal.cli.predict import predict_table

    model, X, _, _ = fitted
    predict_table(model, X, [], "")
    assert reads == [len(X)]


def test_a_frozen_parent_reads_the_rows_of_a_fit_once(monkeypatch):
    X, y = load_wine(return_X_y=True)
    forest = small_forest().fit(X[::2], y[::2])
    seen = []
    read = ForestAdapter.read

    def counted(self, X, *args):
        seen.append(len(X))
        return read(self, X, *args)

    monkeypatch.setattr(ForestAdapter, "read", counted)
    model = GeodesicCalibrator(FrozenEstimator(forest))
    model.fit(X[::2], y[::2], X_cal=X[1::2], y_cal=y[1::2])
    assert sorted(seen) == [89, 89]
