"""The index of a GPU, and machines without one."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from polycal import GeodesicCalibrator
from polycal.kernels import ForestIndex, NetworkIndex, Search, TorchIndex, build_index
from polycal.posterior.votes import LabelEvidence
from tests.toys.kernels import EXECUTION, random_gaussians, random_leaves
from tests.toys.models import random_modes, small_network


def test_gpu_index_is_equal_to_the_last_bit_and_travels_without_its_device():
    pytest.importorskip("torch")
    rng = np.random.default_rng(9)
    stored, queries = random_modes(rng, 90, (300, 64, 3)), random_modes(rng, 40, (300, 64, 3))
    expected = NetworkIndex(stored).similarity(queries, EXECUTION)
    assert_array_equal(TorchIndex(stored, "cpu").similarity(queries, EXECUTION), expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.cuda.is_available", lambda: False)
        away, apart = (
            pickle.loads(pickle.dumps(TorchIndex(stored, "cuda", hidden)))
            for hidden in (False, True)
        )
        assert type(away) is type(apart) is NetworkIndex
        assert_array_equal(away.similarity(queries, EXECUTION), expected)
        gaussians, X = random_gaussians(rng, 90, 3), rng.normal(size=(40, 3))
        counts = rng.uniform(0.5, 3, (90, 4))
        search = Search(gaussians, 5, counts=counts, exponents=np.array([2.0]))
        for here, there in ((away, NetworkIndex(stored)), (apart, NetworkIndex(stored, True))):
            near, usual = (i.nearest(queries, X, search, EXECUTION) for i in (here, there))
            assert_array_equal(near.index, usual.index)
            assert_array_equal(near.class_sums, usual.class_sums)


@pytest.fixture
def no_torch_index(monkeypatch):
    """A TorchIndex that is built is an error."""

    def refuse(self, *args, **kwargs):
        raise AssertionError("a TorchIndex was built for a device that is missing")

    monkeypatch.setattr(TorchIndex, "__init__", refuse)


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize(
    ("device", "n_devices"), [("cuda", 0), ("cuda:0", 0), ("cuda:1", 1), ("cuda:7", 2)]
)
def test_an_index_for_a_missing_device_is_never_built(
    device, n_devices, hidden, monkeypatch, no_torch_index
):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: n_devices > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_devices)
    stored = random_modes(np.random.default_rng(0), 10, (20, 5))
    index = build_index(stored, device, hidden)
    assert type(index) is NetworkIndex
    assert index.hidden_labels == hidden
    evidence = LabelEvidence.build(stored, np.eye(10), hidden, device)
    assert type(evidence.index) is NetworkIndex
    assert evidence.hidden_labels == hidden


@pytest.mark.parametrize(("device", "n_devices"), [("cuda", 1), ("cuda:1", 2)])
def test_a_device_that_is_there_is_used(device, n_devices, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_devices)
    index = build_index(random_modes(np.random.default_rng(0), 10, (20, 5)), device)
    assert type(index) is TorchIndex
    assert index.device == device


def test_leaves_stay_on_the_cpu(no_torch_index):
    leaves = random_leaves(np.random.default_rng(0), 10)
    assert type(build_index(leaves, "cpu")) is ForestIndex


@pytest.mark.parametrize("hidden", [False, True])
def test_a_pickled_index_is_built_anew(hidden):
    """Tensors do not travel; the same device is used where it is there."""
    pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    stored, queries = random_modes(rng, 30, (20, 5)), random_modes(rng, 8, (20, 5))
    index, counts = TorchIndex(stored, "cpu", hidden), rng.uniform(size=(30, 3))
    sums = index.class_sums(queries, counts, np.array([2.0]), EXECUTION)
    assert index.__reduce__() == (build_index, (index.modes, "cpu", hidden))
    again = pickle.loads(pickle.dumps(index))
    assert type(again) is TorchIndex
    assert (again.device, again.hidden_labels) == ("cpu", hidden)
    assert_array_equal(again.class_sums(queries, counts, np.array([2.0]), EXECUTION), sums)


def test_similarity_of_a_model_is_computed_on_the_device_of_its_parent(blobs, monkeypatch):
    """The code of the GPU, on the CPU."""
    pytest.importorskip("torch")
    X, y = blobs
    model = GeodesicCalibrator(small_network(), random_state=0).fit(X[:200], y[:200])
    expected = model.similarity(X[200:230], X[:50])
    built = []
    init = TorchIndex.__init__

    def spy(self, *args, **kwargs):
        built.append(args)
        init(self, *args, **kwargs)

    monkeypatch.setattr(TorchIndex, "__init__", spy)
    monkeypatch.setattr(type(model.model_.parent), "gpu", "cpu")
    assert_array_equal(model.similarity(X[200:230], X[:50]), expected)
    assert len(built) == 1
