"""The study of a linear head, in tiny form."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")

from studies import linear_head
from studies._runner import Options, main, read_table


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("linear_head")
    arguments = ["--quick", "--reps", "2", "--out", str(folder / "out"), "--data", str(folder)]
    assert main(linear_head.STUDY, arguments) == 0
    return folder


def test_both_heads_have_every_figure(finished):
    frame = read_table(finished / "out")
    scored = frame[frame["stage"] == "score"]
    table = scored.pivot_table("value", ["method", "head", "rep"], "metric")
    assert set(table.columns) >= set(linear_head.METRICS)
    assert len(table) == 2 * 2 * 2
    polycal = table.loc["polycal"]
    assert polycal[list(linear_head.METRICS)].notna().all(axis=None)
    # The gratings have four directions, which the kernels of both heads tell apart.
    assert (polycal["accuracy"] > 0.9).all()
    page = (finished / "out" / "linear_head.md").read_text()
    assert "| polycal, linear head | " in page
    assert page.count("\n- ") == 3


def test_a_linear_head_is_read_by_hyperplanes(finished):
    X, y = linear_head.embedded("cifar10_train", Options(quick=True, data=finished))
    head = linear_head.train_head(X, y, (), seed=0)
    model = linear_head.GeodesicCalibrator(linear_head.kept_parent(head, "cpu"))
    model.fit(X[:300], y[:300], X_cal=X[300:], y_cal=y[300:])
    assert list(model.model_.witnesses) == ["parent", "hyperplanes"]


def test_embeddings_are_those_of_the_chosen_images(finished, monkeypatch, tmp_path):
    options = Options(quick=True, data=finished)
    X, y = linear_head.embedded("cifar10_train", options)
    places = linear_head.chosen("cifar10_train", options)
    labels = linear_head.read_set("cifar10_train", options)[1]
    np.testing.assert_array_equal(y, labels[places])
    # In smaller parts they are the same.
    monkeypatch.setattr(linear_head, "PART", 200)
    again = Options(quick=True, data=tmp_path)
    for part in range(linear_head.n_parts("cifar10_train", again)):
        cell = {"stage": "embed", "set": "cifar10_train", "part": part}
        linear_head.run(cell, again)
    assert part == 2
    smaller, same = linear_head.embedded("cifar10_train", again)
    np.testing.assert_allclose(smaller, X, atol=2e-3)
    np.testing.assert_array_equal(same, y)


def test_what_is_not_embedded_is_asked_for(tmp_path):
    cell = {"stage": "score", "head": "linear", "rep": 0}
    with pytest.raises(FileNotFoundError, match="run the cell that makes it first"):
        linear_head.run(cell, Options(quick=True, data=tmp_path))


def test_verdicts():
    names = ["ece", "auroc svhn_test", "auroc cifar100_test"]
    means = pd.DataFrame({"linear": [0.0129, 0.95, 0.8], "relu": [0.01, 0.94, 0.8051]}, names)
    ece, svhn, cifar100 = linear_head.verdicts(means)
    assert ece == "- ECE, at most 0.003 worse: linear 0.0129, ReLU 0.0100: met"
    assert svhn.endswith("met")  # better is not worse
    assert cifar100.endswith("missed")
