"""A model file is a safetensors file with a manifest of limited depth."""

from __future__ import annotations

import os

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import polycal
from polycal import KernelDensityForest, ModelFileError
from polycal.persistence import AlteredFileError, NotAModelFileError
from polycal.persistence.container import DTYPES, MOST_NESTED, read, write
from tests.toys.model_files import change


def test_the_file_is_a_safetensors_file(iris, tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    model = KernelDensityForest(10, random_state=0).fit(*iris)
    model.save(tmp_path / "m.polycal")
    found = safetensors.load_file(tmp_path / "m.polycal")
    assert_array_equal(found["model.reference.polytopes.mean"], model.polytopes_.mean)
    arrays = {name: np.arange(6).astype(dtype).reshape(2, 3) for name, dtype in DTYPES.items()}
    write(tmp_path / "a", {}, arrays | {"empty": np.empty((0, 2)), "scalar": np.array(3.0)})
    _, _, ours = read(tmp_path / "a")
    theirs = safetensors.load_file(tmp_path / "a")
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert array.flags.aligned
        assert array.dtype == theirs[name].dtype
        assert_array_equal(array, theirs[name])


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


def test_values_inside_values(file, small):
    """A file holds them so deep and no deeper, whatever Python would allow."""
    deepest = nested(MOST_NESTED - 3)  # inside the whole, "parameters" and "values"

    def gamma(value):
        def edit(manifest, header):
            manifest["parameters"]["values"]["gamma"] = value

        return edit

    file.write_bytes(change(small[0], gamma(deepest)))
    model = polycal.load(file)
    assert model.gamma == deepest
    model.save(file)
    model.gamma = [deepest]
    with pytest.raises(ModelFileError, match=f"more than {MOST_NESTED} deep"):
        model.save(file)
    assert polycal.load(file).gamma == deepest  # the file of before is still there
    for value in ([deepest], nested(490)):
        file.write_bytes(change(small[0], gamma(value)))
        with pytest.raises(AlteredFileError, match=f"more than {MOST_NESTED} deep"):
            polycal.load(file)
    endless = '{"class": ' + "[" * 100_000 + "]" * 100_000 + "}"
    file.write_bytes(change(small[0], lambda manifest, header: endless))
    with pytest.raises(AlteredFileError, match="recursion"):
        polycal.load(file)


def test_a_byte_of_two_is_true(tmp_path):
    write(tmp_path / "m", {}, {"flags": np.array([0, 2, 1], np.uint8).view(bool)})
    _, _, arrays = read(tmp_path / "m")
    assert_array_equal(arrays["flags"].view(np.uint8), [0, 1, 1])


@pytest.mark.timeout(60)
def test_pipes_and_folders_are_neither_read_nor_replaced(iris, tmp_path):
    """Opening a pipe would wait for its other end."""
    model = KernelDensityForest(10, random_state=0).fit(*iris)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link"):
        with pytest.raises(NotAModelFileError, match=f"{name} is a named pipe"):
            polycal.load(tmp_path / name)
        with pytest.raises(FileExistsError, match="a named pipe, which is not replaced"):
            model.save(tmp_path / name)
    with pytest.raises(NotAModelFileError, match="is a folder"):
        polycal.load(tmp_path)
    with pytest.raises(IsADirectoryError, match="add a name for the file"):
        model.save(tmp_path)
    for act in (model.save, polycal.load):
        with pytest.raises(ValueError, match="path is empty"):
            act("")
    assert {path.name for path in tmp_path.iterdir()} == {"pipe", "link"}
