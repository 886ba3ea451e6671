"""The five displays of polycal.plotting on digits, breast cancer and simulated data.

python examples/displays.py [--out displays]

Writes one PNG for each display into the folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tqdm import tqdm

from polycal import KernelDensityForest
from polycal.plotting import (
    DistanceDisplay,
    KernelMatrixDisplay,
    PosteriorMapDisplay,
    ReliabilityDisplay,
    TrustDisplay,
)
from polycal.simulations import make_spiral


def fit(X, y) -> dict:
    """A forest and polycal's, of the same size on the same rows."""
    return {
        "forest": RandomForestClassifier(100, random_state=0).fit(X, y),
        "polycal": KernelDensityForest(100, random_state=0).fit(X, y),
    }


def reliability(models, X, y):
    fig, axes = plt.subplots(1, 2, figsize=(9, 5.4), layout="constrained")
    for ax, (name, model) in zip(axes, models.items(), strict=True):
        ReliabilityDisplay.from_estimator(model, X, y, name=name).plot(ax)
    return fig


def posterior_map(models, X, y):
    fig, axes = plt.subplots(2, 2, figsize=(10, 9), layout="constrained")
    for row, (name, model) in zip(axes, models.items(), strict=True):
        display = PosteriorMapDisplay.from_estimator(model, X, y, resolution=120, name=name)
        display.plot(row[0])
        display.plot(row[1], class_label=1)
    return fig


def trust(model, X, others):
    fig, axes = plt.subplots(2, 1, figsize=(6.4, 6.4), layout="constrained")
    for ax, (name, X_ood) in zip(axes, others.items(), strict=True):
        TrustDisplay.from_estimator(model, X, X_ood, name=name).plot(ax)
    return fig


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("displays"), help="the folder")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    digits, label = load_digits(return_X_y=True)
    digits = digits / 16
    X, X_test, y, y_test = train_test_split(digits, label, test_size=0.5, random_state=0)
    on_digits = fit(X, y)
    known = label < 8
    X_known, X_held, y_known, _ = train_test_split(digits[known], label[known], random_state=0)
    shuffled = np.random.default_rng(0).permuted(X_held, axis=1)  # the same ink, no digit
    without = KernelDensityForest(100, random_state=0).fit(X_known, y_known)
    cancer = load_breast_cancer()
    spiral, arm = make_spiral(600, random_state=0)
    on_spiral = fit(spiral, arm)

    figures = {
        "reliability": lambda: reliability(on_digits, X_test, y_test),
        "posterior_map": lambda: posterior_map(on_spiral, spiral, arm),
        "distance": lambda: (
            DistanceDisplay.from_estimator(
                {
                    **fit(cancer.data, cancer.target),
                    "logistic regression": make_pipeline(
                        StandardScaler(), LogisticRegression()
                    ).fit(cancer.data, cancer.target),
                },
                cancer.data,
            )
            .plot()
            .figure_
        ),
        "trust": lambda: trust(
            without, X_held, {"8 and 9, unseen": digits[~known], "shuffled pixels": shuffled}
        ),
        "kernel_matrix": lambda: (
            KernelMatrixDisplay.from_estimator(on_digits["polycal"], X_test[:400], y_test[:400])
            .plot()
            .figure_
        ),
    }
    for name, draw in tqdm(figures.items(), desc="displays", unit="figure"):
        figure = draw()
        figure.savefig(out / f"{name}.png", dpi=110)
        plt.close(figure)
    print(f"Figures: {out}")


if __name__ == "__main__":
    main()
