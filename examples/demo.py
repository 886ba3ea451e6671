"""polycal in two minutes: one table, one figure and one report
=============================================================

Digits and Gaussian XOR. ``make demo`` runs it, or
``python examples/demo.py [--out demo.png] [--report demo.html]``.

Every method calibrates the same random forest on the same rows. Features are scaled by the
largest l2 norm of the training rows, so points at radius 1 and beyond are out of
distribution: an honest model answers the class priors there, and OCE measures how far it
is from that.

.. image:: /images/demo.png
   :alt: Posterior maps of a forest and of polycal, and confidence against distance
"""

# sphinx_gallery_thumbnail_path = 'images/demo.png'

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from tqdm import tqdm

from polycal import PAPER, GeodesicCalibrator, ShiftWarning, report
from polycal.metrics import expected_calibration_error, mean_max_confidence, ood_calibration_error
from polycal.simulations import make_gaussian_xor, sample_sphere

RADII = (1, 2, 5)
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"  # told apart by colour-blind readers too


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "digits":
        X, y = load_digits(return_X_y=True)
    else:
        X, y = make_gaussian_xor(5000, random_state=0)
    return X / np.linalg.norm(X, axis=1).max(), y


def fit_models(X, y, bar: tqdm) -> dict:
    """The forest, three peers and polycal twice, all on one 70/30 split."""
    X_fit, X_cal, y_fit, y_cal = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
    forest = RandomForestClassifier(300, random_state=0, n_jobs=-1).fit(X_fit, y_fit)
    models = {"forest": forest}
    bar.update()
    for method in ("isotonic", "sigmoid", "temperature"):
        peer = CalibratedClassifierCV(FrozenEstimator(forest), method=method)
        models[method] = peer.fit(X_cal, y_cal)
        bar.update()
    for name, setting in (("polycal PAPER", PAPER), ("polycal", {})):
        model = GeodesicCalibrator(FrozenEstimator(forest), **setting)
        models[name] = model.fit(X_fit, y_fit, X_cal=X_cal, y_cal=y_cal)
        bar.update()
    return models


def table_rows(models, X_test, y_test, priors) -> list[list]:
    rows = []
    spheres = [sample_sphere(1000, X_test.shape[1], r, random_state=r) for r in RADII]
    for name, model in models.items():
        P = model.predict_proba(X_test)
        far = [ood_calibration_error(model.predict_proba(sphere), priors) for sphere in spheres]
        error = float((P.argmax(axis=1) != y_test).mean())
        ece = expected_calibration_error(y_test, P)
        rows.append([name, error, ece, log_loss(y_test, P), *far])
    return rows


def format_table(title: str, rows: list[list]) -> str:
    head = ["", "error", "ECE", "log-loss", *(f"OCE r={r}" for r in RADII)]
    lines = [title, f"{head[0]:<14}" + "".join(f"{h:>10}" for h in head[1:])]
    lines += [f"{row[0]:<14}" + "".join(f"{value:>10.3f}" for value in row[1:]) for row in rows]
    return "\n".join(lines)


def draw(models, X, y, path: Path) -> None:
    """Posterior maps of forest and polycal, and confidence against distance."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    axis = np.linspace(-2, 2, 201)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    fig, axes = plt.subplots(
        1, 3, figsize=(12, 3.9), width_ratios=[1, 1, 1.15], layout="constrained"
    )
    for ax, name in zip(axes[:2], ("forest", "polycal"), strict=True):
        P = models[name].predict_proba(grid)[:, 1].reshape(201, 201)
        image = ax.imshow(P, extent=(-2, 2, -2, 2), origin="lower", cmap="PuOr_r", vmin=0, vmax=1)
        shown = slice(0, 400)
        ax.scatter(*X[shown].T, c=y[shown], cmap="PuOr_r", s=5, edgecolors="k", linewidths=0.2)
        ax.set(title=f"{name}: P(class 1)", xlabel="feature 1", xticks=range(-2, 3))
        ax.set(yticks=range(-2, 3))
    axes[0].set_ylabel("feature 2")
    fig.colorbar(image, ax=axes[:2], shrink=0.85, pad=0.01)
    radii = np.linspace(0.05, 5, 60)
    ax = axes[2]
    styles = {
        "forest": (GREY, "-"),
        "isotonic": (ORANGE, "--"),
        "sigmoid": ("#CC79A7", ":"),
        "polycal": (BLUE, "-"),
    }
    for name, (color, line) in styles.items():
        confidence = [
            mean_max_confidence(
                models[name].predict_proba(sample_sphere(500, 2, r, random_state=0))
            )
            for r in radii
        ]
        width = 2.4 if name == "polycal" else 1.6
        ax.plot(radii, confidence, line, color=color, lw=width, label=name)
    ax.axvline(1, color="k", lw=0.8, ls=(0, (2, 3)))
    ax.text(1.08, 1.035, "training data ends", fontsize=8, va="top")
    ax.axhline(0.5, color="k", lw=0.8)
    ax.text(5, 0.508, "class prior", fontsize=8, ha="right")
    ax.set(title="Confidence against distance", xlabel="distance from the origin")
    ax.set(ylabel="mean highest probability", ylim=(0.45, 1.05), xlim=(0, 5))
    ax.legend(frameon=False, loc="center right", bbox_to_anchor=(1.0, 0.36))
    fig.savefig(path, dpi=130)


def main() -> None:
    warnings.simplefilter("ignore", ShiftWarning)  # rows far from the data are asked on purpose
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo.png"), help="the figure's path")
    parser.add_argument("--report", type=Path, default=Path("demo.html"), help="its path")
    args = parser.parse_args()
    tables = []
    with tqdm(total=12, desc="models", unit="model") as bar:
        for name in ("digits", "Gaussian XOR"):
            X, y = load(name)
            X, X_test, y, y_test = train_test_split(
                X, y, test_size=1 / 3, stratify=y, random_state=0
            )
            models = fit_models(X, y, bar)
            priors = np.bincount(y) / len(y)
            rows = table_rows(models, X_test, y_test, priors)
            tables.append(format_table(f"{name} (random forest, 300 trees)", rows))
    print("\n\n".join(tables))
    draw(models, X, y, args.out)
    print(f"\nLower is better everywhere; OCE is measured on spheres of radius {RADII}.")
    print(f"Figure: {args.out}")
    circle = sample_sphere(300, 2, 2, random_state=0)
    title = "Gaussian XOR, with points at twice the distance of the farthest row"
    report(models["polycal"], X_test, y_test, circle, args.report, title=title)
    print(f"Report on polycal's model, for a browser: {args.report.resolve()}")
    print("Next: the ten lines in README.md, with your own X and y.")


if __name__ == "__main__":
    main()
