"""Modes x modes -> similarity, nearest. Knows nothing of parents.

``build_index`` chooses; the classes compute; ``_reference`` is what they must equal.
"""

from .._types import ActivationModes
from ._base import Effort, KernelIndex, Search
from ._euclidean import euclidean_nearest, pair_similarity
from ._forest import ForestIndex
from ._network import NetworkIndex

__all__ = [
    "Effort",
    "ForestIndex",
    "KernelIndex",
    "NetworkIndex",
    "Search",
    "build_index",
    "euclidean_nearest",
    "pair_similarity",
]


def build_index(modes: ActivationModes) -> KernelIndex:
    """The exact index for these modes: packed bits or leaf ids."""
    return NetworkIndex(modes) if modes.packed else ForestIndex(modes)
