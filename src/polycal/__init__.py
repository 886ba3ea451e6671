"""polycal: probabilities that can be believed, near the training data and far from it."""

from . import metrics, simulations
from .estimators import PAPER, GeodesicCalibrator, KernelDensityForest, KernelDensityNetwork
from .parents import TorchParent

__all__ = [
    "PAPER",
    "GeodesicCalibrator",
    "KernelDensityForest",
    "KernelDensityNetwork",
    "TorchParent",
    "metrics",
    "simulations",
]

__version__ = "0.1.0"
