"""Hand-computed toys, definitions by loop, and bad input for the measures; the simulated data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.calibration import calibration_curve
from sklearn.metrics import roc_auc_score, roc_curve

import polycal.metrics
from polycal.metrics import (
    auroc,
    calibration_error_interval,
    classwise_calibration_error,
    expected_calibration_error,
    fpr_at_tpr,
    hellinger_distance,
    mean_max_confidence,
    mean_max_confidence_on_errors,
    ood_calibration_error,
)
from polycal.metrics.calibration import Gaps, equal_mass, gaps_by_cell
from polycal.metrics.interval import bootstrap_errors, cell_sums, cross_fitted_error
from polycal.simulations import make_gaussian_xor, sample_sphere

CALIBRATION_ERRORS = (expected_calibration_error, classwise_calibration_error)
STRATEGIES = ("width", "mass")


@st.composite
def labelled(draw):
    """y, P, weight and n_bins, with zeros, ones, ties and probabilities on the edges of bins."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, n_classes = draw(st.integers(1, 40)), draw(st.integers(2, 4))
    parts = rng.multinomial(20, rng.dirichlet(np.ones(n_classes)), size=n) / 20
    P = parts if draw(st.booleans()) else rng.dirichlet(np.ones(n_classes), n)
    weight = rng.integers(0, 4, n)
    weight[0] += 1
    return rng.integers(0, n_classes, n), P, weight, draw(st.integers(1, 25))


@st.composite
def scored(draw):
    """ID and OOD scores with ties, and whole weights of which at least one is positive."""
    scores = st.lists(st.sampled_from([-math.inf, -1.0, 0.0, 0.5, 2.0, math.inf]), min_size=1)
    inside, outside = np.array(draw(scores)), np.array(draw(scores))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weights = [rng.integers(0, 4, len(values)) for values in (inside, outside)]
    for weight in weights:
        weight[rng.integers(len(weight))] += 1
    return inside, outside, *weights


def bins_by_loop(values, weight, n_bins, strategy):
    """Row by row from the docstring, in whole numbers where the bins are of equal mass."""
    found = []
    for value in values:
        if strategy == "width":
            r = 1
            while value > r / n_bins and r < n_bins:
                r += 1
            found.append(r)
        else:
            below = sum(int(w) for v, w in zip(values, weight, strict=True) if v < value)
            up_to = sum(int(w) for v, w in zip(values, weight, strict=True) if v <= value)
            r = 1 + n_bins * (below + up_to) // (2 * int(sum(weight)))
            found.append(min(r, n_bins))
    return found


def error_by_loop(values, outcomes, weight, n_bins, strategy):
    bins = bins_by_loop(values, weight, n_bins, strategy)
    error = 0.0
    for r in range(1, n_bins + 1):
        rows = [i for i, b in enumerate(bins) if b == r]
        mass = sum(weight[i] for i in rows)
        if mass:
            mean = sum(weight[i] * values[i] for i in rows) / mass
            share = sum(weight[i] * outcomes[i] for i in rows) / mass
            error += mass / sum(weight) * abs(mean - share)
    return error


def calibrated(rng, n, temperature=1.0):
    """Two classes whose log odds are normal; P is calibrated at temperature 1."""
    odds = rng.normal(0, 2, n)
    p = 1 / (1 + np.exp(-odds * temperature))
    y = (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(int)
    return y, np.column_stack([1 - p, p])


def test_public_names():
    design = {
        "expected_calibration_error",
        "ood_calibration_error",
        "mean_max_confidence",
        "mean_max_confidence_on_errors",
        "hellinger_distance",
        "auroc",
        "fpr_at_tpr",
    }
    ours = {"classwise_calibration_error", "calibration_error_interval", "CalibrationErrorInterval"}
    assert set(polycal.metrics.__all__) == design | ours


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("error", CALIBRATION_ERRORS)
def test_calibration_error_toys(error, strategy):
    P = np.tile([0.9, 0.1], (10, 1))
    y = np.array([0] * 6 + [1] * 4)
    assert error(y, P, strategy=strategy) == pytest.approx(0.3)
    assert error(y, P, n_bins=1, strategy=strategy) == pytest.approx(0.3)
    perfect = np.tile([0.6, 0.4], (10, 1))
    assert error(y, perfect, strategy=strategy) == pytest.approx(0.0, abs=1e-12)
    certain = np.eye(2)[y]
    assert error(y, certain, strategy=strategy) == 0.0
    assert error(1 - y, certain, strategy=strategy) == pytest.approx(1.0)
    assert error([0], [[0.7, 0.3]], strategy=strategy) == pytest.approx(0.3)


def test_one_bin_is_mean_confidence_less_accuracy():
    P = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.2, 0.8]])
    assert expected_calibration_error([0, 0, 1, 1], P, n_bins=1) == pytest.approx(0.75 - 0.5)
    # Class 0: mean probability 0.55, share 0.5; class 1: 0.45 and 0.5.
    assert classwise_calibration_error([0, 0, 1, 1], P, n_bins=1) == pytest.approx(0.05)


