"""The estimators: parameters, checks of the input, and the order of the steps."""

from .base import PAPER, BaseCalibrator
from .calibrator import GeodesicCalibrator
from .facts import model_facts, parent_name, witness_weights
from .forest import KernelDensityForest
from .network import KernelDensityNetwork

__all__ = [
    "PAPER",
    "BaseCalibrator",
    "GeodesicCalibrator",
    "KernelDensityForest",
    "KernelDensityNetwork",
    "model_facts",
    "parent_name",
    "witness_weights",
]
