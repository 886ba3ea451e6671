"""Modes x modes -> similarity, nearest. Knows nothing of parents.

``build_index`` chooses; the classes compute; ``_reference`` is what they must equal.
"""

from ..core.reading import ActivationModes
from .base import Execution, KernelIndex, Search
from .euclidean import euclidean_nearest, pair_similarity
from .forest import ForestIndex
from .network import NetworkIndex
from .torch import TorchIndex

__all__ = [
    "Execution",
    "ForestIndex",
    "KernelIndex",
    "NetworkIndex",
    "Search",
    "TorchIndex",
    "build_index",
    "euclidean_nearest",
    "pair_similarity",
]


def build_index(
    modes: ActivationModes, device: str | None = None, *, hidden_labels: bool = False
) -> KernelIndex:
    """The exact index for these modes: packed bits (here or on a torch device) or leaves.

    With ``hidden_labels`` a network's class sums leave out its output layer.
    """
    if not modes.packed:
        return ForestIndex(modes)
    if device is None:
        return NetworkIndex(modes, hidden_labels)
    return TorchIndex(modes, device, hidden_labels)
