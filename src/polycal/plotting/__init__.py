"""Plots of a model: a display holds the numbers, and ``plot`` draws them.

Only ``plot`` needs matplotlib: pip install "polycal[plot]".
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
