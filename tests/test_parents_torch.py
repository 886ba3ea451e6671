"""Networks of torch, skorch and Keras: bits equal the activations computed by hand."""

from __future__ import annotations

import copy
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812
from torch.utils.data import DataLoader, Dataset, TensorDataset  # noqa: E402

from polycal.parents._torch import TorchFamily, TorchParent  # noqa: E402

pytestmark = [
    # torch.jit is deprecated, and torch.compile imports it.
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    # Keras's torch back-end converts tensors in a way that NumPy 2 will drop.
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]

N, D, K = 70, 5, 3


@pytest.fixture(name="X")
def rows():
    return np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)


@pytest.fixture
def y():
    return np.random.default_rng(1).integers(0, K, size=N)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def read(parent, X, **kwargs):
    return TorchFamily(parent).read(X, **kwargs)


def mlp(*activations, out=K):
    """Linear layers of 7 units with these activations between them."""
    sizes = [D, *[7] * len(activations)]
    layers = []
    for n_in, n_out, activation in zip(sizes, sizes[1:], activations, strict=False):
        layers += [nn.Linear(n_in, n_out), activation]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], out))


def by_hand(net, X):
    """Inputs of the activations of a Sequential, and its logits."""
    h, before = torch.as_tensor(X), []
    with torch.no_grad():
        for layer in net:
            if not isinstance(layer, (nn.Linear, nn.Conv2d, nn.Flatten)):
                before.append(h.flatten(1).numpy().copy())
            h = layer(h.clone())
    return before, h.double().numpy()


def assert_modes(reading, bits, proba):
    np.testing.assert_allclose(reading.proba, proba, atol=1e-6)
    groups = list(reading.modes.groups())
    assert len(groups) == len(bits) + 1
    for got, expected in zip(groups, [*bits, reading.proba > 1 / proba.shape[1]], strict=True):
        np.testing.assert_array_equal(got, expected)
        assert 0 < np.mean(got) < 1  # the comparison says something


def assert_same(a, b, rows=None):
    """Equal readings; ``rows`` gives the place in ``b`` of each row of ``a``."""
    rows = np.arange(len(b)) if rows is None else rows
    assert a.modes.sizes == b.modes.sizes
    np.testing.assert_array_equal(a.modes.codes, b.modes.codes[rows])
    np.testing.assert_allclose(a.proba, b.proba[rows], atol=1e-6)
    np.testing.assert_allclose(a.seen, b.seen[rows], atol=1e-6)


