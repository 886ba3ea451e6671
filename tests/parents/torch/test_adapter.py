"""Networks of torch: bits equal the activations computed by hand, nothing is left behind."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from scipy.special import expit, softmax

from polycal import GeodesicCalibrator, report
from tests.toys.readings import K, N, assert_modes, assert_same

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from polycal.parents import Adapter  # noqa: E402
from polycal.parents.networks import to_proba  # noqa: E402
from polycal.parents.torch.adapter import energy  # noqa: E402
from polycal.parents.torch.parent import TorchParent  # noqa: E402
from tests.toys.torch_nets import (  # noqa: E402
    MARKS,
    Functional,
    Shared,
    TwoParts,
    by_hand,
    mlp,
    read,
    smooth,
)

pytestmark = MARKS


# ---------------------------------------------------------------- modes


@pytest.mark.parametrize(
    "activation",
    [nn.ReLU(), nn.ReLU(inplace=True), nn.LeakyReLU(0.1), nn.PReLU(7, init=-0.5)],
    ids=["relu", "inplace", "leaky", "prelu"],
)
def test_bits_are_the_signs_of_the_inputs(X, activation):
    net = mlp(activation, copy.deepcopy(activation))
    before, logits = by_hand(net, X)
    assert_modes(read(net, X), [b > 0 for b in before], softmax(logits, axis=1))


@pytest.mark.parametrize(
    ("activation", "low", "high"), [(nn.ReLU6(), 0, 6), (nn.Hardtanh(-0.5, 0.25), -0.5, 0.25)]
)
def test_bounded_activations_have_three_pieces(X, activation, low, high):
    net = mlp(activation)
    X = 8 * X
    (before,), logits = by_hand(net, X)
    expected = np.concatenate([before > low, before >= high], axis=1)
    assert_modes(read(net, X), [expected], softmax(logits, axis=1))


def test_a_bound_belongs_to_the_upper_piece():
    net = nn.Sequential(nn.Hardtanh(-1, 1), nn.Linear(1, 2))
    bits = next(read(net, [[-1.0], [-0.5], [1.0], [2.0]]).modes.groups())
    np.testing.assert_array_equal(bits, [[0, 0], [1, 0], [1, 1], [1, 1]])


@pytest.mark.parametrize(
    "activation",
    [
        *(nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.Mish(), nn.Hardswish(), nn.ELU(), nn.CELU()),
        *(nn.SELU(), nn.Softplus(), nn.Tanh(), nn.Sigmoid()),
    ],
    ids=str,
)
def test_a_smooth_unit_is_on_where_its_input_is_positive(X, activation):
    net = mlp(activation, copy.deepcopy(activation))
    before, logits = by_hand(net, X)
    assert_modes(read(net, X), [b > 0 for b in before], softmax(logits, axis=1))


def test_smooth_activations_beside_others_are_left_out(X):
    """A final Sigmoid, or a gate, is no unit where there are linear pieces."""
    net = mlp(nn.ReLU(), out=1)
    read_with = TorchParent(nn.Sequential(*net, nn.Sigmoid()), output="probabilities")
    assert_same(read(read_with, X), read(net, X))
    mixed = mlp(nn.Tanh(), nn.ReLU6(), nn.GELU())
    before, _ = by_hand(mixed, X)
    groups = list(read(mixed, X).modes.groups())
    assert len(groups) == 2
    expected = np.concatenate([before[1] > 0, before[1] >= 6], axis=1)
    np.testing.assert_array_equal(groups[0], expected)


def test_smooth_activations_can_be_named(X):
    net = mlp(nn.Tanh(), nn.ReLU())
    before, logits = by_hand(net, X)
    named = read(TorchParent(net, layers=["1", "3"]), X)
    assert_modes(named, [b > 0 for b in before], softmax(logits, axis=1))


def test_named_linear_layers_equal_relu_modules(X):
    plain, functional = Shared(), Functional()
    functional.load_state_dict(plain.state_dict())
    named = read(TorchParent(functional, layers=["second", "first"]), X)
    assert_same(named, read(plain, X))


def test_convolutions_are_flattened(y):
    images = np.random.default_rng(2).normal(size=(N, 1, 6, 6)).astype(np.float32)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, K))
    before, logits = by_hand(net, images)
    reading = read(net, images)
    assert_modes(reading, [b > 0 for b in before], softmax(logits, axis=1))
    assert reading.modes.sizes == (64, K)
    np.testing.assert_array_equal(reading.features, images.reshape(N, 36).astype(np.float64))


@pytest.mark.parametrize("batch_size", [1, 7, 256])
def test_any_batch_size(X, batch_size):
    net = mlp(nn.ReLU())
    assert_same(read(TorchParent(net, batch_size=batch_size), X), read(net, X))


# ---------------------------------------------------------------- output


def test_one_logit_is_two_classes(X):
    net = mlp(nn.ReLU(), out=1)
    before, logits = by_hand(net, X)
    positive = expit(logits[:, 0])
    assert_modes(read(net, X), [b > 0 for b in before], np.stack([1 - positive, positive], axis=1))
    assert_same(read(nn.Sequential(net, nn.Flatten(0)), X), read(net, X))


def test_probabilities_and_their_logarithm(X):
    net = mlp(nn.ReLU())
    p = TorchParent(nn.Sequential(net, nn.Softmax(dim=1)), output="probabilities")
    log_p = TorchParent(nn.Sequential(net, nn.LogSoftmax(dim=1)), output="log_probabilities")
    assert_same(read(p, X), read(net, X))
    assert_same(read(log_p, X), read(net, X))


@pytest.mark.parametrize(
    ("last", "output", "message"),
    [
        (nn.Softmax(dim=1), "logits", 'already probabilities. Set output="probabilities"'),
        (nn.Identity(), "probabilities", 'each row with sum 1.*Set output="logits"'),
        (nn.Unflatten(1, (K, 1)), "logits", r"shape \(70, 3, 1\)"),
        (nn.Flatten(0), "logits", "one row for each of the 70 rows"),
        (nn.Identity(), "scores", "output must be one of 'logits'"),
    ],
)
def test_wrong_output(X, last, output, message):
    with pytest.raises(ValueError, match=message):
        read(TorchParent(nn.Sequential(*mlp(nn.ReLU()), last), output=output), X)


def test_not_finite(X):
    net = mlp(nn.ReLU())
    X[3, 0] = np.nan
    with pytest.raises(ValueError, match="X must be finite as torch.float32"):
        read(net, X)
    with torch.no_grad():
        net[-1].bias[0] = torch.nan
    with pytest.raises(ValueError, match="NaN or infinity for 2 of 2 rows, the first is row 0"):
        read(net, X[:2])


# ---------------------------------------------------------------- encoder and head


def test_encoder_and_head_by_name_by_module_and_alone(X):
    net = TwoParts()
    with torch.no_grad():
        embedding = net.encoder(torch.as_tensor(X)).double().numpy()
        logits = net.head(torch.as_tensor(embedding).float()).double().numpy()
    reading = read(TorchParent(net, encoder="encoder", head="head"), X)
    assert_modes(reading, [embedding > 0], softmax(logits, axis=1))
    unit = embedding / np.linalg.norm(embedding, axis=1, keepdims=True)
    np.testing.assert_allclose(reading.features, unit, atol=1e-6)
    assert reading.features.dtype == np.float64
    for parent in [
        TorchParent(net, encoder="encoder"),
        TorchParent(net, encoder=net.encoder, head=net.head),
        TorchParent(encoder=net.encoder, head=net.head),
        TorchParent(encoder=net.encoder, head=net.head, layers=["head.0"]),
        TorchParent(nn.DataParallel(net), encoder="encoder"),
        TorchParent(encoder=torch.compile(net.encoder), head=torch.compile(net.head)),
    ]:
        assert_same(read(parent, X), reading)
    raw = read(TorchParent(net, encoder="encoder", normalize=False), X)
    np.testing.assert_allclose(raw.features, embedding, atol=1e-6)


def test_energy_of_a_normalised_embedding(X):
    """log sum exp of the logits around their mean; two classes by one column or by two."""
    net = TwoParts().double()
    with torch.no_grad():
        logits = net(torch.as_tensor(X).double()).numpy()
    expected = np.log(np.exp(logits - logits.mean(axis=1, keepdims=True)).sum(axis=1))
    reading = read(TorchParent(net, encoder="encoder"), X)
    np.testing.assert_allclose(reading.energy, expected, rtol=1e-12)
    np.testing.assert_array_equal(reading.take(np.array([3, 1])).energy, reading.energy[[3, 1]])

    def of(scores):
        return energy(scores, to_proba(scores, "logits", ""))

    shifted = of(logits + np.arange(len(logits))[:, None])
    np.testing.assert_allclose(shifted, expected, rtol=1e-9)
    score = logits[:, :1]
    two = np.concatenate([np.zeros_like(score), score], axis=1)
    for one in (score, score[:, 0]):
        np.testing.assert_allclose(of(one), of(two), rtol=1e-12)
    assert (of(np.array([[-np.inf], [np.inf], [1e4]])) == [np.inf, np.inf, 5e3]).all()
    for other in ({"normalize": False}, {"encoder": None}):
        assert read(TorchParent(net, **{"encoder": "encoder", **other}), X).energy is None


@pytest.mark.parametrize("normalize", [True, False])
def test_a_linear_head_has_no_modes_of_its_own(X, normalize):
    net = nn.Sequential(mlp(nn.ReLU(), out=4), nn.Linear(4, K)).double()
    with torch.no_grad():
        embedding = net[0](torch.as_tensor(X).double()).numpy()
        logits = net(torch.as_tensor(X).double()).numpy()
    if normalize:
        embedding /= np.linalg.norm(embedding, axis=1, keepdims=True)
    for parent in [
        TorchParent(net, encoder="0", normalize=normalize),
        TorchParent(net, encoder="0", head="1", normalize=normalize, batch_size=9),
        TorchParent(encoder=net[0], head=net[1], normalize=normalize),
    ]:
        reading = read(parent, X)
        assert reading.modes.are_absent
        assert len(reading.modes) == N
        np.testing.assert_allclose(reading.features, embedding, atol=1e-12)
        np.testing.assert_allclose(reading.proba, softmax(logits, axis=1), atol=1e-12)
        assert (reading.energy is not None) == normalize


def test_a_head_with_smooth_activations_is_read(X):
    net = nn.Sequential(mlp(nn.ReLU(), out=5), smooth())
    with torch.no_grad():
        before = net[1][0](net[0](torch.as_tensor(X))).numpy()
    reading = read(TorchParent(net, encoder="0"), X)
    np.testing.assert_array_equal(next(reading.modes.groups()), before > 0)
    assert reading.modes.sizes == (4, K)


def test_an_embedding_of_zeros_stays(X):
    net = TwoParts()
    with torch.no_grad():
        net.encoder[-1].weight.zero_()
        net.encoder[-1].bias.zero_()
    np.testing.assert_array_equal(read(TorchParent(net, encoder="encoder"), X).features, 0.0)


# ---------------------------------------------------------------- files


def test_state_dict(X, tmp_path):
    net = mlp(nn.ReLU(), nn.PReLU())
    torch.save(net.state_dict(), tmp_path / "net.pt")
    other = mlp(nn.ReLU(), nn.PReLU())
    other.load_state_dict(torch.load(tmp_path / "net.pt", weights_only=True))
    assert_same(read(other, X), read(net, X))


def test_kernels_run_on_the_gpu_of_the_parent():
    net = TwoParts()
    assert Adapter.find(TorchParent(net)).gpu is None
    assert Adapter.find(TorchParent(net, device="cuda:1")).gpu == "cuda:1"
    assert Adapter.find(net).gpu is None


# ---------------------------------------------------------------- from fit to report


class Transformer(nn.Module):
    """One token for each feature, one block with GELU, the mean of the tokens."""

    def __init__(self, n_features=5, width=8):
        super().__init__()
        self.token, self.place = nn.Linear(1, width), nn.Parameter(torch.randn(n_features, width))
        settings = {"dropout": 0.0, "activation": nn.GELU(), "batch_first": True}
        self.block = nn.TransformerEncoderLayer(width, 2, 16, **settings)
        self.out = nn.Linear(width, 2)

    def embed(self, x):
        return self.block(self.token(x[:, :, None]) + self.place).mean(dim=1)

    def forward(self, x):
        return self.out(self.embed(x))


def trained(net, X, y, steps=60):
    step = torch.optim.Adam(net.parameters(), lr=0.01)
    X, y = torch.as_tensor(X), torch.as_tensor(y)
    for _ in range(steps):
        step.zero_grad()
        nn.functional.cross_entropy(net(X), y).backward()
        step.step()
    return net.eval()


def test_a_transformer_from_fit_to_report(blobs, tmp_path):
    X, y = blobs[0].astype(np.float32), blobs[1]
    net = trained(Transformer(), X[:300], y[:300])
    inputs = []
    handle = net.block.linear1.register_forward_hook(lambda m, args, output: inputs.append(output))
    with torch.no_grad():
        net(torch.as_tensor(X[:40]))
    handle.remove()
    reading = read(net, X[:40])
    assert reading.modes.sizes == (5 * 16, 2)
    expected = inputs[0].reshape(40, -1).numpy() > 0
    assert np.mean(next(reading.modes.groups()) != expected) < 1e-3

    model = GeodesicCalibrator(net, random_state=0)
    model.fit(X[:300], y[:300], X_cal=X[300:450], y_cal=y[300:450])
    P = model.predict_proba(X[450:])
    assert model.score(X[450:], y[450:]) > 0.85
    assert -np.log(P[np.arange(150), y[450:]]).mean() < 0.35
    far = np.float32(1e5) * X[:20]
    np.testing.assert_array_equal(model.predict_proba(far), np.tile(model.priors_, (20, 1)))
    why = model.explain(np.concatenate([X[450:], far]))
    assert np.mean(why.verdict[:150] == "out") < 0.05
    np.testing.assert_array_equal(why.verdict[150:], "out")
    assert why.witnesses == ["parent", "kernel", "hyperplanes"]
    path = report(model, X[450:], y[450:], far, tmp_path / "report.html")
    assert "<html" in path.read_text("utf-8")[:200].lower()


class Spread(nn.Module):
    """An encoder whose embeddings are the rows themselves, so that directions are known."""

    def forward(self, x):
        return 1.0 * x


def directions(n, seed=0, spread=0.15):
    """Rows around two of six axes, a class each."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return (4 * np.eye(6)[y] + 4 * spread * rng.normal(size=(n, 6))).astype(np.float32), y


