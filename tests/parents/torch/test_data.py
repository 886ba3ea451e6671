"""Networks of torch: what rows they take, and which modules are read, unwrapped or refused."""

from __future__ import annotations

import copy
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

from tests.toys.readings import D, K, N, assert_same

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from polycal.parents.torch.adapter import TorchAdapter, TorchParent  # noqa: E402
from tests.toys.torch_nets import MARKS, Map, Shared, TwoParts, linear, mlp, read  # noqa: E402

pytestmark = MARKS


# ---------------------------------------------------------------- input


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


class Unknown(torch.utils.data.IterableDataset):
    """Rows in batches, and nobody knows how many."""

    def __init__(self, *batches):
        self.batches = batches

    def __iter__(self):
        return iter(map(torch.as_tensor, self.batches))


def test_rows_of_unknown_number_and_size(X):
    net = mlp(nn.ReLU())
    rows = DataLoader(Unknown(X[:3], X[3:20], X[20:]), batch_size=None)
    assert_same(read(net, rows), read(net, X))

    pooled = nn.Sequential(nn.AdaptiveAvgPool1d(D), net)
    with pytest.raises(ValueError, match="rows of one size; the first had 10 numbers, .* has 15"):
        read(pooled, DataLoader(Unknown(X[:3].repeat(2, 1), X[:3].repeat(3, 1)), batch_size=None))


class Promise(torch.utils.data.Sampler):
    """The first N rows, however many it says they are."""

    def __init__(self, length):
        self.length = length

    def __iter__(self):
        return iter(range(N))

    def __len__(self):
        return self.length


@pytest.mark.parametrize("length", [0, 7, 10 * N, 10**13, 2**62])
def test_a_length_is_a_hint_and_no_more(X, length):
    net = mlp(nn.ReLU())
    rows = DataLoader(TensorDataset(torch.as_tensor(X)), batch_size=9, sampler=Promise(length))
    assert_same(read(net, rows), read(net, X))


@pytest.mark.parametrize("normalize", [True, False])
def test_an_embedding_of_complex_numbers_is_refused(X, normalize):
    class Waves(nn.Module):
        def forward(self, x):
            return torch.complex(x, x)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.waves, self.rest = Waves(), mlp(nn.ReLU())

        def forward(self, x):
            return self.rest(self.waves(x).real)

    net = Net()
    parent = TorchParent(net, encoder=net.waves, normalize=normalize)
    with pytest.raises(TypeError, match="complex"):
        TorchAdapter(parent).read(X)


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
    np.testing.assert_array_equal(reading.features, words)
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
    problem = TorchAdapter.problem(estimator)
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
    assert TorchAdapter.problem(object()) == ""
    assert TorchAdapter.problem(mlp(nn.ReLU())) is None
    assert not TorchAdapter.allows_missing(mlp(nn.ReLU()))


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
        "import sys, polycal.parents.torch.adapter, polycal.parents.skorch, polycal.parents.keras\n"
        "assert not {'torch', 'keras', 'skorch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
