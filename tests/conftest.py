"""Small data and models that several tests share."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

# Test processes share the cores; threads that wait for one another would only spin.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris, make_classification

# A failed assertion of a toy shows its values, as one of a test does.
pytest.register_assert_rewrite("tests.toys")


FEW, SHIFT, LEAK = (f"ignore::polycal.{name}Warning" for name in ("FewRows", "Shift", "Leak"))
DATES = "ignore:most rows of later dates:UserWarning"
# Warnings about data that tests of a file or folder cause on purpose: models of few rows, rows far
# away, parents that are frozen on any rows, dates. In all other tests they are errors.
CAUSED_ON_PURPOSE = {
    "calibration/": (FEW, SHIFT, LEAK),  # test_guards.py and test_query_guards.py expect them
    "cli/": (DATES,),
    "cli/test_fit.py": (FEW,),
    "cli/test_predict.py": (SHIFT, LEAK),
    "cli/test_tables.py": (FEW, SHIFT),
    "core/test_advice.py": (FEW,),
    "core/test_records.py": (DATES,),
    "core/test_roles.py": (DATES,),
    "core/test_table.py": (SHIFT,),
    "docs/": (FEW, SHIFT, LEAK, DATES),  # pages show what is printed, warnings too
    "estimators/test_bad_input.py": (FEW,),
    "estimators/test_calibrator.py": (FEW,),
    "estimators/test_families.py": (FEW, SHIFT, LEAK),
    "estimators/test_groups.py": (FEW, SHIFT),
    "estimators/test_search.py": (LEAK,),
    "estimators/test_streaming.py": (FEW, SHIFT),
    "evaluation/": (SHIFT,),
    "gate/test_explanation.py": (FEW,),
    "gate/test_gate.py": (SHIFT,),
    "odd_inputs/": (FEW, SHIFT, LEAK),
    "parents/": (FEW, SHIFT, LEAK),
    "persistence/": (FEW, SHIFT, LEAK),
    "plotting/test_posterior_map.py": (SHIFT,),
    "reporting/test_findings.py": (FEW, SHIFT, LEAK),
    "reporting/test_report.py": (SHIFT,),
    "reporting/test_values.py": (FEW, DATES),
    "reporting/test_words.py": (LEAK,),
    "stress/": (FEW, SHIFT, LEAK),
    "studies/": (FEW, SHIFT, LEAK),
    "test_mlflow.py": (DATES,),
    "test_one_reading.py": (FEW, SHIFT, LEAK),
}


def pytest_collection_modifyitems(items):
    """Ignore in each test the warnings about data that it causes on purpose."""
    here = Path(__file__).parent
    for item in items:
        if not item.path.is_relative_to(here):
            continue
        path = item.path.relative_to(here).as_posix()
        for place, filters in CAUSED_ON_PURPOSE.items():
            if path.startswith(place):
                for ignored in filters:
                    item.add_marker(pytest.mark.filterwarnings(ignored))


@pytest.fixture(scope="session")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="session")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


@pytest.fixture(scope="session")
def blobs():
    """Two balanced classes with some overlap, 600 rows, 5 features."""
    return make_classification(
        600, n_features=5, n_informative=4, n_redundant=0, class_sep=1.2, random_state=3
    )


@pytest.fixture(name="X")
def network_rows():
    """70 rows of 5 features in single precision, as a network takes them."""
    return np.random.default_rng(0).normal(size=(70, 5)).astype(np.float32)


@pytest.fixture(name="y")
def network_labels():
    """A random class of three for each row of X."""
    return np.random.default_rng(1).integers(0, 3, size=70)


@pytest.fixture(scope="session")
def keras():
    """Keras with the back-end that KERAS_BACKEND names, or else with one that is installed."""
    installed = [name for name in ("torch", "jax", "tensorflow") if find_spec(name)]
    with pytest.MonkeyPatch.context() as patch:
        if "KERAS_BACKEND" not in os.environ:
            if not installed:
                pytest.skip("Keras has no back-end here; install torch, jax or tensorflow")
            patch.setenv("KERAS_BACKEND", installed[0])
        yield pytest.importorskip("keras")


@pytest.fixture
def torch_seed():
    pytest.importorskip("torch").manual_seed(0)
