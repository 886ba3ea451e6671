"""The estimators: control flow, no mathematics."""

from ._base import PAPER, BaseCalibrator
from ._calibrator import GeodesicCalibrator
from ._forest import KernelDensityForest
from ._network import KernelDensityNetwork

__all__ = [
    "PAPER",
    "BaseCalibrator",
    "GeodesicCalibrator",
    "KernelDensityForest",
    "KernelDensityNetwork",
]
