"""Two worker processes of Dask, which all tests here share."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def cluster():
    """Two processes of one thread each; one that is killed is started again."""
    distributed = pytest.importorskip("distributed")
    settings = {"n_workers": 2, "processes": True, "threads_per_worker": 1}
    with distributed.LocalCluster(**settings, dashboard_address=":0") as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    """A client of both workers, for one test."""
    distributed = pytest.importorskip("distributed")
    with distributed.Client(cluster, timeout=60) as client:
        client.wait_for_workers(2, timeout=60)
        yield client