def test_classwise_by_hand():
    P = np.array([[0.6, 0.3, 0.1], [0.6, 0.1, 0.3], [0.2, 0.2, 0.6], [0.2, 0.6, 0.2]])
    # Two bins. Class 0: low 0.2, 0.2 of which 0 right, high 0.6, 0.6 of which 1: (0.4 + 0.2) / 4.
    # Class 1: low 0.3 + 0.1 + 0.2, 1 right; high 0.6, 0 right: (0.4 + 0.6) / 4.
    # Class 2: low 0.1 + 0.3 + 0.2, 1 right; high 0.6, 1 right: (0.4 + 0.4) / 4.
    expected = (0.15 + 0.25 + 0.2) / 3
    assert classwise_calibration_error([0, 1, 2, 2], P, n_bins=2) == pytest.approx(expected)


def test_a_class_without_rows_adds_its_mean_probability():
    P = np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]])
    assert classwise_calibration_error([0, 1], P) == pytest.approx((0.0 + 0.2 + 0.2) / 3)


@pytest.mark.parametrize("n_bins", [5, 10, 15, 20])
def test_a_confidence_on_an_edge_falls_into_the_bin_that_it_closes(n_bins):
    """Gaps of opposite sign cancel in one bin and add up in two."""
    for r in range(n_bins // 2 + 1, n_bins):
        edge = r / n_bins
        inside = (r - 0.5) / n_bins
        P = np.array([[edge, 1 - edge], [inside, 1 - inside]])
        error = expected_calibration_error([1, 0], P, n_bins=n_bins)
        assert error == pytest.approx(abs(edge + inside - 1) / 2)


def test_no_bin_is_lost():
    """Certain and wrong, in the last bin; certain of another class, in the first."""
    assert expected_calibration_error([1], [[1.0, 0.0]]) == 1.0
    assert classwise_calibration_error([1], [[1.0, 0.0]]) == 1.0


def test_equal_mass_by_hand():
    confidence = np.array([0.6, 0.7, 0.8, 0.9])
    P = np.column_stack([confidence, 1 - confidence])
    y = [1, 0, 1, 0]  # gaps 0.6, -0.3, 0.8, -0.1
    mass = {"strategy": "mass"}
    assert expected_calibration_error(y, P, 2, **mass) == pytest.approx((0.3 + 0.7) / 4)
    assert expected_calibration_error(y, P, 4, **mass) == pytest.approx(1.8 / 4)
    # Six rows of 0.6 span 6/9 of the weight: their middle is in the first of two bins, with none
    # of the others, whose middles are 13/18, 15/18 and 17/18.
    tied = np.concatenate([np.repeat(P[:1], 6, axis=0), P[1:]])
    error = expected_calibration_error([1] * 6 + [0, 1, 0], tied, 2, **mass)
    assert error == pytest.approx((6 * 0.6 + abs(-0.3 + 0.8 - 0.1)) / 9)


def test_equal_mass_bins_are_equal():
    rng = np.random.default_rng(0)
    bins = equal_mass(rng.random(600), np.full(600, 1 / 600), 20)
    assert (np.bincount(bins) == 30).all()


@given(labelled(), st.sampled_from(STRATEGIES))
@settings(max_examples=60, deadline=None)
def test_calibration_errors_equal_their_definition_by_loop(data, strategy):
    y, P, weight, n_bins = data
    right = [int(np.argmax(p) == label) for p, label in zip(P, y, strict=True)]
    expected = error_by_loop([max(p) for p in P], right, weight, n_bins, strategy)
    options = {"sample_weight": weight, "strategy": strategy}
    assert expected_calibration_error(y, P, n_bins, **options) == pytest.approx(expected, abs=1e-12)
    per_class = [
        error_by_loop(P[:, k], [int(label == k) for label in y], weight, n_bins, strategy)
        for k in range(P.shape[1])
    ]
    found = classwise_calibration_error(y, P, n_bins, **options)
    assert found == pytest.approx(np.mean(per_class), abs=1e-12)


@given(labelled())
@settings(max_examples=60, deadline=None)
def test_weights_are_repeated_rows_and_order_does_not_matter(data):
    y, P, weight, n_bins = data
    Q = P[::-1]
    rows = np.random.default_rng(0).permutation(np.repeat(np.arange(len(y)), weight))
    measures = [
        mean_max_confidence_on_errors,
        lambda y, P, **w: mean_max_confidence(P, **w),
        lambda y, P, **w: ood_calibration_error(P, np.eye(P.shape[1])[0], **w),
    ]
    for error in CALIBRATION_ERRORS:
        for strategy in STRATEGIES:
            measures.append(lambda y, P, e=error, s=strategy, **w: e(y, P, n_bins, strategy=s, **w))
    for measure in measures:
        expected = measure(y[rows], P[rows])
        found = measure(y, P, sample_weight=weight * 0.3)
        assert found == pytest.approx(expected, abs=1e-12, nan_ok=True)
    found = hellinger_distance(P, Q, sample_weight=weight)
    assert found == pytest.approx(hellinger_distance(P[rows], Q[rows]), abs=1e-12)


def test_ece_agrees_with_scikit_learns_calibration_curve():
    y, P = calibrated(np.random.default_rng(0), 3000, 1.7)
    confidence, right = P.max(axis=1), P.argmax(axis=1) == y
    # NumPy's edges: linspace(0, 1, 21) differs from r / 20 by rounding alone.
    for strategy, edges in {
        "uniform": np.linspace(0, 1, 21),
        "quantile": np.percentile(confidence, np.linspace(0, 1, 21) * 100),
    }.items():
        share, mean = calibration_curve(right, confidence, n_bins=20, strategy=strategy)
        size = np.bincount(np.searchsorted(edges[1:-1], confidence), minlength=20)
        expected = (size[size > 0] * np.abs(share - mean)).sum() / 3000
        ours = {"uniform": "width", "quantile": "mass"}[strategy]
        assert expected_calibration_error(y, P, strategy=ours) == pytest.approx(expected)


def test_labels_may_be_whole_floats_or_booleans():
    P = [[0.9, 0.1], [0.2, 0.8]]
    expected = expected_calibration_error([0, 1], P)
    for y in ([0.0, 1.0], [False, True], np.array([0, 1], dtype=object), np.uint8([0, 1])):
        assert expected_calibration_error(y, P) == expected


def test_confidence_by_hand():
    P = [[0.7, 0.3], [0.4, 0.6], [0.1, 0.9]]
    assert mean_max_confidence(P) == pytest.approx(2.2 / 3)
    assert mean_max_confidence(P, sample_weight=[1, 1, 0]) == pytest.approx(0.65)
    assert ood_calibration_error(P, [0.5, 0.5]) == pytest.approx(0.7 / 3)
    # The highest prior, 0.8, is compared; it need not be of the predicted class.
    assert ood_calibration_error(P, [0.8, 0.2]) == pytest.approx((0.1 + 0.2 + 0.1) / 3)
    assert ood_calibration_error([[0.2, 0.8]] * 3, [0.2, 0.8]) == 0.0
    assert ood_calibration_error(P, [1, 0]) == pytest.approx(0.8 / 3)
    assert mean_max_confidence_on_errors([1, 1, 0], P) == pytest.approx(0.8)
    assert mean_max_confidence_on_errors([1, 1, 0], P, sample_weight=[3, 1, 1]) == pytest.approx(
        0.75
    )
    assert math.isnan(mean_max_confidence_on_errors([0, 1, 1], P))
    assert math.isnan(mean_max_confidence_on_errors([1, 1, 1], P, sample_weight=[0, 1, 1]))
    # Of equal probabilities the first is the prediction.
    assert mean_max_confidence_on_errors([0, 1], [[0.5, 0.5], [0.5, 0.5]]) == 0.5


def test_hellinger_by_hand():
    assert hellinger_distance([[1, 0]], [[0, 1]]) == 1.0
    assert hellinger_distance([[0.3, 0.7]], [[0.3, 0.7]]) == 0.0
    # 1 - (sqrt(1/2) + 0) under the root for the first row; the mean is over rows, not under it.
    first = math.sqrt(1 - math.sqrt(0.5))
    assert hellinger_distance([[1, 0], [1, 0]], [[0.5, 0.5], [0, 1]]) == pytest.approx(
        (first + 1) / 2
    )
    found = hellinger_distance([[1, 0], [1, 0]], [[0.5, 0.5], [0, 1]], sample_weight=[3, 1])
    assert found == pytest.approx((3 * first + 1) / 4)


@given(labelled())
@settings(max_examples=30, deadline=None)
def test_hellinger_is_symmetric_and_equals_its_other_form(data):
    _, P, _, _ = data
    Q = P[::-1]
    expected = np.sqrt(np.clip(1 - np.sqrt(P * Q).sum(axis=1), 0, None)).mean()
    assert hellinger_distance(P, Q) == pytest.approx(expected, abs=1e-7)  # that form cancels
    assert hellinger_distance(P, Q) == hellinger_distance(Q, P)


def test_detection_by_hand():
    assert auroc([2, 3], [0, 1]) == 1.0
    assert auroc([1, 1], [1]) == 0.5
    assert auroc([0], [-math.inf, math.inf]) == 0.5
    assert auroc([-math.inf], [-math.inf]) == 0.5
    # Pairs: 3 > 1, 3 > 2, 2 > 1 and the tie 2 = 2; the tie has weight 5 * 3 of 6 * 4.
    assert auroc([2, 3], [1, 2], id_weight=[5, 1], ood_weight=[1, 3]) == pytest.approx(
        (5 + 4 + 15 / 2) / 24
    )
    inside = np.arange(20.0)
    # 19 of 20 are exactly 0.95: the threshold is 1, and the row on it passes.
    assert fpr_at_tpr(inside, [0.5, 1.0, 1.5, -3.0]) == 0.5
    assert fpr_at_tpr(inside, [0.5, 1.0, 1.5, -3.0], tpr=0.951) == 0.75
    assert fpr_at_tpr(inside, [0.5, 1.0, 1.5, -3.0], tpr=1) == 0.75
    # 7 of 100, where 0.07 * 100 is above 7 by rounding.
    assert fpr_at_tpr(np.arange(100), [92.5, 93.0], tpr=0.07) == 0.5
    # Ties on the threshold are all kept.
    assert fpr_at_tpr([0, 1, 1, 1, 1], [1, 0], tpr=0.3) == 0.5
    assert fpr_at_tpr([5, 1], [2, 0], tpr=0.5, id_weight=[1, 3]) == 0.5
    assert fpr_at_tpr([5, 1], [2, 0], tpr=1, id_weight=[1, 0], ood_weight=[1, 2]) == 0.0


@given(scored(), st.sampled_from([0.05, 0.3, 0.5, 0.75, 0.95, 1.0]))
@settings(max_examples=80, deadline=None)
def test_detection_equals_its_definition_by_loop(data, tpr):
    inside, outside, id_weight, ood_weight = data
    weights = {"id_weight": 0.7 * id_weight, "ood_weight": 1.3 * ood_weight}
    pairs = sum(
        wi * wo * ((i > o) + 0.5 * (i == o))
        for i, wi in zip(inside, id_weight, strict=True)
        for o, wo in zip(outside, ood_weight, strict=True)
    )
    found = auroc(inside, outside, **weights)
    assert found == pytest.approx(pairs / id_weight.sum() / ood_weight.sum())
    backwards = auroc(outside, inside, id_weight=ood_weight, ood_weight=id_weight)
    assert found == pytest.approx(1 - backwards)
    threshold = max(
        t for t in inside if id_weight[inside >= t].sum() >= tpr * id_weight.sum() - 1e-9
    )
    expected = ood_weight[outside >= threshold].sum() / ood_weight.sum()
    assert fpr_at_tpr(inside, outside, tpr, **weights) == pytest.approx(expected)
    repeated = np.repeat(inside, id_weight), np.repeat(outside, ood_weight)
    assert auroc(*repeated) == pytest.approx(found)
    assert fpr_at_tpr(*repeated, tpr) == pytest.approx(expected)


@pytest.mark.parametrize("tpr", [0.2, 0.8, 0.95, 1.0])
def test_detection_agrees_with_scikit_learn(tpr):
    rng = np.random.default_rng(0)
    inside, outside = rng.integers(2, 30, 50), rng.integers(0, 20, 70)
    weights = rng.uniform(0.1, 2, 120)
    label, score = np.r_[np.ones(50), np.zeros(70)], np.r_[inside, outside]
    for weight in (np.ones(120), weights):
        ours = {"id_weight": weight[:50], "ood_weight": weight[50:]}
        expected = roc_auc_score(label, score, sample_weight=weight)
        assert auroc(inside, outside, **ours) == pytest.approx(expected)
        fpr, kept, _ = roc_curve(label, score, sample_weight=weight, drop_intermediate=False)
        expected = fpr[np.argmax(kept >= tpr - 1e-9)]
        assert fpr_at_tpr(inside, outside, tpr, **ours) == pytest.approx(expected)


@pytest.mark.parametrize("classwise", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_interval_is_ordered_around_the_plain_value(classwise, strategy):
    y, P = calibrated(np.random.default_rng(1), 1500, 1.5)
    options = {"strategy": strategy, "sample_weight": np.random.default_rng(2).random(1500)}
    found = calibration_error_interval(y, P, 10, classwise=classwise, random_state=0, **options)
    assert found.value == CALIBRATION_ERRORS[classwise](y, P, 10, **options)
    assert all(type(figure) is float for figure in found)
    assert 0 < found.low < found.debiased < found.value < found.high < 1
    again = calibration_error_interval(y, P, 10, classwise=classwise, random_state=0, **options)
    assert again == found


def test_interval_ignores_rows_of_weight_0_and_the_scale_of_weights():
    y, P = calibrated(np.random.default_rng(1), 300, 1.5)
    plain = calibration_error_interval(y, P, random_state=0)
    zeros = np.concatenate([np.zeros(50), np.full(300, 4.0)])
    more = calibration_error_interval(
        np.r_[1 - y[:50], y], np.r_[P[:50], P], sample_weight=zeros, random_state=0
    )
    assert more == pytest.approx(plain)


def test_interval_of_one_row():
    found = calibration_error_interval([0], [[0.7, 0.3]])
    assert found == pytest.approx((0.3, 0.0, 0.0, 0.3))


def test_narrower_at_a_lower_level():
    y, P = calibrated(np.random.default_rng(1), 500, 1.5)
    wide = calibration_error_interval(y, P, random_state=0)
    narrow = calibration_error_interval(y, P, level=0.5, random_state=0)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_cross_fitting_equals_its_definition_over_all_halvings():
    """The form with |G| and |S| has the mean of sgn(A) B + sgn(B) A over every halving."""
    rng = np.random.default_rng(0)
    gap, cell = rng.normal(0.2, 1, 9), np.array([0, 0, 0, 0, 0, 1, 1, 1, 2])
    total = 0.0
    for halving in range(2**9):
        first = (halving >> np.arange(9)) % 2 == 1
        for r in range(3):
            a, b = gap[first & (cell == r)].sum(), gap[~first & (cell == r)].sum()
            total += np.sign(a) * b + np.sign(b) * a
    gaps = Gaps(gap[:, None], cell[:, None], 3, np.ones(9) / 9)
    by_cell = cell_sums(gaps)
    found = cross_fitted_error(by_cell, 40_000, np.random.default_rng(0))
    assert found == pytest.approx(total / 2**9, abs=0.05)
    alone = Gaps(gap[:, None], np.arange(9)[:, None], 9, gap)
    assert cross_fitted_error(cell_sums(alone), 10, rng) == 0.0


def test_bootstrap_errors_have_the_mean_of_a_plain_bootstrap():
    y, P = calibrated(np.random.default_rng(1), 60, 1.5)
    weight = np.random.default_rng(2).random(60)
    gaps = gaps_by_cell(y, P, 5, weight, "width", classwise=True)
    by_cell = cell_sums(gaps)
    rng = np.random.default_rng(3)
    found = bootstrap_errors(by_cell, gaps.share, 4000, rng)
    plain = []
    for _ in range(1000):
        rows = rng.integers(60, size=60)
        plain.append(classwise_calibration_error(y[rows], P[rows], 5, sample_weight=weight[rows]))
    assert found.mean() == pytest.approx(np.mean(plain), abs=4 * np.std(plain) / 1000**0.5)
    assert found.std() == pytest.approx(np.std(plain), rel=0.1)


@pytest.mark.parametrize("classwise", [False, True])
def test_chance_gaps_vanish_from_the_debiased_value(classwise):
    """Perfectly calibrated: the plain value is clearly above 0, the cross-fitted mean is 0."""
    rng = np.random.default_rng(0)
    plain, cross = [], []
    for _ in range(150):
        y, P = calibrated(rng, 300)
        gaps = gaps_by_cell(y, P, 20, None, "width", classwise=classwise)
        plain.append(gaps.error())
        by_cell = cell_sums(gaps)
        cross.append(cross_fitted_error(by_cell, 50, rng))
    assert np.mean(plain) > 0.04
    assert abs(np.mean(cross)) < 4 * np.std(cross) / 150**0.5 < 0.008
    y, P = calibrated(rng, 10_000)
    found = calibration_error_interval(y, P, classwise=classwise, random_state=0)
    assert found.low == 0.0
    assert found.debiased < 0.3 * found.value


def test_clear_gaps_stay_in_the_debiased_value():
    """Constant 0.9 with accuracy 0.6: no halving doubts the sign."""
    y, P = np.repeat([0, 1], [600, 400]), np.tile([0.9, 0.1], (1000, 1))
    found = calibration_error_interval(y, P, random_state=0)
    assert found.debiased == pytest.approx(0.3)
    # The standard error of the accuracy is sqrt(0.6 * 0.4 / 1000) = 0.0155.
    assert found.low == pytest.approx(0.3 - 1.96 * 0.0155, abs=0.008)
    assert found.high == pytest.approx(0.3 + 1.96 * 0.0155, abs=0.008)


@pytest.mark.parametrize("temperature", [1.0, 1.2, 2.0])
def test_the_interval_holds_the_error_of_the_population(temperature):
    rng = np.random.default_rng(0)
    population = expected_calibration_error(*calibrated(rng, 1_000_000, temperature))
    if temperature == 1.0:
        population = 0.0
    held = []
    for seed in range(200):
        y, P = calibrated(rng, 500, temperature)
        found = calibration_error_interval(y, P, n_rounds=100, random_state=seed)
        held.append(found.low <= population <= found.high)
    assert np.mean(held) >= 0.92


GOOD = np.array([[0.5, 0.5], [0.1, 0.9]])
ROW_MEASURES = {
    "expected_calibration_error": lambda P, **w: expected_calibration_error([0, 1], P, **w),
    "classwise_calibration_error": lambda P, **w: classwise_calibration_error([0, 1], P, **w),
    "calibration_error_interval": lambda P, **w: calibration_error_interval([0, 1], P, **w),
    "ood_calibration_error": lambda P, **w: ood_calibration_error(P, [0.5, 0.5], **w),
    "mean_max_confidence": mean_max_confidence,
    "mean_max_confidence_on_errors": lambda P, **w: mean_max_confidence_on_errors([0, 1], P, **w),
    "hellinger_distance": lambda P, **w: hellinger_distance(P, GOOD, **w),
}


@pytest.mark.parametrize("measure", ROW_MEASURES.values(), ids=ROW_MEASURES.keys())
@pytest.mark.parametrize(
    ("P", "message"),
    [
        ([[0.5, 0.5], [0.1, 0.8]], "sum to 1 in each row; row 1 sums to 0.9. Divide"),
        ([[0.5, 0.5], [0.1, math.nan]], "row 1 has NaN or infinity"),
        ([[math.inf, -math.inf], [0.1, 0.9]], "row 0 has NaN or infinity"),
        ([[0.5, 0.5], [1.1, -0.1]], "not be negative; row 1 has -0.1.*no logits"),
        ([0.5, 0.9], r"shape \(n_samples, n_classes\); got shape \(2,\).*column_stack"),
        (np.empty((0, 2)), r"at least one row and one class; got shape \(0, 2\)"),
        ([["a", "b"], ["c", "d"]], "P must hold a row of probabilities"),
    ],
)
def test_bad_probabilities(measure, P, message):
    with pytest.raises(ValueError, match=message):
        measure(P)


@pytest.mark.parametrize("measure", ROW_MEASURES.values(), ids=ROW_MEASURES.keys())
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1, -1], "sample_weight must not be negative"),
        ([1, math.nan], "sample_weight contains NaN"),
        ([1, 1, 1], "sample_weight must hold one number for each of the 2 rows; it holds 3"),
        ([0, 0], "sample_weight is 0 for every row"),
        ([[1, 1]], r"sample_weight has shape \(1, 2\)"),
    ],
)
def test_bad_weights(measure, weight, message):
    with pytest.raises(ValueError, match=message):
        measure(GOOD, sample_weight=weight)