class Shared(nn.Module):
    """One ReLU, called twice."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = nn.Linear(D, 7), nn.Linear(7, 6), nn.Linear(6, K)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.out(self.relu(self.second(self.relu(self.first(x)))))


class Functional(Shared):
    """The same network with F.relu: no activation module."""

    def __init__(self):
        super().__init__()
        del self.relu

    def forward(self, x):
        return self.out(F.relu(self.second(F.relu(self.first(x), inplace=True)), inplace=True))


class TwoParts(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = mlp(nn.ReLU(), out=4), nn.Sequential(nn.ReLU(), nn.Linear(4, K))

    def forward(self, x):
        return self.head(self.encoder(x))


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


def test_each_call_of_a_shared_activation_is_a_group(X):
    net = Shared()
    with torch.no_grad():
        first = net.first(torch.as_tensor(X))
        second = net.second(first.relu())
        logits = net.out(second.relu()).double().numpy()
    expected = [first.numpy() > 0, second.numpy() > 0]
    assert_modes(read(net, X), expected, softmax(logits, axis=1))


def test_named_linear_layers_equal_relu_modules(X):
    plain, functional = Shared(), Functional()
    functional.load_state_dict(plain.state_dict())
    named = read(TorchParent(functional, layers=["second", "first"]), X)
    assert_same(named, read(plain, X))


def test_named_layers_leave_out_the_others(X):
    net = mlp(nn.ReLU(), nn.ReLU6())
    every = list(read(net, X).modes.groups())
    some = list(read(TorchParent(net, layers=["3"]), X).modes.groups())
    assert len(some) == 2
    np.testing.assert_array_equal(some[0], every[1])


def test_convolutions_are_flattened(y):
    images = np.random.default_rng(2).normal(size=(N, 1, 6, 6)).astype(np.float32)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, K))
    before, logits = by_hand(net, images)
    reading = read(net, images)
    assert_modes(reading, [b > 0 for b in before], softmax(logits, axis=1))
    assert reading.modes.sizes == (64, K)
    np.testing.assert_array_equal(reading.seen, images.reshape(N, 36).astype(np.float64))


@pytest.mark.parametrize("batch_size", [1, 7, 256])
def test_any_batch_size(X, batch_size):
    net = mlp(nn.ReLU())
    assert_same(read(TorchParent(net, batch_size=batch_size), X), read(net, X))


def test_an_in_place_first_layer_leaves_the_input_alone(X):
    net = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(D, K)).double()
    for rows in (X.astype(float), torch.tensor(X).double()):
        before = copy.deepcopy(rows)
        reading = read(net, rows)
        np.testing.assert_array_equal(reading.seen, before)
        np.testing.assert_array_equal(rows, before)


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


def test_output_that_is_not_a_tensor(X):
    class Pair(Shared):
        def forward(self, x):
            return super().forward(x), x

    with pytest.raises(TypeError, match="one tensor of class scores; got tuple"):
        read(Pair(), X)


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
    np.testing.assert_allclose(reading.seen, unit, atol=1e-6)
    assert reading.seen.dtype == np.float64
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
    np.testing.assert_allclose(raw.seen, embedding, atol=1e-6)


def test_a_head_in_place_does_not_change_the_embedding(X):
    net = TwoParts().double()
    net.head[0] = nn.ReLU(inplace=True)
    seen = read(TorchParent(net, encoder="encoder", normalize=False), X).seen
    assert (seen < 0).any()


def test_an_activation_shared_by_encoder_and_head_counts_in_the_head_only(X):
    net = TwoParts()
    expected = read(TorchParent(net, encoder="encoder"), X)
    net.head[0] = net.encoder[1]
    for head in (None, "head"):
        assert_same(read(TorchParent(net, encoder="encoder", head=head), X), expected)


def test_an_embedding_of_zeros_stays(X):
    net = TwoParts()
    with torch.no_grad():
        net.encoder[-1].weight.zero_()
        net.encoder[-1].bias.zero_()
    np.testing.assert_array_equal(read(TorchParent(net, encoder="encoder"), X).seen, 0.0)


# ---------------------------------------------------------------- input


class Map(Dataset):
    def __init__(self, X, y):
        self.X, self.y = X, y

    def __len__(self):
        return len(self.X)

    def __getitem__(self, i):
        return self.X[i], self.y[i]


def test_every_container_gives_the_same(X, y):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    net = mlp(nn.ReLU())
    tensor = torch.as_tensor(X)
    expected = read(net, X)
    assert expected.labels is None
    names = list("abcde")
    frozen = X.copy()
    frozen.flags.writeable = False
    for rows in [
        X.astype(np.float64),
        frozen,
        X.tolist(),
        tensor,
        tensor.double(),
        pandas.DataFrame(X, columns=names),
        polars.DataFrame(X, schema=names),
        TensorDataset(tensor),
        DataLoader(TensorDataset(tensor), batch_size=9),
        DataLoader(tensor, batch_size=9),
    ]:
        reading = read(net, rows)
        assert_same(reading, expected)
        assert reading.labels is None
    for rows in [Map(X, y), TensorDataset(tensor, torch.as_tensor(y)), DataLoader(Map(X, y), 9)]:
        reading = read(net, rows)
        assert_same(reading, expected)
        np.testing.assert_array_equal(reading.labels, y)


def test_a_shuffled_loader_keeps_its_order_and_is_read_once(X, y):
    net = mlp(nn.ReLU())
    order = np.random.default_rng(3).permutation(N)
    rounds = []

    class Sampler(torch.utils.data.Sampler):
        def __iter__(self):
            rounds.append(1)
            return iter(order.tolist())

        def __len__(self):
            return N

    reading = read(net, DataLoader(Map(X, y), batch_size=8, sampler=Sampler()))
    assert_same(reading, read(net, X), order)
    np.testing.assert_array_equal(reading.labels, y[order])
    assert len(rounds) == 1
    shuffled = read(net, DataLoader(Map(X, np.arange(N)), batch_size=8, shuffle=True))
    assert (shuffled.labels != np.arange(N)).any()
    assert_same(shuffled, read(net, X), shuffled.labels)


def test_labels_may_be_text_or_a_column(X, y):
    net = mlp(nn.ReLU())
    text = np.array(["a", "b", "c"])[y]
    np.testing.assert_array_equal(read(net, Map(X, text.tolist())).labels, text)
    np.testing.assert_array_equal(read(net, Map(X, y[:, None])).labels, y)
    with pytest.raises(ValueError, match="one for each of the 70 rows.*not one-hot"):
        read(net, Map(X, np.eye(K)[y]))


def test_reading_draws_no_random_number(X, y):
    net = mlp(nn.ReLU())
    state = torch.get_rng_state()
    read(net, Map(X, y))
    assert torch.equal(torch.get_rng_state(), state)


def test_whole_numbers_stay_whole_for_an_embedding():
    words = np.random.default_rng(4).integers(0, 10, size=(N, 4))
    net = nn.Sequential(nn.Embedding(10, 3), nn.Flatten(), nn.ReLU(), nn.Linear(12, K))
    reading = read(net, words)
    np.testing.assert_array_equal(reading.seen, words)
    expected = net[0].weight.detach().numpy()[words].reshape(N, 12) > 0
    np.testing.assert_array_equal(next(reading.modes.groups()), expected)
    with pytest.raises(RuntimeError, match="X holds torch.int64") as raised:
        read(mlp(nn.ReLU()), np.ones((4, D), dtype=np.int64))
    assert "astype(float)" in raised.value.__notes__[0]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_input_is_cast_to_the_dtype_of_the_module(X, dtype):
    net = mlp(nn.ReLU()).to(dtype)
    with torch.no_grad():
        expected = net(torch.as_tensor(X).to(dtype)).double().softmax(1).numpy()
    np.testing.assert_allclose(read(net, X).proba, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (np.zeros((0, D)), ValueError, "at least one row"),
        (np.float64(1.0), ValueError, "a single number"),
        ([["a"] * D], TypeError, "X must be an array of numbers"),
        ([{"x": torch.zeros(D)}], TypeError, "X must be an array of numbers"),
        (DataLoader([{"x": torch.zeros(D)}]), TypeError, "a batch must be a tensor.*got dict"),
    ],
)
def test_wrong_input(rows, error, message):
    with pytest.raises(error, match=message):
        read(mlp(nn.ReLU()), rows)


def test_progress_bar(X, capsys):
    read(mlp(nn.ReLU()), X, verbose=1)
    assert "reading: 100%" in capsys.readouterr().err
    read(mlp(nn.ReLU()), X)
    assert capsys.readouterr().err == ""


# ---------------------------------------------------------------- nothing is left behind


def hooks(net):
    return [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in net.modules()]


@pytest.mark.parametrize("fails", [False, True])
def test_flags_hooks_and_statistics_are_put_back(X, fails):
    net = TwoParts()
    net.encoder.append(nn.BatchNorm1d(4))
    net.encoder.append(nn.Dropout(0.5))
    net.train()
    net.encoder[0].eval()
    net.head.register_forward_hook(lambda *args: None)
    flags, n_hooks = [m.training for m in net.modules()], hooks(net)
    state = copy.deepcopy(net.state_dict())
    parent = TorchParent(net, encoder="encoder", batch_size=16)
    if fails:
        with pytest.raises(RuntimeError):
            read(parent, np.zeros((5, D + 1)))
    else:
        assert_same(read(parent, X), read(parent, X))  # eval(): no dropout
    assert [m.training for m in net.modules()] == flags
    assert hooks(net) == n_hooks
    assert all(torch.equal(value, state[key]) for key, value in net.state_dict().items())
    assert torch.is_grad_enabled()


def test_device_is_put_back(X):
    net = mlp(nn.ReLU())
    with pytest.raises((RuntimeError, NotImplementedError, ValueError)):
        # "meta" tensors have no values, so reading them fails after the move.
        read(TorchParent(net.to("meta"), device="cpu"), X)
    assert {p.device.type for p in net.parameters()} == {"meta"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gpu_equals_cpu_and_the_module_goes_back(X):
    net = mlp(nn.ReLU())
    reading = read(TorchParent(net, device="cuda"), X)
    np.testing.assert_allclose(reading.proba, read(net, X).proba, atol=1e-5)
    assert {p.device.type for p in net.parameters()} == {"cpu"}


def test_state_dict(X, tmp_path):
    net = mlp(nn.ReLU(), nn.PReLU())
    torch.save(net.state_dict(), tmp_path / "net.pt")
    other = mlp(nn.ReLU(), nn.PReLU())
    other.load_state_dict(torch.load(tmp_path / "net.pt", weights_only=True))
    assert_same(read(other, X), read(net, X))


# ---------------------------------------------------------------- wrappers and refusals


def test_wrapped_modules_are_read_inside(X):
    net = Shared()
    expected = read(net, X)
    assert_same(read(torch.compile(net), X), expected)
    assert_same(read(nn.DataParallel(net), X), expected)
    assert_same(
        read(TorchParent(torch.compile(nn.DataParallel(net)), layers=["relu"]), X), expected
    )


def test_parts_compiled_inside_run_as_written(X):
    net = TwoParts()
    expected = read(net, X)
    encoded = read(TorchParent(net, encoder="encoder"), X)
    whole = copy.deepcopy(net)
    whole.compile()
    assert_same(read(whole, X), expected)
    net.encoder = torch.compile(net.encoder)
    assert_same(read(net, X), expected)
    assert_same(read(TorchParent(net, encoder="encoder"), X), encoded)
    assert_same(read(TorchParent(net, encoder=net.encoder), X), encoded)


def linear():
    return nn.Sequential(nn.Linear(D, 4), nn.Tanh(), nn.Linear(4, K))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (linear, r"no ReLU-type activation .* in the module \(Sequential\).*layers=\["),
        (
            lambda: torch.jit.trace(mlp(nn.ReLU()), torch.zeros(2, D)),
            "torch.jit.ScriptModule.*Pass",
        ),
        (lambda: TorchParent(mlp(nn.ReLU()), layers=["relu"]), "'relu'.*Available: '0', '1', '2'"),
        (lambda: TorchParent(mlp(nn.ReLU()), layers="1"), "list of submodule names; got '1'"),
        (lambda: TorchParent(mlp(nn.ReLU()), layers=[]), r"list of submodule names; got \[\]"),
        (lambda: TorchParent(TwoParts(), head="head"), "head is given without an encoder"),
        (lambda: TorchParent(TwoParts(), encoder="body"), "encoder names 'body'.*'encoder.0'"),
        (lambda: TorchParent(TwoParts(), encoder=mlp(nn.ReLU())), "encoder must be a submodule"),
        (lambda: TorchParent(TwoParts(), encoder="encoder", head="encoder.0"), "two separate"),
        (lambda: TorchParent(TwoParts(), encoder="encoder", head="head.1"), "in the head"),
        (lambda: TorchParent(mlp(nn.ReLU()), encoder="1"), "outside its encoder"),
        (
            lambda: TorchParent(TwoParts(), encoder="encoder", head="head", layers=["head.0"]),
            "head and layers both",
        ),
        (lambda: TorchParent(), "module=None needs encoder and head"),
        (lambda: TorchParent(encoder="encoder", head=mlp(nn.ReLU())), "got encoder='encoder'"),
        (lambda: TorchParent(Shared), "must be a torch.nn.Module instance; got the class Shared"),
        (lambda: TorchParent(mlp(nn.ReLU()), batch_size=0), "batch_size must be .* got 0"),
        (lambda: TorchParent(mlp(*[nn.ReLU()] * 12), layers=["x"]), r"\.\.\. \(14 in all\)"),
    ],
)
def test_refused_with_a_remedy(X, build, message):
    estimator = build()
    problem = TorchFamily.problem(estimator)
    assert problem
    assert not problem.endswith(".")
    with pytest.raises((TypeError, ValueError), match=message):
        read(estimator, X)


def test_layers_that_the_forward_pass_skips(X):
    net = Shared()
    net.spare = nn.ReLU()
    assert len(read(net, X).modes.sizes) == 3  # not asked for: no error
    with pytest.raises(ValueError, match=r"never calls \['spare'\]"):
        read(TorchParent(net, layers=["relu", "spare"]), X)


def test_activations_must_keep_the_rows(X):
    class Mixed(Shared):
        def forward(self, x):
            self.relu(self.first(x).reshape(-1, 1))
            return super().forward(x)

    with pytest.raises(ValueError, match="'relu' must keep one row for each input row; got 490"):
        read(Mixed(), X)


def test_an_encoder_called_twice(X):
    class Twice(TwoParts):
        def forward(self, x):
            return super().forward(x) + super().forward(-x)

    with pytest.raises(ValueError, match="calls the encoder 2 times; expected once"):
        read(TorchParent(Twice(), encoder="encoder"), X)


def test_an_encoder_that_puts_the_rows_elsewhere(X):
    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.relu, self.out = nn.Linear(D, 4), nn.ReLU(), nn.Linear(4, K)
            self.turn = nn.Module()
            self.turn.forward = lambda x: x.T

        def forward(self, x):
            return self.out(self.relu(self.turn(self.encoder(x))).T)

    with pytest.raises(ValueError, match="70 rows of scores, but 4 rows passed"):
        read(TorchParent(Turned(), encoder="turn"), X)


def test_a_scripted_encoder_is_fine(X):
    net = TwoParts()
    traced = torch.jit.trace(net.encoder, torch.as_tensor(X))
    expected = read(TorchParent(net, encoder="encoder"), X)
    assert_same(read(TorchParent(encoder=traced, head=net.head), X), expected)


def test_rows_of_different_shapes():
    net = nn.Sequential(nn.ReLU(), nn.AdaptiveAvgPool1d(K))
    with pytest.raises(ValueError, match=r"groups of \(4,\) bits, this one \(6,\)"):
        read(net, DataLoader([torch.ones(4), torch.ones(6)], batch_size=1))


def test_families_do_not_mix(X):
    assert TorchFamily.problem(object()) == ""
    assert TorchFamily.problem(mlp(nn.ReLU())) is None
    assert not TorchFamily.allows_missing(mlp(nn.ReLU()))


def test_parameters_and_clone():
    net = mlp(nn.ReLU())
    parent = TorchParent(net, batch_size=8)
    assert clone(parent) is not parent
    assert clone(parent).module is net
    assert parent.get_params()["module"] is net
    assert parent.set_params(batch_size=4).batch_size == 4


def test_without_torch_the_install_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "polycal\[torch\]"'):
        TorchParent()


def test_polycal_does_not_import_the_libraries():
    code = (
        "import sys, polycal.parents._torch, polycal.parents._skorch, polycal.parents._keras\n"
        "assert not {'torch', 'keras', 'skorch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---------------------------------------------------------------- skorch


def skorch_net(module=Shared, **kwargs):
    skorch = pytest.importorskip("skorch")
    defaults = {"criterion": nn.CrossEntropyLoss, "max_epochs": 2, "batch_size": 16, "verbose": 0}
    return skorch.NeuralNetClassifier(module, **(defaults | kwargs))


def test_skorch_reads_its_module(X, y):
    from polycal.parents._skorch import SkorchFamily

    net = skorch_net()
    assert SkorchFamily.problem(net) is None
    net.fit(X, y)
    assert SkorchFamily.problem(net) is None
    assert TorchFamily.problem(net) == ""
    reading = SkorchFamily(net).read(X)
    assert_same(reading, read(net.module_, X))
    np.testing.assert_allclose(reading.proba, net.predict_proba(X), atol=1e-6)
    assert sum(hooks(net.module_)) == 0


def test_skorch_saved_and_loaded(X, y, tmp_path):
    from polycal.parents._skorch import SkorchFamily

    net = skorch_net().fit(X, y)
    net.save_params(f_params=tmp_path / "net.pt")
    other = skorch_net().initialize()
    other.load_params(f_params=tmp_path / "net.pt")
    assert_same(SkorchFamily(other).read(X), SkorchFamily(net).read(X))


def test_skorch_binary(X, y):
    from polycal.parents._skorch import SkorchFamily

    skorch = pytest.importorskip("skorch")
    net = skorch.NeuralNetBinaryClassifier(mlp(nn.ReLU(), out=1), max_epochs=2, verbose=0)
    net.fit(X, (y > 0).astype(np.float32))
    assert_same(SkorchFamily(net).read(X), read(net.module_, X))


def test_skorch_refusals(X, y):
    from polycal.parents._skorch import SkorchFamily

    assert SkorchFamily.problem(mlp(nn.ReLU())) == ""
    assert "no ReLU-type" in SkorchFamily.problem(skorch_net(linear()))
    assert "net.module_.module" in SkorchFamily.problem(skorch_net(nn.DataParallel(Shared())))
    with pytest.raises(NotFittedError):
        SkorchFamily(skorch_net()).read(X)
    net = skorch_net(predict_nonlinearity=None).fit(X, y)
    with pytest.raises(ValueError, match="predict_nonlinearity"):
        SkorchFamily(net).read(X)
    assert sum(hooks(net.module_)) == 0


# ---------------------------------------------------------------- Keras


@pytest.fixture(scope="module")
def keras():
    before = os.environ.get("KERAS_BACKEND")
    os.environ["KERAS_BACKEND"] = "torch"
    yield pytest.importorskip("keras")
    if before is None:
        del os.environ["KERAS_BACKEND"]
    else:
        os.environ["KERAS_BACKEND"] = before


def keras_read(model, X, **kwargs):
    from polycal.parents._keras import KerasFamily

    return KerasFamily(model).read(X, **kwargs)


def dense(layer, h):
    weight, bias = layer.get_weights()
    return h @ weight + bias


def test_keras_sequential_by_hand(keras, X, tmp_path):
    from polycal.parents._keras import KerasFamily

    L = keras.layers
    model = keras.Sequential([keras.Input((D,))])
    model.add(L.Dense(8, activation="relu"))
    model.add(L.Dense(8, activation="relu6"))
    model.add(L.Dense(7))
    model.add(L.PReLU(alpha_initializer=keras.initializers.Constant(-0.5)))
    model.add(L.Dense(6, activation="tanh"))
    model.add(L.Dense(K, activation="softmax"))
    assert KerasFamily.problem(model) is None
    assert TorchFamily.problem(model) == ""
    model.layers[1].set_weights([w * 20 for w in model.layers[1].get_weights()])
    one, six, seven, last, out = (model.layers[i] for i in (0, 1, 2, 4, 5))
    a = dense(one, X)
    b = dense(six, np.maximum(a, 0))
    c = dense(seven, np.clip(b, 0, 6))
    proba = softmax(dense(out, np.tanh(dense(last, np.where(c > 0, c, -0.5 * c)))), axis=1)
    reading = keras_read(model, X)
    assert_modes(reading, [a > 0, np.concatenate([b > 0, b >= 6], axis=1), c > 0], proba)
    np.testing.assert_array_equal(reading.seen, X.astype(np.float64))
    model.save(tmp_path / "model.keras")
    assert_same(keras_read(keras.saving.load_model(tmp_path / "model.keras"), X), reading)


def test_keras_functional_shared_nested_and_logits(keras, X, tmp_path):
    L = keras.layers
    inner = keras.Sequential([keras.Input((7,)), L.Dense(7), L.LeakyReLU()])
    shared, out = L.Dense(7, activation="relu"), L.Dense(1)
    first = L.Dense(7)
    inputs = keras.Input((D,))
    h = keras.ops.relu(first(inputs))
    model = keras.Model(inputs, out(shared(inner(shared(h)))))
    a = dense(first, X)
    b = dense(shared, np.maximum(a, 0))
    c = dense(inner.layers[0], np.maximum(b, 0))
    d = dense(shared, np.where(c > 0, c, 0.3 * c))
    positive = expit(dense(out, np.maximum(d, 0))[:, 0].astype(float))
    proba = np.stack([1 - positive, positive], axis=1)
    reading = keras_read(model, X)
    assert_modes(reading, [a > 0, b > 0, c > 0, d > 0], proba)
    assert tuple(first.output.shape) == (None, 7)  # the user's graph is as it was
    model.save(tmp_path / "model.keras")
    assert_same(keras_read(keras.saving.load_model(tmp_path / "model.keras"), X), reading)


def test_keras_images_and_batches(keras, capsys):
    L = keras.layers
    images = np.random.default_rng(5).normal(size=(300, 6, 6, 1)).astype(np.float32)
    layers = [L.Conv2D(2, 3), L.ReLU(max_value=0.2), L.Dropout(0.5), L.Flatten()]
    last = L.Dense(1, activation="sigmoid")
    model = keras.Sequential([keras.Input((6, 6, 1)), *layers, last])
    reading = keras_read(model, images, verbose=1)
    assert "reading: 100%" in capsys.readouterr().err
    assert reading.modes.sizes == (2 * 32, 2)
    np.testing.assert_allclose(reading.proba[:, 1:], model.predict(images, verbose=0), atol=1e-6)
    h = np.asarray(model.layers[0](images).detach().cpu()).reshape(300, 32)
    expected = np.concatenate([h > 0, h >= 0.2], axis=1)
    np.testing.assert_array_equal(next(reading.modes.groups()), expected)
    assert reading.seen.shape == (300, 36)


def test_keras_refusals(keras, X):
    from polycal.parents._keras import KerasFamily

    L = keras.layers

    class Subclassed(keras.Model):
        def call(self, x):
            return x

    inputs = keras.Input((D,))
    for model, message in [
        (Subclassed(), "subclassed Keras model"),
        (keras.Sequential([L.Dense(K)]), "not built"),
        (keras.Sequential([keras.Input((D,)), L.Dense(K)]), "no ReLU-type"),
        (keras.Model(inputs, [L.ReLU()(inputs), inputs]), "2 outputs"),
        (keras.Sequential([inputs, L.ReLU(), L.Dense(K, activation="tanh")]), "'tanh'"),
    ]:
        assert message in KerasFamily.problem(model)
    assert KerasFamily.problem(object()) == ""
    many = keras.Sequential([keras.Input((D,)), L.ReLU(), L.Dense(K, activation="sigmoid")])
    with pytest.raises(ValueError, match="End the model with a softmax"):
        keras_read(many, X)
