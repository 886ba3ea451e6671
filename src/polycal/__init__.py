"""polycal: probabilities that can be believed, near the training data and far from it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import datasets, metrics, mlflow, plotting, simulations
    from ._utils.warnings import DataWarning, FewRowsWarning, LeakWarning, ShiftWarning
    from .calibration.fitted_model import Answer
    from .decisions.result import Decisions, ExpectedScores
    from .estimators import PAPER, GeodesicCalibrator, KernelDensityForest, KernelDensityNetwork
    from .evaluation import Evaluation, evaluate
    from .gate.explanation import Explanation
    from .monitoring import BatchCheck, Monitor, StreamStatus
    from .parents import TorchParent
    from .persistence import ModelFileError, load
    from .reporting import report

__all__ = [
    "PAPER",
    "GeodesicCalibrator",
    "KernelDensityForest",
    "KernelDensityNetwork",
    "Answer",
    "BatchCheck",
    "DataWarning",
    "Decisions",
    "Evaluation",
    "ExpectedScores",
    "Explanation",
    "FewRowsWarning",
    "LeakWarning",
    "ModelFileError",
    "Monitor",
    "ShiftWarning",
    "StreamStatus",
    "TorchParent",
    "datasets",
    "evaluate",
    "load",
    "metrics",
    "mlflow",
    "plotting",
    "report",
    "simulations",
]

__version__ = "0.1.0"

# Where each name lives. It is imported at its first use, so that ``polycal --help`` and a
# program that needs one part do not wait for the others.
_HOME = {
    "PAPER": "estimators",
    "GeodesicCalibrator": "estimators",
    "KernelDensityForest": "estimators",
    "KernelDensityNetwork": "estimators",
    "BatchCheck": "monitoring",
    "Monitor": "monitoring",
    "StreamStatus": "monitoring",
    "Answer": "calibration.fitted_model",
    "DataWarning": "_utils.warnings",
    "Decisions": "decisions.result",
    "ExpectedScores": "decisions.result",
    "FewRowsWarning": "_utils.warnings",
    "LeakWarning": "_utils.warnings",
    "ShiftWarning": "_utils.warnings",
    "Evaluation": "evaluation",
    "Explanation": "gate.explanation",
    "ModelFileError": "persistence",
    "TorchParent": "parents",
    "evaluate": "evaluation",
    "load": "persistence",
    "report": "reporting",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    elif name in __all__:
        value = import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module 'polycal' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
