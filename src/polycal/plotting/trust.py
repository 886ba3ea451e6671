"""In-distribution weight of rows in and out of distribution."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .._utils.arrays import Floats
from .._utils.validation import count
from ..metrics import auroc
from ..metrics.calibration import equal_width
from ..metrics.input import check_scores
from .style import BLUE, ORANGE, legend_above, model_name, new_axes, require


@dataclass(kw_only=True, eq=False, repr=False)
class TrustDisplay:
    """Histogram of the in-distribution weight: rows in distribution against rows out of it.

    Make a display with ``from_estimator`` or ``from_predictions``.

    Parameters
    ----------
    bin_edges : ndarray of shape (n_bins + 1,)
        Edges of bins of equal width from 0 to 1; a bin includes its right edge, the first also 0.
    id_share, ood_share : ndarray of shape (n_bins,)
        Share of the rows of each kind in each bin; each sums to 1.
    n_id, n_ood : int
        Number of rows of each kind.
    id_trusted, ood_trusted : float
        Share of the rows of each kind with a weight above 1/2, where the model counts more than
        the prior.
    auroc : float
        Probability that a row in distribution has a higher weight than one out of it; ties count
        one half. It measures how well the weights separate the two kinds; rows out of distribution
        may still have a weight above 1/2.
    name : str
        Name of the model, for the title.

    Attributes
    ----------
    ax_, figure_ : matplotlib objects
        Set by ``plot``.

    Examples
    --------
    >>> from polycal.plotting import TrustDisplay
    >>> display = TrustDisplay.from_predictions([1.0, 0.9, 0.4, 1.0], [0.0, 0.2], n_bins=2)
    >>> display.id_share, display.ood_share, display.auroc
    (array([0.25, 0.75]), array([1., 0.]), 1.0)
    """

    bin_edges: Floats
    id_share: Floats
    ood_share: Floats
    n_id: int
    n_ood: int
    id_trusted: float
    ood_trusted: float
    auroc: float
    name: str
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, X_ood: Any, *, n_bins: int = 20, name: str | None = None
    ) -> Self:
        """Compute the weights of both kinds of rows with a fitted polycal estimator.

        Parameters
        ----------
        estimator : fitted polycal estimator
            Its method ``in_distribution`` is used.
        X : array-like of shape (n_id, n_features)
            Rows in distribution, which the estimator was not fitted on.
        X_ood : array-like of shape (n_ood, n_features)
            Rows out of distribution.
        n_bins : int, default=20
            Number of bins.
        name : str, default=None
            Name of the model, for the title; the name of its class by default.
        """
        require(estimator, "in_distribution")
        for kind, rows in (("X", X), ("X_ood", X_ood)):
            if hasattr(rows, "__len__") and not len(rows):
                raise ValueError(
                    f"{kind} must hold at least one row; it is empty. Give rows of both kinds to "
                    "compare."
                )
        return cls.from_predictions(
            estimator.in_distribution(X),
            estimator.in_distribution(X_ood),
            n_bins=n_bins,
            name=model_name(estimator, name),
        )

    @classmethod
    def from_predictions(
        cls,
        id_scores: ArrayLike,
        ood_scores: ArrayLike,
        *,
        n_bins: int = 20,
        name: str = "model",
    ) -> Self:
        """Compute the histograms of given weights.

        Parameters
        ----------
        id_scores, ood_scores : array-like of shape (n_id,) and (n_ood,)
            Weights in [0, 1], as ``in_distribution`` returns them; higher for rows that are more
            in distribution.
        n_bins : int, default=20
            Number of bins.
        name : str, default="model"
            Name of the model, for the title.
        """
        count(n_bins=n_bins)
        inside, outside = (
            _check_weights(id_scores, "id_scores"),
            _check_weights(ood_scores, "ood_scores"),
        )

        def shares(values: Floats) -> Floats:
            return np.bincount(equal_width(values, n_bins), minlength=n_bins) / len(values)

        return cls(
            bin_edges=np.arange(n_bins + 1) / n_bins,
            id_share=shares(inside),
            ood_share=shares(outside),
            n_id=len(inside),
            n_ood=len(outside),
            id_trusted=float((inside > 0.5).mean()),
            ood_trusted=float((outside > 0.5).mean()),
            auroc=auroc(inside, outside),
            name=name,
        )

    def plot(self, ax: Any = None) -> Self:
        """Draw both histograms, side by side in each bin.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        self : object
            This display, with its axes and figure.
        """
        self.ax_ = ax = new_axes(ax, (6.0, 4.0))
        self.figure_ = ax.figure
        left, half = self.bin_edges[:-1], np.diff(self.bin_edges) / 2
        bars = {"width": half, "align": "edge", "edgecolor": "black", "linewidth": 0.5}
        # Rows out of distribution on the left of each bin, where their weight should be.
        ax.bar(
            left,
            self.ood_share,
            color=ORANGE,
            hatch="////",
            label=f"OOD ({self.n_ood} rows, {self.ood_trusted:.0%} above 0.5)",
            **bars,
        )
        ax.bar(
            left + half,
            self.id_share,
            color=BLUE,
            label=f"ID ({self.n_id} rows, {self.id_trusted:.0%} above 0.5)",
            **bars,
        )
        ax.plot([], [], " ", label=f"AUROC {self.auroc:.3f}")
        ax.set(
            xlim=(-0.01, 1.01),
            ylim=(0, 1.05 * max(self.id_share.max(), self.ood_share.max())),
            xlabel="in-distribution weight (0: class prior, 1: model)",
            ylabel="share of the rows",
        )
        ax.spines[["top", "right"]].set_visible(False)
        handles, _ = ax.get_legend_handles_labels()  # lines first, then bars
        title = f"{self.name}: rows in (ID) and out of (OOD) distribution"
        legend_above(ax, title, 3, [*handles[1:], handles[0]])
        return self


def _check_weights(values: ArrayLike, name: str) -> Floats:
    scores = check_scores(values, name)
    if scores.min() < 0 or scores.max() > 1:
        raise ValueError(
            f"{name} must lie between 0 and 1; it holds {scores.min():.6g} to {scores.max():.6g}. "
            "Give what in_distribution returns, not log densities."
        )
    return scores
