"""The measures that polycal.metrics offers."""

from __future__ import annotations

import polycal.metrics


def test_public_names():
    design = {
        "expected_calibration_error",
        "ood_calibration_error",
        "mean_max_confidence",
        "mean_max_confidence_on_errors",
        "hellinger_distance",
        "auroc",
        "fpr_at_tpr",
    }
    ours = {"classwise_calibration_error", "calibration_error_interval", "CalibrationErrorInterval"}
    assert set(polycal.metrics.__all__) == design | ours
