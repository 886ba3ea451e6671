"""
How many false alarms to allow
==============================

``false_alarm`` is the share of ordinary new rows that may be called "out". A higher share refuses
more strangers and costs some ordinary answers. This draws both sides, and where ``"auto"`` stands.
"""

# %%
# Digits 0 to 7 are known, 8 and 9 are the strangers. All models have the same forest; only the
# floor moves between them.

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from polycal import KernelDensityForest

digits, label = load_digits(return_X_y=True)
known = label < 8
X, X_test, y, y_test = train_test_split(digits[known], label[known], test_size=0.5, random_state=0)


def fit(level):
    return KernelDensityForest(100, false_alarm=level, random_state=0).fit(X, y)


levels = [0.01, 0.015, 0.02, 0.03, 0.05, 0.07, 0.1]
models = [fit(level) for level in levels]
auto = fit("auto")
print(f'"auto" chose {auto.false_alarm_}')

# %%
# What it brings, and what it costs
# ---------------------------------
# Left: the share of rows called "out". For the known digits it should follow the dashed line, the
# level asked for. Right: the log-loss on the known digits. ``"auto"`` takes the highest level whose
# cost the calibration rows cannot tell from chance. The forest knows nearly every digit, so that
# here each refused row costs something, and ``"auto"`` stays low.

out = {
    name: [(model.explain(Z).verdict == "out").mean() for model in models]
    for name, Z in {"8 and 9": digits[~known], "0 to 7": X_test}.items()
}
loss = [log_loss(y_test, model.predict_proba(X_test)) for model in models]

_, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for (name, share), style in zip(out.items(), ("o-", "s-"), strict=True):
    left.plot(levels, share, style, label=name)
left.plot(levels, levels, "k--", lw=1, label="level asked for")
left.set(xlabel="false_alarm", ylabel='share called "out"', ylim=(0, 1))
left.legend(frameon=False)
right.plot(levels, loss, "s-", color="C1")
right.set(xlabel="false_alarm", ylabel="log-loss on 0 to 7", ylim=(0, None))
for ax in (left, right):
    ax.axvline(auto.false_alarm_, color="0.5", lw=1, ls=":")
    ax.text(auto.false_alarm_, ax.get_ylim()[1] * 0.97, " auto", va="top", color="0.4")

# %%
# Which level to take is a question of cost: what does a refused ordinary row cost you, and what
# does an answer to a stranger?

print("level   known refused   strangers refused   log-loss")
for row in zip(levels, out["0 to 7"], out["8 and 9"], loss, strict=True):
    print("{:.3f}   {:.3f}           {:.3f}               {:.4f}".format(*row))
