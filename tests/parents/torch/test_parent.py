"""TorchParent: its parameters, and embeddings that are computed once."""

from __future__ import annotations

import importlib
import pickle
import sys

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from polycal import PAPER, GeodesicCalibrator, TorchParent


class Counted(nn.Module):
    """An encoder that counts the rows it has seen; its output is not flat."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, stride=2)
        self.rows = 0

    def forward(self, x):
        self.rows += len(x)
        return torch.relu(self.conv(x))


@pytest.fixture
def net():
    torch.manual_seed(0)
    head = nn.Sequential(
        nn.Flatten(), nn.Linear(36, 12), nn.ReLU(), nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 3)
    )
    return Counted(), head


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    y = np.arange(240) % 3
    X = rng.normal(size=(240, 1, 8, 8)).astype(np.float32)
    X[np.arange(240), 0, y * 2] += 2.0
    return X, y


@pytest.mark.parametrize("setting", [{}, PAPER, {"posterior": "parent"}])
@pytest.mark.parametrize("normalize", [True, False])
def test_answers_equal_those_of_the_direct_path(net, rows, setting, normalize):
    (encoder, head), (X, y) = net, rows
    parent = TorchParent(encoder=encoder, head=head, normalize=normalize, batch_size=50)
    direct = GeodesicCalibrator(parent, **setting)
    direct.fit(X[:120], y[:120], X_cal=X[120:200], y_cal=y[120:200])
    E = parent.embed(X)
    seen = encoder.rows
    kept = GeodesicCalibrator(parent.on_embeddings(), **setting)
    kept.fit(E[:120], y[:120], X_cal=E[120:200], y_cal=y[120:200])
    assert_allclose(kept.predict_proba(E[200:]), direct.predict_proba(X[200:]), rtol=1e-5)
    assert_allclose(kept.score_samples(E[200:]), direct.score_samples(X[200:]), rtol=1e-4)
    assert_array_equal(kept.predict(E[200:]), direct.predict(X[200:]))
    # The 40 rows of three direct queries, and no other.
    assert encoder.rows == seen + 3 * 40


def test_same_batches_are_equal_to_the_last_bit(net, rows):
    (encoder, head), (X, y) = net, rows
    parent = TorchParent(encoder=encoder, head=head)
    direct = GeodesicCalibrator(parent).fit(X[:160], y[:160], X_cal=X[160:], y_cal=y[160:])
    E, E_cal = parent.embed(X[:160]), parent.embed(X[160:])
    kept = GeodesicCalibrator(parent.on_embeddings()).fit(E, y[:160], X_cal=E_cal, y_cal=y[160:])
    assert_array_equal(kept.predict_proba(E), direct.predict_proba(X[:160]))
    assert kept.log_floor_ == direct.log_floor_


def test_embed_is_the_encoders_output_in_every_container(net, rows):
    (encoder, head), (X, y) = net, rows
    parent = TorchParent(encoder=encoder, head=head, batch_size=100)
    with torch.no_grad():
        expected = encoder.eval()(torch.tensor(X)).numpy()
    assert expected.shape == (240, 4, 3, 3)
    data = TensorDataset(torch.tensor(X), torch.tensor(y))
    for container in (X, torch.tensor(X), data, DataLoader(data, 64)):
        E = parent.embed(container)
        assert E.dtype == np.float32
        assert_allclose(E, expected, atol=1e-6)
    E, labels = parent.embed(DataLoader(data, 64, shuffle=True), return_labels=True)
    order = np.argsort(labels, kind="stable")
    assert_array_equal(labels[order], np.sort(y))
    assert_allclose(
        np.sort(E.sum(axis=(1, 2, 3))), np.sort(expected.sum(axis=(1, 2, 3))), rtol=1e-4
    )


def test_training_mode_and_precision_are_kept(net, rows):
    encoder, head = net
    encoder.train()
    half = TorchParent(encoder=encoder.double(), head=head.double())
    assert half.embed(rows[0][:5]).dtype == np.float64
    assert encoder.training
    low = TorchParent(encoder=encoder.bfloat16(), head=head.bfloat16())
    assert low.embed(rows[0][:5]).dtype == np.float32


def test_a_part_of_a_module_can_be_read_but_not_replaced(net, rows):
    encoder, head = net
    whole = TorchParent(nn.Sequential(encoder, head), encoder="0", head="1")
    alone = TorchParent(encoder=encoder, head=head)
    assert_array_equal(whole.embed(rows[0][:5]), alone.embed(rows[0][:5]))
    with pytest.raises(ValueError, match=r"head\(encoder\(x\)\) and nothing else; got"):
        whole.on_embeddings()


def test_what_cannot_be_embedded_is_said(net, rows):
    encoder, head = net
    X, y = rows
    with pytest.raises(ValueError, match="embed needs an encoder"):
        TorchParent(nn.Sequential(encoder, head)).embed(X)
    parent = TorchParent(encoder=encoder, head=head)
    data = TensorDataset(torch.tensor(X), torch.tensor(y))
    with pytest.raises(ValueError, match="does not keep the order"):
        parent.embed(DataLoader(data, 64, shuffle=True))
    with pytest.raises(ValueError, match="needs an X that yields"):
        parent.embed(X, return_labels=True)
    with pytest.raises(ValueError, match="at least one row"):
        parent.embed(X[:0])
    two = TorchParent(encoder=Pair(), head=head)
    with pytest.raises(TypeError, match="the encoder must return one tensor of embeddings"):
        two.embed(X)


class Pair(nn.Module):
    def forward(self, x):
        return x, x


def test_parameters_and_clone(net):
    module = nn.Sequential(*net)
    parent = TorchParent(module, batch_size=8)
    assert clone(parent) is not parent
    assert clone(parent).module is module
    assert parent.get_params()["module"] is module
    assert parent.set_params(batch_size=4).batch_size == 4


def test_without_torch_the_install_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "polycal\[torch\]"'):
        TorchParent()


def test_pickled_and_loaded(net, rows):
    encoder, head = net
    parent = TorchParent(encoder=encoder, head=head, normalize=False)
    loaded = pickle.loads(pickle.dumps(parent))
    assert not loaded.normalize
    assert_array_equal(loaded.embed(rows[0]), parent.embed(rows[0]))
    # The path in pickles of earlier versions.
    assert importlib.import_module("polycal.parents.torch.adapter").TorchParent is TorchParent
