"""Detection of out-of-distribution rows: by hand, by loop, and against scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve

from polycal.metrics import auroc, fpr_at_tpr


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
