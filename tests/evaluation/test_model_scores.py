"""How evaluate asks a model for its answers."""

from __future__ import annotations

import numpy as np
import pytest

from polycal import GeodesicCalibrator, evaluate
from tests.toys.evaluations import value


def test_a_polycal_model_is_asked_once_for_each_set_of_rows(scene, monkeypatch):
    models, X, y, outside = scene
    model, calls = models["polycal"], []
    adapter = type(model.model_.parent)
    read = adapter.read
    counted = lambda parent, X, *rest: calls.append(len(X)) or read(parent, X, *rest)  # noqa: E731
    monkeypatch.setattr(adapter, "read", counted)
    evaluate(model, X, y, ood=outside, n_rounds=2)
    assert calls == [len(X), *map(len, outside.values())]


@pytest.mark.parametrize("method", ["predict_proba", "score_samples", "in_distribution"])
@pytest.mark.parametrize("of_the_class", [True, False])
def test_a_model_is_asked_by_its_own_methods(scene, method, of_the_class):
    models, X, y, outside = scene

    def answer(*args):
        n = len(args[-1])
        return np.full((n, 10), 0.1) if method == "predict_proba" else np.zeros(n)

    own = type("Own", (GeodesicCalibrator,), {method: answer} if of_the_class else {})()
    own.__dict__.update(vars(models["polycal"]))
    if not of_the_class:
        setattr(own, method, answer)
    found = evaluate({"own": own}, X, y, ood={"noise": outside["noise"]}, n_rounds=2)
    if method == "predict_proba":
        assert value(found, "own", "in distribution", "log_loss") == pytest.approx(np.log(10))
    elif method == "score_samples":
        assert value(found, "own", "noise", "auroc") == 0.5
    else:
        assert value(found, "own", "in distribution", "trusted") == 0.0
