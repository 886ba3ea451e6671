"""
A network that meets classes it has never seen
==============================================

A ReLU network learns the digits 0 to 7, and is then shown eights, nines, and digits whose pixels
are shuffled. It answers all of them; polycal says which of its answers have training data behind
them.
"""

# %%
# The parent may be any ``MLPClassifier``, also at the end of a Pipeline. Trained PyTorch and
# Keras models go in alike: see the recipes.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from polycal import GeodesicCalibrator
from polycal.metrics import auroc, mean_max_confidence
from polycal.plotting import TrustDisplay

digits, label = load_digits(return_X_y=True)
digits /= 16
known = label < 8
X, X_test, y, y_test = train_test_split(digits[known], label[known], test_size=0.5, random_state=0)
network = MLPClassifier((64, 64), alpha=1e-3, max_iter=300, random_state=0)
model = GeodesicCalibrator(network, random_state=0).fit(X, y)

# %%
# How sure is each, and how well does it tell strangers apart? 0.5 in the last two columns is
# guessing. ``model.estimator_`` is the network inside.

strangers = {
    "8 and 9": digits[~known],
    "shuffled pixels": np.random.default_rng(0).permuted(X_test, axis=1),
}
rows = {"0 to 7": X_test, **strangers}
confidence = {name: model.estimator_.predict_proba(Z).max(axis=1) for name, Z in rows.items()}
score = {name: model.score_samples(Z) for name, Z in rows.items()}
print(f"{'digits':16} network  polycal  AUROC: network  polycal")
for name, Z in rows.items():
    sure = f"{name:16} {confidence[name].mean():.3f}    "
    sure += f"{mean_max_confidence(model.predict_proba(Z)):.3f}"
    if name in strangers:
        told = auroc(confidence["0 to 7"], confidence[name]), auroc(score["0 to 7"], score[name])
        sure += "           {:.3f}    {:.3f}".format(*told)
    print(sure)

# %%
# The weight behind each answer
# -----------------------------
# Shuffled pixels get no weight at all. Eights and nines are *near* strangers: to this network they
# look much like a known digit, so most of them keep their weight, and its plain confidence tells
# them apart better than polycal does. polycal can only be as good as the features that the parent
# has learned. The example on false alarms moves the line where an answer is refused.

_, axes = plt.subplots(2, 1, figsize=(6.4, 5.8), layout="constrained")
for ax, (name, Z) in zip(axes, strangers.items(), strict=True):
    TrustDisplay.from_estimator(model, X_test, Z, name=name).plot(ax)
