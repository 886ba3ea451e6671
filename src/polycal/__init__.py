"""polycal: probabilities that can be believed, near the training data and far from it."""

from . import metrics, plotting, simulations
from .estimators import PAPER, GeodesicCalibrator, KernelDensityForest, KernelDensityNetwork
from .evaluation import Evaluation, evaluate
from .parents import TorchParent

__all__ = [
    "PAPER",
    "GeodesicCalibrator",
    "KernelDensityForest",
    "KernelDensityNetwork",
    "Evaluation",
    "TorchParent",
    "evaluate",
    "metrics",
    "plotting",
    "simulations",
]

__version__ = "0.1.0"
