"""Pictures of a model: a display holds the numbers, and draws them when ``plot`` is called.

Nothing here needs matplotlib until ``plot``: pip install "polycal[plot]".
"""

from ._distance import DistanceDisplay
from ._kernel_matrix import KernelMatrixDisplay
from ._posterior_map import PosteriorMapDisplay
from ._reliability import ReliabilityDisplay
from ._trust import TrustDisplay

__all__ = [
    "DistanceDisplay",
    "KernelMatrixDisplay",
    "PosteriorMapDisplay",
    "ReliabilityDisplay",
    "TrustDisplay",
]
