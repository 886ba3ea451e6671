"""
Categories and missing values
=============================

A table as it comes: numbers, a text column, gaps. The parent takes the categories and the gaps
itself, and the density counts them too: a ward that was never seen, or a value that was never
missing, makes a row less familiar.
"""

# %%
# 1500 made-up patients. Blood pressure is sometimes missing, age never.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

from polycal import GeodesicCalibrator

rng = np.random.default_rng(0)
n = 1500
table = pd.DataFrame(
    {
        "age": rng.normal(55, 12, n).round(),
        "pressure": rng.normal(130, 15, n).round(),
        "ward": rng.choice(["cardiology", "surgery", "emergency"], n, p=[0.5, 0.3, 0.2]),
    }
)
risk = (table["age"] - 55) / 12 + (table["pressure"] - 130) / 15 + (table["ward"] == "emergency")
ill = np.where(risk + rng.normal(0, 1, n) > 0.7, "ill", "well")
table.loc[rng.random(n) < 0.15, "pressure"] = np.nan
table["ward"] = table["ward"].astype("category")

X, y, X_test = table[:1200], ill[:1200], table[1200:]
model = GeodesicCalibrator(HistGradientBoostingClassifier(random_state=0), random_state=0)
model.fit(X, y)

# %%
# One patient, five versions
# --------------------------
# Only one entry changes in each line. "p" is the share of ordinary rows that are no more familiar.

patient = X_test.iloc[[3]]
versions = {
    "as it came": patient,
    "pressure missing": patient.assign(pressure=np.nan),
    "age missing": patient.assign(age=np.nan),
    "a new ward": patient.assign(ward=pd.Categorical(["radiology"])),
    "age 550": patient.assign(age=550.0),
}
for name, row in versions.items():
    why = model.explain(row)
    sick = model.predict_proba(row)[0, 0]
    feature = why.top_features(1)[0][0, 0]
    print(
        f"{name:17} {why.verdict[0]:16} p = {why.p_value[0]:.4f}   "
        f"P(ill) = {sick:.3f}   least usual: {feature}"
    )

# %%
# All test rows
# -------------
# The same changes to every test row. Missing pressure is ordinary, so it moves little; the other
# two move the whole distribution below the floor.

changed = {
    "as they came": X_test,
    "pressure missing": X_test.assign(pressure=np.nan),
    "age missing": X_test.assign(age=np.nan),
    "a new ward": X_test.assign(ward=pd.Categorical(["radiology"] * len(X_test))),
}
scores = [model.score_samples(Z) for Z in changed.values()]
_, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.boxplot(scores)
ax.set_xticks(range(1, len(changed) + 1), list(changed))
ax.axhline(model.log_floor_, color="0.5", ls="--", lw=1)
ax.text(0.52, model.log_floor_, "floor", color="0.4", va="bottom")
ax.set(ylabel="log f: higher is more familiar")
