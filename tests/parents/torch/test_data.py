"""Input of torch modules: every container gives the same rows, labels come along."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tests.toys.readings import D, K, N, assert_same

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset, TensorDataset  # noqa: E402

from polycal import GeodesicCalibrator  # noqa: E402
from polycal.parents.torch.parent import TorchParent  # noqa: E402
from tests.toys.torch_nets import MARKS, Map, mlp, read  # noqa: E402

pytestmark = MARKS


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


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (np.zeros((0, D)), ValueError, "at least one row"),
        (np.float64(1.0), ValueError, "a single number"),
        ([["a"] * D], TypeError, "X must be an array of numbers"),
        ([{"x": torch.zeros(D)}], TypeError, "X must be an array of numbers"),
        (DataLoader([{"x": "word"}]), TypeError, "must hold tensors by the names.*'x': 'list'"),
        (DataLoader([{"labels": 1}]), TypeError, "must hold tensors by the names.*collate_fn"),
        (DataLoader([{"x": torch.zeros(D)}]), TypeError, "unexpected keyword argument 'x'"),
        (DataLoader([[["word"]]]), TypeError, "a batch must be a tensor or .tensor, labels"),
    ],
)
def test_wrong_input(rows, error, message):
    with pytest.raises(error, match=message):
        read(mlp(nn.ReLU()), rows)


class Words(nn.Module):
    """What a language model looks like: named inputs, and an object that holds the logits."""

    def __init__(self, returned=SimpleNamespace):
        super().__init__()
        self.words, self.act, self.out = nn.Embedding(10, 6), nn.GELU(), nn.Linear(6, K)
        self.returned = returned

    def forward(self, input_ids, attention_mask=None):
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        mean = (self.words(input_ids) * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        return self.returned(loss=None, logits=self.out(self.act(mean)), hidden_states=mean)


class Sentences(Dataset):
    def __init__(self, words, mask, y=None, key="labels"):
        self.words, self.mask, self.y, self.key = words, mask, y, key

    def __len__(self):
        return len(self.words)

    def __getitem__(self, i):
        row = {"input_ids": self.words[i], "attention_mask": self.mask[i]}
        return row if self.y is None else {**row, self.key: self.y[i]}


def sentences(n=N):
    rng = np.random.default_rng(0)
    words, mask = rng.integers(0, 10, size=(n, 4)), np.ones((n, 4), dtype=np.int64)
    mask[::3, 3] = 0
    return words, mask


@pytest.mark.parametrize("key", ["labels", "label"])
def test_batches_by_name_and_logits_in_an_object(y, key):
    words, mask = sentences()
    net = Words()
    with torch.no_grad():
        found = net(torch.as_tensor(words), torch.as_tensor(mask))
    data = Sentences(words, mask, y, key)
    for rows in (data, DataLoader(data, batch_size=9)):
        reading = read(net, rows)
        np.testing.assert_array_equal(reading.labels, y)
        np.testing.assert_array_equal(reading.features, words)  # the first that is named
        np.testing.assert_array_equal(next(reading.modes.groups()), found.hidden_states > 0)
        np.testing.assert_allclose(reading.proba, found.logits.softmax(1), atol=1e-6)
    assert read(net, Sentences(words, mask)).labels is None
    assert_same(read(net, words), read(net, Sentences(words, np.ones_like(mask))))


def test_named_inputs_through_an_encoder(y):
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(10, 6)

        def forward(self, input_ids, attention_mask):
            hidden = self.words(input_ids) * attention_mask[:, :, None]
            return SimpleNamespace(last_hidden_state=hidden, pooler_output=hidden.mean(1))

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.out = Encoder(), nn.Linear(6, K)

        def forward(self, input_ids, attention_mask):
            pooled = self.encoder(input_ids, attention_mask).pooler_output
            return SimpleNamespace(logits=self.out(pooled))

    words, mask = sentences()
    net, data = Classifier(), Sentences(words, mask, y)
    with torch.no_grad():
        pooled = net.encoder(torch.as_tensor(words), torch.as_tensor(mask)).pooler_output.numpy()
    parent = TorchParent(net, encoder="encoder", normalize=False, batch_size=16)
    reading = read(parent, data)
    assert reading.modes.are_absent  # its head is linear
    np.testing.assert_allclose(reading.features, pooled, atol=1e-6)
    np.testing.assert_array_equal(reading.labels, y)
    E, labels = parent.embed(data, return_labels=True)
    np.testing.assert_allclose(E, pooled, atol=1e-6)
    np.testing.assert_array_equal(labels, y)


def test_named_inputs_from_fit_to_predict_proba():
    words, mask = sentences(300)
    y = (words < 5).sum(axis=1) % 3
    model = GeodesicCalibrator(Words(), random_state=0)
    model.fit(
        Sentences(words[:200], mask[:200], y[:200]),
        X_cal=Sentences(words[200:], mask[200:], y[200:]),
    )
    P = model.predict_proba(Sentences(words, mask))
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-9)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    np.testing.assert_array_equal(
        P, model.predict_proba(DataLoader(Sentences(words, mask, y), 300))
    )


def test_named_inputs_that_are_not_finite():
    row = {"x": torch.full((D,), torch.nan)}

    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = mlp(nn.ReLU())

        def forward(self, x):
            return self.net(x)

    with pytest.raises(ValueError, match="X must be finite as torch.float32"):
        read(Named(), DataLoader([row, row]))


def test_progress_bar(X, capsys):
    read(mlp(nn.ReLU()), X, verbose=1)
    assert "reading: 100%" in capsys.readouterr().err
    read(mlp(nn.ReLU()), X)
    assert capsys.readouterr().err == ""


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
        read(parent, X)


def test_rows_of_different_shapes():
    net = nn.Sequential(nn.ReLU(), nn.AdaptiveAvgPool1d(K))
    with pytest.raises(ValueError, match=r"groups of \(4,\) bits, this one \(6,\)"):
        read(net, DataLoader([torch.ones(4), torch.ones(6)], batch_size=1))
