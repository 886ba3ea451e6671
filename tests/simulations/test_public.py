"""The simulations that polycal.simulations offers."""

from __future__ import annotations

import inspect

from polycal import simulations
from polycal.simulations.densities import SIMULATIONS
from tests.toys.simulations import MAKERS


def test_public_names():
    functions = {name for name, _ in inspect.getmembers(simulations, inspect.isfunction)}
    assert functions == set(simulations.__all__)
    assert set(MAKERS) == set(SIMULATIONS)
