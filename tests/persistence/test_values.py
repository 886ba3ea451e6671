"""Values keep their type in a file."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from polycal.persistence import AlteredFileError
from polycal.persistence.values import Packer, Unpacker


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -(2**70),
        0.1,
        float("inf"),
        "\udc80é",
        [1, [2, (3,)]],
        {"a": (1, 2), 3: None},
        np.float32(0.1),
        np.int8(-3),
        np.str_("x"),
        np.array(2.5),
        np.empty((0, 3)),
        np.array([["a", "bcd"]]),
    ],
    ids=repr,
)
def test_values_keep_type_and_value(value):
    packer = Packer()
    node = json.loads(json.dumps(packer.value("x", value), allow_nan=False))
    found = Unpacker(packer.arrays).value(node)
    assert type(found) is type(value)
    assert_array_equal(found, value) if isinstance(value, np.ndarray) else None
    assert getattr(found, "dtype", None) == getattr(value, "dtype", None)
    assert repr(found) == repr(value)


def test_texts_that_would_take_all_memory():
    node = {"objects": [1025, [100_000], ["a"] * 100_000]}
    with pytest.raises(AlteredFileError, match="100000 texts of width 1025"):
        Unpacker({}).value(node)


def test_a_width_that_would_cut_a_text():
    node = {"objects": [2, [2], ["a", "bcd"]]}
    with pytest.raises(AlteredFileError, match="2 texts of width 2"):
        Unpacker({}).value(node)
