"""Plots of a model: a display holds the numbers, and ``plot`` draws them.

Only ``plot`` needs matplotlib: pip install "polycal[plot]".
"""

from .acceptance import AcceptanceDisplay
from .distance import DistanceDisplay
from .kernel_matrix import KernelMatrixDisplay
from .posterior_map import PosteriorMapDisplay
from .reliability import ReliabilityDisplay
from .set_size import SetSizeDisplay
from .trust import TrustDisplay

__all__ = [
    "AcceptanceDisplay",
    "DistanceDisplay",
    "KernelMatrixDisplay",
    "PosteriorMapDisplay",
    "ReliabilityDisplay",
    "SetSizeDisplay",
    "TrustDisplay",
]
