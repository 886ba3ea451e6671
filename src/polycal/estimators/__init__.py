"""The estimators: parameters, checks of the input, and the order of the steps."""

from .base import PAPER, BaseCalibrator
from .calibrator import GeodesicCalibrator
from .forest import KernelDensityForest
from .network import KernelDensityNetwork

__all__ = [
    "PAPER",
    "BaseCalibrator",
    "GeodesicCalibrator",
    "KernelDensityForest",
    "KernelDensityNetwork",
]
