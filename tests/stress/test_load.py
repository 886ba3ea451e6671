"""Threads, forks and single rows: a little of stress/load.py, and no network at run time."""

from __future__ import annotations

import pytest

from stress import load


@pytest.fixture(scope="module")
def model():
    return load.fitted("forest")


def test_threads_that_ask_one_model_at_once(model, tmp_path):
    model.save(tmp_path / "forest")
    assert not load.threads(tmp_path / "forest", times=4).failures


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_after_the_fit_answers_alike(model):
    assert load.in_threads_of_a_fork(model)


def test_single_rows_take_no_memory(model, monkeypatch):
    monkeypatch.setattr(load, "WARM_UP", 50)
    grown, _, same = load.singles(model, 150)
    assert same
    assert grown < load.GROWTH


def test_an_answer_that_differs_would_be_found(model, monkeypatch):
    monkeypatch.setattr(load, "WARM_UP", 0)
    own = type(model).predict_proba

    def differs(asked, X):
        return own(asked, X) + (1e-12 if len(X) == 1 else 0.0)

    monkeypatch.setattr(type(model), "predict_proba", differs)
    assert not load.singles(model, 1)[2]


@pytest.mark.slow
def test_no_network_at_run_time(tmp_path):
    assert load.without_network(tmp_path) == "200"


def test_a_model_answers_as_before_after_ctrl_c(model, tmp_path):
    model.save(tmp_path / "forest")
    assert not load.interrupted(tmp_path / "forest", times=20).failures


def test_signals_while_threads_ask_change_no_answer(model, tmp_path):
    model.save(tmp_path / "forest")
    assert not load.signalled(tmp_path / "forest", times=2).failures