@pytest.mark.parametrize(
    "measure",
    [*CALIBRATION_ERRORS, calibration_error_interval, mean_max_confidence_on_errors],
)
@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 2], r"column of P \(0 to 1\) for each of its 2 rows; got 2\. .*searchsorted"),
        ([-1, 0], "got -1"),
        ([0, 0.5], "got 0.5"),
        ([0, math.nan], "got nan"),
        (["0", "1"], "got .*'0'.* first"),
        (np.array(["0", 1], dtype=object), "got '0' first"),
        ([0, 1, 1], r"got shape \(3,\)"),
        ([[0], [1]], r"got shape \(2, 1\)"),
    ],
)
def test_bad_labels(measure, y, message):
    with pytest.raises(ValueError, match=message):
        measure(y, GOOD)


@pytest.mark.parametrize("measure", [auroc, fpr_at_tpr])
@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([], "must hold at least one score; it is empty"),
        ([1.0, math.nan], "must not hold NaN; 1 of 2 scores are, the first in row 1"),
        ([[1.0, 2.0]], r"must have shape \(n_samples,\).*got shape \(1, 2\)"),
        (["a"], "must hold one score for each row"),
    ],
)
def test_bad_scores(measure, scores, message):
    with pytest.raises(ValueError, match="id_scores " + message):
        measure(scores, [1.0])
    with pytest.raises(ValueError, match="ood_scores " + message):
        measure([1.0], scores)


