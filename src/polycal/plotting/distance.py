"""Confidence against the distance from the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from .._utils.arrays import Floats
from .._utils.validation import as_floats, count
from ..metrics.input import check_priors, check_probabilities
from ..simulations import sample_sphere
from .style import COLORS, LINES, check_table, far_proba, model_name, new_axes, require

RADII = tuple(np.linspace(0, 5, 26))


@dataclass(kw_only=True, eq=False, repr=False)
class DistanceDisplay:
    """Mean of the highest probability against the distance from the data's centre.

    The confidence of a well calibrated model falls to the highest class prior. Make a display with
    ``from_estimator`` or ``from_predictions``.

    Parameters
    ----------
    distance : ndarray of shape (n_distances,)
        Increasing.
    confidence : dict of str to ndarray of shape (n_distances,)
        For each model the mean highest probability of the points at each distance.
    prior : float or None
        Highest prior of a class.
    data_end : float or None
        Distance of the farthest row of the data.

    Attributes
    ----------
    ax_, figure_ : matplotlib objects
        Set by ``plot``.

    Examples
    --------
    >>> from polycal.plotting import DistanceDisplay
    >>> P = [[1.0, 0.0], [0.8, 0.2], [0.5, 0.5]]
    >>> display = DistanceDisplay.from_predictions([1.0, 1.0, 2.0], P)
    >>> display.distance, display.confidence["model"]
    (array([1., 2.]), array([0.9, 0.5]))
    """

    distance: Floats
    confidence: dict[str, Floats]
    prior: float | None
    data_end: float | None
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        radii: ArrayLike = RADII,
        n_points: int = 200,
        standardize: bool = True,
        prior: ArrayLike | None = None,
        random_state: Any = 0,
    ) -> Self:
        """Query fitted classifiers at random points around the mean of X.

        Parameters
        ----------
        estimator : fitted classifier, or dict of name to fitted classifier
            Models with ``predict_proba``.
        X : array-like of shape (n_samples, n_features)
            Rows of the data, for instance the training rows.
        radii : array-like of shape (n_distances,), default=0, 0.2, ..., 5
            Distances, as multiples of the distance of the farthest row of X.
        n_points : int, default=200
            Points at each distance; all models get the same ones.
        standardize : bool, default=True
            Measure each feature in its standard deviations (a constant feature in the mean of all
            deviations), so that the points are on an ellipsoid. False: on a sphere.
        prior : array-like of shape (n_classes,), default=None
            True class probabilities; those of the first model with ``priors_`` by default.
        random_state : int, RandomState instance or None, default=0
            Seed of the random points.
        """
        models = _by_name(estimator, model_name(estimator, None), "estimator")
        for model in models.values():
            require(model, "predict_proba")
        count(n_points=n_points)
        parts = as_floats(radii, "radii", "a distance for each point of the curve")
        if parts.ndim != 1 or not len(parts) or not (np.diff(parts) > 0).all() or parts[0] < 0:
            raise ValueError(f"radii must be increasing and not negative; got {radii!r}.")
        rows = check_table(X)
        centre, scale = rows.mean(axis=0), np.ones(rows.shape[1])
        if standardize:
            scale = rows.std(axis=0)
            if not scale.any():
                raise ValueError("X must hold rows that differ; all its rows are equal.")
            scale = np.where(scale > 0, scale, scale.mean())
        end = np.linalg.norm((rows - centre) / scale, axis=1).max()
        if not end > 0:
            raise ValueError("X must hold rows that differ; all its rows are equal.")
        rng = check_random_state(random_state)
        spheres = [sample_sphere(n_points, len(centre), r * end, random_state=rng) for r in parts]
        points = centre + scale * np.concatenate(spheres)
        if hasattr(X, "columns"):
            points = type(X)(dict(zip(X.columns, points.T, strict=True)))
        if prior is None:
            prior = next((m.priors_ for m in models.values() if hasattr(m, "priors_")), None)
        return cls.from_predictions(
            np.repeat(parts, n_points),
            {name: far_proba(model, points) for name, model in models.items()},
            prior=prior,
            data_end=1.0,
        )

    @classmethod
    def from_predictions(
        cls,
        distance: ArrayLike,
        P: ArrayLike | Mapping[str, ArrayLike],
        *,
        prior: ArrayLike | None = None,
        data_end: float | None = None,
    ) -> Self:
        """Average given probabilities over rows of equal distance.

        Parameters
        ----------
        distance : array-like of shape (n_samples,)
            Distance of each row; rows of equal distance make one point. Round it to make groups.
        P : array-like of shape (n_samples, n_classes), or dict of name to such
            Predicted probabilities.
        prior : array-like of shape (n_classes,), default=None
            True class probabilities; the highest is drawn as a line.
        data_end : float, default=None
            Distance where the data ends, drawn as a line.
        """
        tables = {
            name: check_probabilities(table) for name, table in _by_name(P, "model", "P").items()
        }
        values = as_floats(distance, "distance", "one number for each row of P")
        for name, table in tables.items():
            if values.shape != (len(table),):
                raise ValueError(
                    f"distance must hold one number for each of the {len(table)} rows of P "
                    f"({name}); got shape {values.shape}."
                )
        if not np.isfinite(values).all() or values.min() < 0:
            raise ValueError("distance must be finite and not negative in each row.")
        at, group = np.unique(values, return_inverse=True)
        n_rows = np.bincount(group)
        n_classes = next(iter(tables.values())).shape[1]
        return cls(
            distance=at,
            confidence={
                name: np.bincount(group, table.max(axis=1)) / n_rows
                for name, table in tables.items()
            },
            prior=None if prior is None else float(check_priors(prior, n_classes).max()),
            data_end=data_end,
        )

    def plot(self, ax: Any = None) -> Self:
        """Draw a line for each model, the highest prior, and the end of the data.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        self : object
            This display, with its axes and figure.
        """
        self.ax_ = ax = new_axes(ax, (6.4, 4.0))
        self.figure_ = ax.figure
        for i, (name, values) in enumerate(self.confidence.items()):
            style = {"color": COLORS[i % len(COLORS)], "ls": LINES[i % len(LINES)]}
            ax.plot(self.distance, values, lw=2, label=name, **style)
        if self.prior is not None:
            ax.axhline(self.prior, color="black", lw=0.8, label=f"highest prior ({self.prior:.2f})")
        lowest = min([float(v.min()) for v in self.confidence.values()] + [self.prior or 1.0])
        xlabel = "distance from the data's centre"
        if self.data_end is not None:
            line = (0, (2, 3))
            ax.axvline(self.data_end, color="black", lw=1, ls=line, label="farthest data row")
            if self.data_end == 1:
                xlabel += " (farthest row = 1)"
        ax.set(
            xlabel=xlabel,
            ylabel="mean highest probability",
            title="Confidence against distance",
            ylim=(max(0.0, lowest - 0.05), 1.02),
        )
        ax.margins(x=0)
        ax.spines[["top", "right"]].set_visible(False)
        # Beside the axes, because the lines may cross any part of them.
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
        return self


def _by_name(given: Any, name: str, argument: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        return {name: given}
    if not given:
        raise ValueError(f"{argument} must hold at least one model; got an empty dict.")
    return {str(key): value for key, value in given.items()}
