"""
A boosted model that is trained already
=======================================

Gradient boosting is often too sure of itself, and no less so far from its data. Here a trained
model is calibrated without being touched: it goes in as a ``FrozenEstimator``, beside rows that it
has not seen.
"""

# sphinx_gallery_thumbnail_number = -1

# %%
# Three parts of the rows: the parent's, the calibration's, and the test's.

from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split

from polycal import GeodesicCalibrator, evaluate
from polycal.plotting import DistanceDisplay

X, y = make_classification(
    3000, n_features=8, n_informative=6, n_classes=3, class_sep=0.9, random_state=0
)
X_fit, X, y_fit, y = train_test_split(X, y, test_size=0.5, random_state=0)
X_cal, X_test, y_cal, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
parent = HistGradientBoostingClassifier(random_state=0).fit(X_fit, y_fit)

frozen = FrozenEstimator(parent)
models = {
    "boosting": parent,
    "temperature": CalibratedClassifierCV(frozen, method="temperature").fit(X_cal, y_cal),
    "polycal": GeodesicCalibrator(frozen).fit(X_fit, y_fit, X_cal=X_cal, y_cal=y_cal),
}

# %%
# Near the data
# -------------
# Temperature scaling has one number to set, and repairs the confidence as a whole. polycal also
# looks at the labels around each row, which is why its error differs from the parent's, and its
# log-loss and Brier score are lower. The intervals of the two calibration errors (ECE) overlap: on
# so few rows they do not tell the two apart.

evaluate(models, X_test, y_test, random_state=0).plot(["error", "ece", "log_loss", "brier"])

# %%
# Far from it
# -----------
# A scaled confidence is still a confidence: beyond the data it stays where the outermost leaves
# put it. polycal comes down to the highest class prior.

DistanceDisplay.from_estimator(models, X_fit).plot()
