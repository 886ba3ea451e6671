"""How many threads products of small matrices take."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> Any:
    """A context in which BLAS has one thread: of small products, threads wait for each other."""
    return _blas().limit(limits=1, user_api="blas")


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    """The BLAS of NumPy and SciPy, found once: threadpoolctl reads all libraries of the process."""
    return ThreadpoolController()
