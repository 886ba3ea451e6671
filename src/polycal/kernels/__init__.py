"""Modes x modes -> similarity, nearest. Knows nothing of parents.

``build_index`` chooses; the classes compute; ``_reference`` is what they must equal.
"""

from .._types import ActivationModes
from ._base import Effort, KernelIndex, Search
from ._euclidean import euclidean_nearest, pair_similarity
from ._forest import ForestIndex
from ._network import NetworkIndex
from ._torch import TorchIndex

__all__ = [
    "Effort",
    "ForestIndex",
    "KernelIndex",
    "NetworkIndex",
    "Search",
    "TorchIndex",
    "build_index",
    "euclidean_nearest",
    "pair_similarity",
]


def build_index(modes: ActivationModes, device: str | None = None) -> KernelIndex:
    """The exact index for these modes: packed bits (here or on a torch device) or leaves."""
    if not modes.packed:
        return ForestIndex(modes)
    return NetworkIndex(modes) if device is None else TorchIndex(modes, device)
