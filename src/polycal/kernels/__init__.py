"""The geodesic kernel between activation modes, and the search for the nearest modes.

``build_index`` chooses the class for some modes. ``reference`` is a slow version, which the tests
compare the classes with.
"""

from .base import KernelIndex, Search, build_index
from .euclidean import EuclideanIndex, pair_similarity
from .forest import ForestIndex
from .hyperplanes import Hyperplanes
from .network import NetworkIndex
from .path_tables import PathTables, Sampling
from .sampled import SampledIndex
from .sampled_torch import TorchSampledIndex, build_sampled_index
from .sides import LabelledSides
from .stored_modes import StoredModes, keys_of
from .stream_tables import StreamTables
from .streamed import StreamedTables
from .torch import TorchIndex

__all__ = [
    "EuclideanIndex",
    "ForestIndex",
    "Hyperplanes",
    "KernelIndex",
    "LabelledSides",
    "NetworkIndex",
    "PathTables",
    "SampledIndex",
    "Sampling",
    "Search",
    "StoredModes",
    "StreamTables",
    "StreamedTables",
    "TorchIndex",
    "TorchSampledIndex",
    "build_index",
    "build_sampled_index",
    "keys_of",
    "pair_similarity",
]
