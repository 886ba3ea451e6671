"""How a model is calibrated: reference sets, calibration folds, and the fitted model."""