@pytest.mark.parametrize("measure", [auroc, fpr_at_tpr])
def test_bad_weights_of_scores(measure):
    with pytest.raises(ValueError, match="id_weight must not be negative"):
        measure([1, 2], [1], id_weight=[1, -1])
    with pytest.raises(ValueError, match="ood_weight must hold one number for each of the 1 rows"):
        measure([1, 2], [1], ood_weight=[1, 1])


def test_other_bad_parameters():
    for priors, message in {
        (0.5, 0.4): "priors must sum to 1 in each row; row 0 sums to 0.9",
        (0.2, 0.3, 0.5): r"each of the 2 columns of P; got shape \(3,\)",
        (1.5, -0.5): "priors must not be negative",
        (math.nan, 1.0): "NaN",
    }.items():
        with pytest.raises(ValueError, match=message):
            ood_calibration_error(GOOD, priors)
    with pytest.raises(ValueError, match=r"got \(2, 2\) and \(1, 2\).*broadcast_to"):
        hellinger_distance(GOOD, GOOD[:1])
    with pytest.raises(ValueError, match="Q must sum to 1"):
        hellinger_distance(GOOD, 2 * GOOD)
    for tpr in (0, 1.01, math.nan, "high", True):
        with pytest.raises(ValueError, match="tpr must be above 0 and at most 1; got"):
            fpr_at_tpr([1], [0], tpr=tpr)
    for measure in (*CALIBRATION_ERRORS, calibration_error_interval):
        for n_bins in (0, 2.5, True):
            with pytest.raises(ValueError, match="n_bins must be a whole number"):
                measure([0, 1], GOOD, n_bins)
        with pytest.raises(ValueError, match="strategy must be one of 'width', 'mass'"):
            measure([0, 1], GOOD, strategy="quantile")
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
        calibration_error_interval([0, 1], GOOD, level=95)
    with pytest.raises(ValueError, match="n_rounds must be a whole number"):
        calibration_error_interval([0, 1], GOOD, n_rounds=0)


def test_gaussian_xor():
    X, y = make_gaussian_xor(20_000, random_state=0)
    assert y.mean() == 0.5
    for label, sign in ((0, -1), (1, 1)):
        rows = X[y == label]
        upper = rows[rows[:, 0] > 0]
        assert_allclose(rows.mean(axis=0), 0, atol=0.02)
        assert np.sign(np.median(upper[:, 1])) == sign
        assert (rows**2).mean() == pytest.approx(0.25 + 0.0625, rel=0.02)


def test_sphere():
    X = sample_sphere(1000, 7, 3.0, random_state=0)
    assert_allclose(np.linalg.norm(X, axis=1), 3.0)
    assert_allclose(X.mean(axis=0), 0, atol=0.2)
