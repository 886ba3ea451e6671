"""Trunk's two Gaussians in more and more dimensions (Fig. 2 B).

python -m studies.trunk [--parents forest] [--jobs 2] [--device cuda] [--quick]

5000 rows with 1 to 100 features, of which the i-th tells the classes apart by 2 / sqrt(i) standard
deviations, divided by their largest norm; 70 % fit the parent, 30 % calibrate. The parent and four
variants of polycal give error and Hellinger distance to the true posterior on 5000 new rows, and
mean highest probability on these rows and on 1000 points of the sphere of radius 20.

Dimensions and number of rows are those of the published code, where the paper gives none.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import norm as normal

from polycal.metrics import hellinger_distance, mean_max_confidence
from polycal.simulations import make_trunk, sample_sphere, true_posterior

from ._claims import Claim, write_claims
from ._runner import Cell, Options, Study, main
from ._variants import (
    METHODS,
    MODELS,
    PARENTS,
    SETTINGS,
    STYLES,
    add_parents_flag,
    ask,
    chosen_parents,
    fit_variants,
    median_of,
    parent_settings,
)

DIMENSIONS = (1, 2, 5, 10, 20, 50, 100)
RADIUS = 20.0
PRIOR = 0.5
MARGIN = 0.005  # a smaller difference counts as none
TITLES = {
    "error": "error",
    "hellinger": "Hellinger, new rows",
    "confidence_in": "confidence, new rows",
    "confidence_out": f"confidence, sphere of radius {RADIUS:g}",
}


def settings(options: Options) -> dict:
    own = {"n_rows": 5000, "n_test": 5000, "n_sphere": 1000}
    if options.quick:
        own = {"n_rows": 1000, "n_test": 1000, "n_sphere": 200}
    return {**own, **parent_settings(options)}


def cells(options: Options) -> list[Cell]:
    dimensions = (1, 10, 100) if options.quick else DIMENSIONS
    return [
        {"dimension": dimension, "parent": parent, "rep": rep}
        for rep in options.repeat(10)
        for dimension in dimensions
        for parent in chosen_parents(options)
    ]


def run(cell: Cell, options: Options) -> list[dict]:
    d, sizes = cell["dimension"], settings(options)
    # The same rows for both parents.
    seed = options.seed_of(dimension=d, rep=cell["rep"])
    rng = np.random.RandomState(seed)
    X, y = make_trunk(sizes["n_rows"], d, random_state=rng)
    X_test, y_test = make_trunk(sizes["n_test"], d, random_state=rng)
    norm = np.linalg.norm(X, axis=1).max()
    far = sample_sphere(sizes["n_sphere"], d, RADIUS, random_state=rng)
    truth = true_posterior("trunk", X_test)
    models = fit_variants(
        cell["parent"], X / norm, y, sizes=sizes, seed=seed, device=options.device
    )
    rows = []
    for method, model in models.items():
        P, label = ask(model, X_test / norm)
        values = {
            "error": float((label != y_test).mean()),
            "hellinger": hellinger_distance(P, truth),
            "confidence_in": mean_max_confidence(P),
            "confidence_out": mean_max_confidence(model.predict_proba(far)),
        }
        rows += [{"method": method, "metric": key, "value": v} for key, v in values.items()]
    return rows


def smallest_error(dimension: int) -> float:
    """Of any classifier: Phi(-|mu|)."""
    return float(normal.cdf(-np.sqrt((1 / np.arange(1, dimension + 1)).sum())))


# ------------------------------------------------------------------------ claims


def find_claims(frame: pd.DataFrame) -> list[Claim]:
    """What the paper says of Fig. 2 B, for each parent and setting."""
    claims = []
    for parent in [p for p in PARENTS if (frame["parent"] == p).any()]:
        own = frame[frame["parent"] == parent]
        for setting in SETTINGS:
            model = f"{MODELS[parent]}, {setting}"
            for metric, what in (("error", "error"), ("hellinger", "Hellinger distance")):
                claims.append(_geodesic_wins(own[own["metric"] == metric], setting, model, what))
            for distance in ("geodesic", "euclidean"):
                claims.append(_reaches_prior(own, f"{setting}, {distance}", f"{model}, {distance}"))
            claims.append(_beats_parent(own, f"{setting}, geodesic", f"{model}, geodesic"))
    return claims


def _geodesic_wins(own: pd.DataFrame, setting: str, model: str, what: str) -> Claim:
    """Geodesic minus Euclidean on the same rows: the gap opens, by more than MARGIN.

    At the largest dimension three quarters of the repetitions are to say so.
    """
    table = own.set_index(["dimension", "rep", "method"])["value"].unstack()
    gap = (table[f"{setting}, geodesic"] - table[f"{setting}, euclidean"]).groupby("dimension")
    middle, high = gap.median(), gap.quantile(0.75)
    shown = ", ".join(f"{d}: {value:+.4f}" for d, value in middle.items())
    return Claim(
        f"geodesic beats Euclidean as dimension grows ({what})",
        model,
        f"median of geodesic minus Euclidean by dimension: {shown}",
        bool(high.iloc[-1] < -MARGIN and middle.iloc[-1] < middle.iloc[0] - MARGIN),
    )


def _beats_parent(own: pd.DataFrame, method: str, model: str) -> Claim:
    out = own[own["metric"] == "confidence_out"]
    off = (median_of(out, ["dimension", "method"]) - PRIOR).abs().unstack().sort_index()
    shown = ", ".join(f"{d}: {value:.3f}" for d, value in (PRIOR + off["parent"]).items())
    return Claim(
        f"closer to the prior than the parent at distance {RADIUS:g} in any dimension",
        model,
        f"in {(off[method] < off['parent']).sum()} of {len(off)} dimensions; confidence of the "
        f"parent by dimension: {shown}",
        bool((off[method] < off["parent"]).all()),
    )


def _reaches_prior(own: pd.DataFrame, method: str, model: str) -> Claim:
    far = own[(own["method"] == method) & (own["metric"] == "confidence_out")]
    worst = (far["value"] - PRIOR).abs().max()
    return Claim(
        f"confidence is the prior, 0.5 +- 0.01, at distance {RADIUS:g} in any dimension",
        model,
        f"at the most {worst:.4f} off, over dimensions and repetitions",
        bool(worst <= 0.01),
    )


# ------------------------------------------------------------------------ figures


def draw(frame: pd.DataFrame, folder: Path) -> list[Path]:
    """A row for each parent, a column for each measure, against dimension."""
    from ._figures import method_legend, new_figure, save

    parents = [p for p in PARENTS if (frame["parent"] == p).any()]
    fig, axes = new_figure(len(parents), [1.0] * len(TITLES), height=2.1, width=2.4)
    for row, parent in zip(axes, parents, strict=True):
        row[0].set_ylabel(parent)
        for ax, (metric, title) in zip(row, TITLES.items(), strict=True):
            one = frame[(frame["parent"] == parent) & (frame["metric"] == metric)]
            _draw_curves(ax, one)
            if parent == parents[0]:
                ax.set_title(title)
            if metric.startswith("confidence"):
                ax.axhline(PRIOR, color="black", lw=0.8, ls=":")
                ax.set(ylim=(0.46, 1.03), yticks=[0.5, 0.75, 1.0])
        dimensions = np.array(sorted(frame["dimension"].unique()))
        row[0].plot(dimensions, [smallest_error(d) for d in dimensions], ":", color="black", lw=0.8)
    for ax in axes[-1]:
        ax.set_xlabel("dimensions")
    method_legend(fig, METHODS, STYLES, "parent", "smallest error; prior")
    claims = write_claims(find_claims(frame), folder)
    return [*save(fig, folder / "trunk"), claims]


def _draw_curves(ax, own: pd.DataFrame) -> None:
    for method in METHODS:
        values = own[own["method"] == method].groupby("dimension")["value"]
        middle = values.median()
        ax.plot(middle.index, middle, lw=1.6, ms=3, **STYLES[method])
        edges = values.quantile(0.25), values.quantile(0.75)
        ax.fill_between(middle.index, *edges, color=STYLES[method]["color"], alpha=0.15, lw=0)
    ax.set_xscale("log")
    ax.set_xticks([1, 10, 100], ["1", "10", "100"])


STUDY = Study(
    name="trunk",
    title="Trunk's two Gaussians in more and more dimensions (Fig. 2 B).",
    cells=cells,
    run=run,
    draw=draw,
    settings=settings,
    flags=add_parents_flag,
)

if __name__ == "__main__":
    raise SystemExit(main(STUDY))
