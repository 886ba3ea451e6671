"""Boosters of a file that is not trusted, tried in a process of their own first.

LightGBM, XGBoost and CatBoost read and walk their trees without checks that hold against content
that was made to crash them. A child process reads the content and predicts some odd rows with it.
If it crashes, does not end, or takes too much memory, the file is refused, and this process is
unharmed. What the child survives can still crash on rows that it has not tried.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from .._utils.arrays import Floats
from .._utils.optional import optional
from .errors import AlteredFileError

SECONDS = 60
# Memory of the child beside twenty times the content; its libraries alone take one or two GiB.
ROOM = 6 << 30
# Odd rows, and levels of their categories.
N_ROWS, N_LEVELS = 256, 10
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from polycal.persistence.isolated import main; main(sys.argv[2])"
)
GOOD = b"good"


def try_in_child(library: str, content: bytes, seconds: float = SECONDS) -> None:
    """Raise ``AlteredFileError`` unless a child process reads a booster and predicts with it."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps(sys.path), library],
            input=content,
            capture_output=True,
            timeout=seconds,
            env=os.environ | ENVIRONMENT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        why = f"no end after {seconds:g} s"
    else:
        if done.returncode == 0 and done.stdout.endswith(GOOD):
            return
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        crash = done.returncode < 0
        why = f"signal {-done.returncode}" if crash else (lines or ["no message"])[-1][:200]
    raise AlteredFileError(
        f"{library} failed on its part of the file, which it read in a process of its own ({why}). "
        "Use another copy of the file, from a source that you trust."
    )


def main(library: str) -> None:
    """What the child does: read the content from stdin, and predict odd rows."""
    content = sys.stdin.buffer.read()
    _limit_memory(ROOM + 20 * len(content))
    PROBES[library](content)
    sys.stdout.buffer.write(GOOD)
    sys.stdout.flush()


def odd_rows(n_features: int) -> Floats:
    """Rows that reach many leaves: random, huge, zero and missing numbers."""
    rng = np.random.default_rng(0)
    shape = (N_ROWS, n_features)
    rows = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 7, size=shape)
    rows[0], rows[1], rows[2] = 0.0, 1e30, -1e30
    rows[::2][rng.random(rows[::2].shape) < 0.3] = np.nan
    return rows


def _lightgbm(content: bytes) -> None:
    booster = optional("lightgbm", "boosting").Booster(model_str=content.decode())
    rows = odd_rows(booster.num_feature())
    _ask(booster.predict, rows)
    _ask(booster.predict, rows, pred_leaf=True)
    booster.dump_model()


def _xgboost(content: bytes) -> None:
    xgboost = optional("xgboost", "boosting")
    booster = xgboost.Booster()
    booster.load_model(bytearray(content))
    rows, types = odd_rows(booster.num_features()), booster.feature_types
    categories = [j for j, kind in enumerate(types or []) if kind == "c"]
    rows[:, categories] = np.abs(rows[:, categories]) // 1 % N_LEVELS
    data = xgboost.DMatrix(rows, feature_types=types, enable_categorical=True)
    _ask(booster.predict, data, validate_features=False)
    _ask(booster.predict, data, pred_leaf=True, validate_features=False)
    booster.get_dump()


def _catboost(content: bytes) -> None:
    model = optional("catboost", "boosting").CatBoostClassifier()
    model.load_model(blob=content)
    rows = odd_rows(len(model.feature_names_)).astype(object)
    for j in model.get_cat_feature_indices():
        rows[:, j] = [str(i % N_LEVELS) for i in range(len(rows))]
    _ask(model.predict_proba, rows)
    _ask(model.calc_leaf_indexes, rows)


def _ask(predict: Callable[..., Any], *rows: Any, **options: Any) -> None:
    """Predict; that the library refuses odd rows is no fault of the file."""
    with suppress(Exception):
        predict(*rows, **options)


PROBES = {"lightgbm": _lightgbm, "xgboost": _xgboost, "catboost": _catboost}


def _limit_memory(most: int) -> None:
    with suppress(ImportError, ValueError, OSError):  # Windows has no such limit
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))
