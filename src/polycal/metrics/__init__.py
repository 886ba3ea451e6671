"""Measures of calibration, of confidence out of distribution, and of out-of-distribution detection.

Labels are columns of P (0 to n_classes - 1); scores are higher for rows that are more in
distribution; a row of weight 2 counts as two rows, a row of weight 0 as none.
"""

from .calibration import classwise_calibration_error, expected_calibration_error
from .detection import auroc, fpr_at_tpr
from .interval import CalibrationErrorInterval, calibration_error_interval
from .pointwise import (
    hellinger_distance,
    mean_max_confidence,
    mean_max_confidence_on_errors,
    ood_calibration_error,
)

__all__ = [
    "CalibrationErrorInterval",
    "auroc",
    "calibration_error_interval",
    "classwise_calibration_error",
    "expected_calibration_error",
    "fpr_at_tpr",
    "hellinger_distance",
    "mean_max_confidence",
    "mean_max_confidence_on_errors",
    "ood_calibration_error",
]
