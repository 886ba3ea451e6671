"""Pictures of a model: a display holds the numbers, and draws them when ``plot`` is called.

Nothing here needs matplotlib until ``plot``: pip install "polycal[plot]".
"""

from .distance import DistanceDisplay
from .kernel_matrix import KernelMatrixDisplay
from .posterior_map import PosteriorMapDisplay
from .reliability import ReliabilityDisplay
from .trust import TrustDisplay

__all__ = [
    "DistanceDisplay",
    "KernelMatrixDisplay",
    "PosteriorMapDisplay",
    "ReliabilityDisplay",
    "TrustDisplay",
]