def test_a_linear_head_on_an_encoder_from_fit_to_report(tmp_path):
    X, y = directions(300)
    X_cal, y_cal = directions(150, seed=1)
    X_new, y_new = directions(150, seed=2)
    parent = TorchParent(encoder=Spread(), head=trained(nn.Linear(6, 2), X, y))
    model = GeodesicCalibrator(parent, random_state=0).fit(X, y, X_cal=X_cal, y_cal=y_cal)
    assert model.model_.reference.planes.unit.tolist() == [1.0] * 6  # one unit for all numbers
    assert model.score(X_new, y_new) > 0.97
    assert (model.in_distribution(X_new) > 0.5).mean() > 0.9
    # Directions that no row has, with the same length.
    other = 4 * np.repeat(np.eye(6, dtype=np.float32)[2:], 5, axis=0)
    assert (model.in_distribution(other) < 0.05).all()
    np.testing.assert_array_equal(model.explain(other).verdict, "out")
    # The same directions with almost no length: the energy of the logits is low.
    dim = np.float32(1e-3) * X_new
    assert (model.in_distribution(dim) < model.in_distribution(X_new)).all()
    assert model.score_samples(dim).mean() < model.score_samples(X_new).mean() - 1
    K = model.similarity(X_new[:10], X_new[10:30])
    planes = model.model_.reference.planes
    unit = X_new[:30] / np.linalg.norm(X_new[:30].astype(float), axis=1, keepdims=True)
    sides = planes.projected(unit) > planes.offsets
    np.testing.assert_allclose(K, (sides[:10, None] == sides[None, 10:]).mean(axis=2), atol=2e-3)
    path = report(model, X_new, y_new, other, tmp_path / "report.html")
    assert "<html" in path.read_text("utf-8")[:200].lower()
