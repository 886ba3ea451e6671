"""evaluate: every figure equals its metric, intervals hold it, bad input is refused."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_matrix
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import brier_score_loss, log_loss

from polycal import evaluate, metrics
from polycal.plotting import TrustDisplay
from tests.toys.evaluations import value


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


class Given:
    """Answers by row number: X is an array of them."""

    def __init__(self, P, scores, alpha=None):
        self.P, self.scores, self.classes_ = np.array(P), np.array(scores), np.arange(len(P[0]))
        if alpha is not None:
            self.in_distribution = lambda X: np.array(alpha)[X]

    def predict_proba(self, X):
        return self.P[X]

    def score_samples(self, X):
        return self.scores[X]


@pytest.fixture
def given():
    """A model of 40 rows with tied scores, and labels that it gets right more often than not."""
    rng = np.random.default_rng(1)
    P = rng.dirichlet(np.ones(3), size=40)
    y = np.where(rng.random(40) < 0.6, P.argmax(axis=1), rng.integers(0, 3, 40))
    return Given(P, rng.integers(0, 12, 40), rng.random(40)), np.arange(40), y


def plain(found):
    """Values without the one that random halves of the rows go into."""
    return {f[:3]: f.value for f in found.figures if f.metric != "ece_debiased"}


def test_whole_weights_are_repeated_rows(given):
    model, X, y = given
    times = np.random.default_rng(2).integers(0, 4, 30)
    outside = {"ten": X[30:], "same": X[:30]}
    weighted = evaluate(model, X[:30], y[:30], ood=outside, sample_weight=times, n_rounds=5)
    again = np.repeat(X[:30], times)
    repeated = plain(evaluate(model, again, y[again], ood=outside, n_rounds=5))
    assert plain(weighted) == pytest.approx(repeated, rel=1e-12)
    assert len(repeated) == 6 + 2 * 5


def test_rows_without_weight_are_not_there_and_equal_weights_are_none(given):
    model, X, y = given
    options = {"ood": X, "n_rounds": 30, "random_state": 0}
    used = evaluate(model, X[:20], y[:20], **options).figures
    weight = np.repeat([3.0, 0.0], 20)
    zero = evaluate(model, X, y, sample_weight=weight, **options).figures
    assert [f[:3] for f in zero] == [f[:3] for f in used]
    assert_allclose([f[3:] for f in zero], [f[3:] for f in used], rtol=1e-12)
    alike = evaluate(model, X[:20], y[:20], sample_weight=weight[:20], **options).figures
    assert alike == used


def test_weighted_figures_are_weighted_metrics(scene):
    models, X, y, outside = scene
    weight = np.random.default_rng(3).exponential(size=len(y))
    found = evaluate(models, X, y, ood=outside, sample_weight=weight, n_rounds=5)
    model = models["polycal"]
    P, codes = model.predict_proba(X), np.searchsorted(model.classes_, y)
    w = {"sample_weight": weight}
    expected = {
        "error": np.average(P.argmax(axis=1) != codes, weights=weight),
        "log_loss": log_loss(y, np.maximum(P, 1e-15), **w),
        "brier": brier_score_loss(y, P, scale_by_half=False, **w),
        "ece": metrics.expected_calibration_error(codes, P, **w),
        "confidence_on_errors": metrics.mean_max_confidence_on_errors(codes, P, **w),
        "trusted": np.average(model.in_distribution(X) > 0.5, weights=weight),
    }
    got = {m: value(found, "polycal", "in distribution", m) for m in expected}
    assert got == pytest.approx(expected, rel=1e-6)
    prior = np.bincount(codes, weight) / weight.sum()
    for rows, Z in outside.items():
        Q, pair = model.predict_proba(Z), (model.score_samples(X), model.score_samples(Z))
        expected = {
            "oce": metrics.ood_calibration_error(Q, prior),
            "confidence": metrics.mean_max_confidence(Q),
            "auroc": metrics.auroc(*pair, id_weight=weight),
            "fpr95": metrics.fpr_at_tpr(*pair, id_weight=weight),
        }
        assert {m: value(found, "polycal", rows, m) for m in expected} == pytest.approx(expected)


def test_unequal_weights_widen_the_interval():
    # The share of errors moves by sqrt(sum w^2 (e - p)^2) / sum w, as for any ratio of sums.
    rng = np.random.default_rng(0)
    wrong, weight = rng.random(800) < 0.3, rng.exponential(size=800) ** 2
    model = Given([[0.9, 0.1]], [0.0])
    found = evaluate(
        model,
        np.zeros(800, dtype=int),
        wrong.astype(int),
        sample_weight=weight,
        n_rounds=400,
        random_state=0,
    )
    error = next(f for f in found.figures if f.metric == "error")
    p = np.average(wrong, weights=weight)
    deviation = np.sqrt((weight**2 * (wrong - p) ** 2).sum()) / weight.sum()
    assert error.value == pytest.approx(p)
    assert error.high - error.low == pytest.approx(2 * 1.96 * deviation, rel=0.15)
    assert deviation > 1.5 * np.sqrt(p * (1 - p) / 800)


def test_trusted_is_the_share_of_the_trust_display(scene, found):
    models, X, _, outside = scene
    for rows, Z in outside.items():
        display = TrustDisplay.from_estimator(models["polycal"], X, Z)
        assert value(found, "polycal", rows, "trusted") == pytest.approx(display.ood_trusted)
        assert value(found, "polycal", "in distribution", "trusted") == pytest.approx(
            display.id_trusted
        )
    assert display.id_trusted > 0.9
    assert not [f for f in found.figures if f.model == "forest" and f.metric == "trusted"]


def test_any_model_with_in_distribution_has_trusted_rows():
    model = Given([[0.9, 0.1]] * 4, [0.0] * 4, alpha=[0.5, 0.6, 0.4, 1.0])
    y, X = np.array([0, 0, 1, 1]), np.arange(4)
    found = evaluate(model, X, y, ood=X[1:], sample_weight=[1, 3, 1, 1], n_rounds=5)
    assert [f.value for f in found.figures if f.metric == "trusted"] == pytest.approx(
        [4 / 6, 2 / 3]
    )


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
    with pytest.raises(ValueError, match=r"one label for each row; got shape \("):
        evaluate(forest, X, y[:, None])
    with pytest.raises(ValueError, match="rows and y"):
        evaluate(forest, X, y[:-1])
    other = RandomForestClassifier(3).fit(X, y == "digit 3")
    with pytest.raises(ValueError, match="same classes"):
        evaluate([forest, other], X, y)
    with pytest.raises(ValueError, match="prior must sum to 1"):
        evaluate(forest, X, y, priors=np.ones(10))
    for weight, message in [
        (np.ones(3), f"sample_weight must hold one number for each of the {len(y)} rows"),
        (-np.ones(len(y)), "sample_weight must not be negative"),
        (np.full(len(y), np.nan), "sample_weight contains NaN"),
        (np.zeros(len(y)), "sample_weight is 0 for every row"),
    ]:
        with pytest.raises(ValueError, match=message):
            evaluate(forest, X, y, sample_weight=weight)
    with pytest.raises(ValueError, match="score_samples of 'Given' must not hold NaN"):
        evaluate(Given([[0.5, 0.5]], [np.nan]), [0, 0], [0, 1])
    with pytest.raises(ValueError, match="metrics must name some of"):
        evaluate(forest, X, y, n_rounds=3).plot(metrics=["f1"])


def test_sparse_rows_are_dense_rows():
    rng = np.random.default_rng(0)
    X, y = rng.integers(3, size=(60, 4)).astype(float), np.arange(60) % 2
    forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    sparse = evaluate(forest, csr_matrix(X), y, ood=csr_matrix(X[:9] + 5), random_state=0)
    assert sparse.figures == evaluate(forest, X, y, ood=X[:9] + 5, random_state=0).figures
    with pytest.raises(ValueError, match="are empty"):
        evaluate(forest, X, y, ood=csr_matrix(X[:0]))
