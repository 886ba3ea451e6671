"""A difference above chance is a mean above its standard error."""

from __future__ import annotations

import numpy as np
import pytest

from polycal._utils.significance import above_chance


@pytest.mark.parametrize("weight", [np.ones(4), np.array([1.0, 1.0, 2.0, 4.0])])
def test_above_chance_is_a_mean_above_its_standard_error(weight):
    extra = np.array([0.3, -0.1, 0.2, 0.4])
    mean = weight @ extra / weight.sum()
    n = weight.sum() ** 2 / (weight**2).sum()
    error = np.sqrt(weight @ (extra - mean) ** 2 / weight.sum() / n)
    assert above_chance(extra - mean + 1.01 * error, weight)
    assert not above_chance(extra - mean + 0.99 * error, weight)
