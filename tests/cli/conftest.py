"""Tables of wine, and a model file that the command line made of them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine

from tests.toys.commands import call


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Training and test tables with numbers, text, missing values and text labels."""
    folder = tmp_path_factory.mktemp("cli")
    data = load_wine(as_frame=True)
    table = data.data[["alcohol", "flavanoids", "proline"]].copy()
    rng = np.random.default_rng(0)
    table["region"] = np.where(rng.random(len(table)) < 0.5, "north", "south")
    table.loc[::17, "region"] = None
    table.loc[::13, "alcohol"] = np.nan
    table["id"] = np.arange(len(table))
    table["grape"] = np.array(["barbera", "grignolino", "nebbiolo"])[data.target]
    table = table.sample(frac=1, random_state=0)
    table[:120].to_csv(folder / "train.csv", index=False)
    table[120:].to_csv(folder / "test.csv", index=False)
    table[120:].to_parquet(folder / "test.parquet")
    far = table[120:].assign(proline=1e6)
    far.to_csv(folder / "far.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def model(folder):
    path = folder / "m.polycal"
    call("fit", folder / "train.csv", "--target", "grape", "-o", path, "--drop", "id", "--json")
    return path
