"""evaluate: every figure equals its metric, intervals hold it, bad input is refused."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from conftest import small_forest
from numpy.testing import assert_allclose
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import brier_score_loss, log_loss

from polycal import GeodesicCalibrator, evaluate, metrics

mpl.use("Agg")


@pytest.fixture(scope="module")
def scene(digits):
    X, y = digits
    names = np.array([f"digit {k}" for k in range(10)])[y]
    forest = RandomForestClassifier(40, random_state=0).fit(X[:900], names[:900])
    model = GeodesicCalibrator(small_forest(n_estimators=40), random_state=0)
    models = {"forest": forest, "polycal": model.fit(X[:900], names[:900])}
    noise = np.random.default_rng(0).random((300, 64))
    outside = {"noise": noise, "inverted": 1 - X[900:1200]}
    return models, X[900:], names[900:], outside


@pytest.fixture(scope="module")
def found(scene):
    models, X, y, outside = scene
    return evaluate(models, X, y, ood=outside, n_rounds=60, random_state=0)


def value(found, model, rows, metric):
    (figure,) = [f for f in found.figures if f[:3] == (model, rows, metric)]
    return figure.value


def test_every_figure_is_its_metric(scene, found):
    models, X, y, outside = scene
    prior = np.array([(y == c).mean() for c in models["forest"].classes_])
    for name, model in models.items():
        P, codes = model.predict_proba(X), np.searchsorted(model.classes_, y)

        def inside(metric, name=name):
            return value(found, name, "in distribution", metric)

        assert inside("error") == pytest.approx((model.predict(X) != y).mean(), abs=2e-3)
        assert inside("log_loss") == pytest.approx(log_loss(y, np.maximum(P, 1e-15)), rel=1e-6)
        assert inside("brier") == pytest.approx(brier_score_loss(y, P, scale_by_half=False))
        assert inside("ece") == pytest.approx(metrics.expected_calibration_error(codes, P))
        expected = metrics.mean_max_confidence_on_errors(codes, P)
        assert inside("confidence_on_errors") == pytest.approx(expected)
        scores = model.score_samples if name == "polycal" else lambda Z, m=model: top(m, Z)
        for rows, Z in outside.items():
            Q = model.predict_proba(Z)
            assert value(found, name, rows, "oce") == pytest.approx(
                metrics.ood_calibration_error(Q, prior)
            )
            assert value(found, name, rows, "confidence") == pytest.approx(
                metrics.mean_max_confidence(Q)
            )
            pair = scores(X), scores(Z)
            assert value(found, name, rows, "auroc") == pytest.approx(metrics.auroc(*pair))
            assert value(found, name, rows, "fpr95") == pytest.approx(metrics.fpr_at_tpr(*pair))


def top(model, X):
    return model.predict_proba(X).max(axis=1)


def test_intervals_hold_the_value_and_have_the_width_of_a_share(found, scene):
    for figure in found.figures:
        assert figure.low <= figure.value <= figure.high or np.isnan(figure.value)
    error = next(f for f in found.figures if f.metric == "error")
    deviation = np.sqrt(error.value * (1 - error.value) / len(scene[1]))
    assert error.high - error.low == pytest.approx(2 * 1.96 * deviation, rel=0.4)


def test_the_same_seed_gives_the_same_figures_and_priors_count(scene):
    models, X, y, outside = scene
    forest = models["forest"]
    a, b = (evaluate(forest, X, y, n_rounds=20, random_state=3).figures for _ in range(2))
    assert a == b
    assert {f.model for f in a} == {"RandomForestClassifier"}
    sure = np.full(10, 0.01) + 0.9 * np.eye(10)[0]
    moved = evaluate([forest, forest], X, y, ood=outside["noise"], priors=sure, n_rounds=5)
    oce = [f.value for f in moved.figures if f.metric == "oce"]
    assert (
        oce
        == [
            pytest.approx(
                metrics.ood_calibration_error(forest.predict_proba(outside["noise"]), sure)
            )
        ]
        * 2
    )
    assert {f.model for f in moved.figures} == {
        "RandomForestClassifier 1",
        "RandomForestClassifier 2",
    }


def test_frame_table_and_picture(found):
    frame = found.to_frame()
    assert list(frame.columns) == ["model", "rows", "metric", "value", "low", "high"]
    assert len(frame) == 2 * (6 + 2 * 4)
    table = found.to_markdown()
    assert "| in distribution | error | ECE |" in table
    line = next(line for line in table.splitlines() if line.startswith("| polycal"))
    assert f"{value(found, 'polycal', 'in distribution', 'error'):.3f}" in line
    figure = found.plot(metrics=["error", "oce"])
    shown = [ax for ax in figure.axes if ax.get_visible()]
    assert [ax.get_title() for ax in shown] == ["error", "OCE, noise", "OCE, inverted"]
    drawn = shown[0].lines[0].get_xdata()
    wanted = [value(found, m, "in distribution", "error") for m in ("forest", "polycal")]
    assert_allclose(drawn, wanted)


def test_no_errors_leave_no_confidence_on_errors():
    X = np.array([[0.0], [1.0]] * 20)
    y = np.array([0, 1] * 20)
    model = RandomForestClassifier(5, random_state=0).fit(X, y)
    found = evaluate(model, X, y, n_rounds=5)
    assert np.isnan(
        value(found, "RandomForestClassifier", "in distribution", "confidence_on_errors")
    )
    assert "nan" not in found.to_markdown()


def test_bad_input(scene):
    models, X, y, _ = scene
    forest = models["forest"]
    with pytest.raises(TypeError, match="fitted classifiers.*Fit it first"):
        evaluate(RandomForestClassifier(), X, y)
    with pytest.raises(ValueError, match="models is empty"):
        evaluate([], X, y)
    with pytest.raises(ValueError, match="OOD rows 'noise' are empty"):
        evaluate(forest, X, y, ood={"noise": X[:0]})
    with pytest.raises(ValueError, match=r"y must hold classes of the model.*\['eleven'\]"):
        evaluate(forest, X, np.where(np.arange(len(y)) == 3, "eleven", y))
    with pytest.raises(ValueError, match="rows and y"):
        evaluate(forest, X, y[:-1])
    other = RandomForestClassifier(3).fit(X, y == "digit 3")
    with pytest.raises(ValueError, match="same classes"):
        evaluate([forest, other], X, y)
    with pytest.raises(ValueError, match="prior must sum to 1"):
        evaluate(forest, X, y, priors=np.ones(10))
    with pytest.raises(ValueError, match="metrics must name some of"):
        evaluate(forest, X, y, n_rounds=3).plot(metrics=["f1"])
