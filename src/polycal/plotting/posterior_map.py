"""Map of the posterior of a model of two features."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .._utils.arrays import Array, Floats, Ints
from .._utils.labels import class_columns
from .._utils.optional import optional
from .._utils.validation import count, not_negative
from ..metrics.input import check_probabilities
from .style import (
    COLORS,
    HATCHES,
    MARKERS,
    SEQUENTIAL,
    SMALL,
    check_table,
    far_proba,
    model_name,
    new_axes,
    require,
)

# Least lead of a class that has an outline, as a share of the range from 1 / n_classes to 1.
LEAD = 0.02


@dataclass(kw_only=True, eq=False, repr=False)
class PosteriorMapDisplay:
    """Probabilities over a grid of two features: of one class, or of the most probable one.

    Make a display with ``from_estimator`` or ``from_predictions``.

    Parameters
    ----------
    x0, x1 : ndarray of shape (n_0,) and (n_1,)
        Values of the first and of the second feature on the grid.
    proba : ndarray of shape (n_1, n_0, n_classes)
        Probabilities; row j, column i is at (x0[i], x1[j]).
    classes : ndarray of shape (n_classes,)
        Class labels, in the order of the last axis of ``proba``.
    points : ndarray of shape (n_points, 2) or None
        Rows to draw over the map.
    point_classes : ndarray of shape (n_points,) or None
        Column of ``classes`` of each point.
    feature_names : tuple of two str
        Labels of the axes.
    name : str
        Name of the model, for the title.

    Attributes
    ----------
    ax_, figure_ : matplotlib objects
        Set by ``plot``.

    Examples
    --------
    >>> from polycal.plotting import PosteriorMapDisplay
    >>> P = [[1.0, 0.0], [0.8, 0.2], [0.5, 0.5], [0.1, 0.9]]
    >>> display = PosteriorMapDisplay.from_predictions([0, 1], [0, 1], P)
    >>> display.proba[1, 0]  # at x0 = 0, x1 = 1
    array([0.5, 0.5])
    """

    x0: Floats
    x1: Floats
    proba: Floats
    classes: Array
    points: Floats | None
    point_classes: Ints | None
    feature_names: tuple[str, str]
    name: str
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        resolution: int = 100,
        margin: float = 0.5,
        feature_names: tuple[str, str] | None = None,
        name: str | None = None,
    ) -> Self:
        """Query a fitted classifier on a grid around the rows of X.

        Parameters
        ----------
        estimator : fitted classifier
            It has ``predict_proba`` and ``classes_``.
        X : array-like of shape (n_samples, 2)
            Rows that the grid covers.
        y : array-like of shape (n_samples,), default=None
            Their labels; the rows are drawn as points when it is given.
        resolution : int, default=100
            Number of grid points along each feature.
        margin : float, default=0.5
            How far the grid extends beyond X on each side, as a share of its range.
        feature_names : tuple of two str, default=None
            Labels of the axes; the column names of a data frame by default.
        name : str, default=None
            Name of the model, for the title; the name of its class by default.
        """
        require(estimator, "predict_proba", "classes_")
        count(resolution=resolution)
        not_negative(margin=margin)
        names = feature_names or tuple(map(str, getattr(X, "columns", ("feature 1", "feature 2"))))
        make = type(X) if hasattr(X, "columns") else None
        rows = check_table(X, 2)
        low, high = rows.min(axis=0), rows.max(axis=0)
        room = margin * np.where(high > low, high - low, 1.0)
        axes = np.linspace(low - room, high + room, resolution)
        grid = np.stack(np.meshgrid(*axes.T), axis=-1).reshape(-1, 2)
        P = far_proba(
            estimator, grid if make is None else make(dict(zip(X.columns, grid.T, strict=True)))
        )
        return cls.from_predictions(
            axes[:, 0],
            axes[:, 1],
            P,
            classes=estimator.classes_,
            X=None if y is None else rows,
            y=y,
            feature_names=(names[0], names[1]),
            name=model_name(estimator, name),
        )

    @classmethod
    def from_predictions(
        cls,
        x0: ArrayLike,
        x1: ArrayLike,
        P: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        feature_names: tuple[str, str] = ("feature 1", "feature 2"),
        name: str = "model",
    ) -> Self:
        """Make a map of given probabilities.

        Parameters
        ----------
        x0, x1 : array-like of shape (n_0,) and (n_1,)
            Increasing, evenly spaced values of the two features, two or more.
        P : array-like of shape (n_1 * n_0, n_classes)
            Probabilities at (x0[0], x1[0]), (x0[1], x1[0]), ...: the first feature varies fastest.
        classes : array-like of shape (n_classes,), default=None
            Names of the columns of P; 0 to n_classes - 1 by default.
        X, y : array-like of shape (n_points, 2) and (n_points,), default=None
            Points to draw, and their classes. Both or neither.
        feature_names : tuple of two str
            Labels of the axes.
        name : str, default="model"
            Name of the model, for the title.
        """
        x0, x1 = _check_axis(x0, "x0"), _check_axis(x1, "x1")
        P = check_probabilities(P)
        if len(P) != len(x0) * len(x1):
            raise ValueError(
                f"P must hold one row for each of the {len(x1)} x {len(x0)} points of the grid; "
                f"it holds {len(P)}. Let x0 vary fastest: np.meshgrid(x0, x1)."
            )
        names = np.arange(P.shape[1]) if classes is None else np.asarray(classes)
        if names.shape != (P.shape[1],):
            raise ValueError(
                f"classes must name each of the {P.shape[1]} columns of P; got shape "
                f"{names.shape}. Give the model's classes_."
            )
        if (X is None) != (y is None):
            raise ValueError("X and y are needed together: give both or neither.")
        points = None if X is None else check_table(X, 2)
        labels = np.asarray(y)
        if points is not None and labels.shape != (len(points),):
            raise ValueError(
                f"y must hold one class for each of the {len(points)} rows of X; got shape "
                f"{labels.shape}."
            )
        return cls(
            x0=x0,
            x1=x1,
            proba=P.reshape(len(x1), len(x0), -1),
            classes=names,
            points=points,
            point_classes=None if points is None else class_columns(labels, names),
            feature_names=feature_names,
            name=name,
        )

    def plot(self, ax: Any = None, *, class_label: Any = None, colorbar: bool = True) -> Self:
        """Draw the map.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        class_label : label of one class, default=None
            Class whose probability is drawn. None draws the most probable class in its own
            colour and hatch, paler where it is less probable: white is 1 / n_classes. Where its
            lead is below 2 % of the range up to 1, it has no outline and no hatch.
        colorbar : bool, default=True
            Whether to draw a colour bar.

        Returns
        -------
        self : object
            This display, with its axes and figure.
        """
        column = None if class_label is None else self._column(class_label)
        if column is None and len(self.classes) > len(COLORS):
            raise ValueError(
                f"class_label must be given for more than {len(COLORS)} classes, because there are "
                f"no more distinct colours; there are {len(self.classes)} classes."
            )
        self.ax_ = ax = new_axes(ax, (5.6, 4.8))
        self.figure_ = ax.figure
        if column is None:
            self._draw_most_probable(ax, colorbar)
        else:
            self._draw_one(ax, column, colorbar)
        ax.set(
            xlim=self.x0[[0, -1]],
            ylim=self.x1[[0, -1]],
            xlabel=self.feature_names[0],
            ylabel=self.feature_names[1],
        )
        return self

    def _column(self, label: Any) -> int:
        found = np.flatnonzero(self.classes == label)
        if not len(found):
            raise ValueError(
                f"class_label must be one of the classes {self.classes.tolist()}; got {label!r}."
            )
        return int(found[0])

    @property
    def _image(self) -> dict[str, Any]:
        """Pixels are centred on the points of the grid."""
        half = (self.x0[1] - self.x0[0]) / 2, (self.x1[1] - self.x1[0]) / 2
        extent = (
            self.x0[0] - half[0],
            self.x0[-1] + half[0],
            self.x1[0] - half[1],
            self.x1[-1] + half[1],
        )
        return {"extent": extent, "origin": "lower", "aspect": "auto", "interpolation": "nearest"}

    def _draw_one(self, ax: Any, column: int, colorbar: bool) -> None:
        P = self.proba[:, :, column]
        image = ax.imshow(P, cmap=SEQUENTIAL, vmin=0, vmax=1, **self._image)
        label = f"probability of class {self.classes[column]}"
        if colorbar:
            self.figure_.colorbar(image, ax=ax, label=label)
        if self.points is not None:
            self._draw_points(ax, ["white" if k == column else "black" for k in self._codes])
            self._legend(ax, ax.get_legend_handles_labels()[0])
        self._title(ax, self.name if colorbar else f"{self.name}: {label}")

    def _draw_most_probable(self, ax: Any, colorbar: bool) -> None:
        cm, colors = optional("matplotlib.cm", "plot"), optional("matplotlib.colors", "plot")
        patches = optional("matplotlib.patches", "plot")
        best, highest = self.proba.argmax(axis=2), self.proba.max(axis=2)
        least = 1 / len(self.classes)
        depth = (highest - least) / (1 - least) if least < 1 else np.ones_like(highest)
        hues = np.array([colors.to_rgb(COLORS[k]) for k in self._codes])
        # White where all classes are equally probable.
        ax.imshow(1 - depth[:, :, None] * (1 - hues[best]), **self._image)
        handles = []
        for k in self._codes:
            here = (best == k) & (depth > LEAD)
            style = {"facecolor": COLORS[k], "edgecolor": "black", "linewidth": 0.5}
            handles.append(
                patches.Patch(label=f"class {self.classes[k]}", hatch=HATCHES[k], **style)
            )
            if not here.any() or here.all():
                continue
            ax.contour(self.x0, self.x1, here, levels=[0.5], colors="black", linewidths=0.7)
            if HATCHES[k]:
                rc = optional("matplotlib", "plot").rc_context({"hatch.linewidth": 0.25})
                with rc:
                    ax.contourf(
                        self.x0,
                        self.x1,
                        here,
                        levels=[0.5, 1.5],
                        colors="none",
                        hatches=[HATCHES[k]],
                    )
        if colorbar:
            scale = cm.ScalarMappable(colors.Normalize(least, 1), "Greys")
            self.figure_.colorbar(scale, ax=ax, label="probability of the most probable class")
        if self.points is not None:
            self._draw_points(ax, COLORS)
        self._legend(ax, handles)
        self._title(ax, self.name)

    @property
    def _codes(self) -> range:
        return range(len(self.classes))

    def _draw_points(self, ax: Any, colors: Any) -> None:
        assert self.points is not None
        for k in self._codes:
            ax.scatter(
                *self.points[self.point_classes == k].T,
                s=14,
                color=colors[k],
                marker=MARKERS[k % len(MARKERS)],
                edgecolors="black" if colors[k] != "black" else "white",
                linewidths=0.5,
                label=f"class {self.classes[k]}",
            )

    def _legend(self, ax: Any, handles: list[Any]) -> None:
        ax.legend(
            handles=handles,
            loc="lower center",
            bbox_to_anchor=(0.5, 1.0),
            ncols=min(4, len(handles)),
            fontsize=SMALL,
            frameon=False,
        )

    def _title(self, ax: Any, title: str) -> None:
        legend = ax.get_legend()
        n_rows = 0 if legend is None else -(-len(legend.get_texts()) // 4)
        ax.set_title(title, pad=8 + 17 * n_rows)


def _check_axis(values: ArrayLike, name: str) -> Floats:
    axis = np.asarray(values, dtype=float)
    steps = np.diff(axis) if axis.ndim == 1 else np.array([])
    # Steps of a linspace differ by rounding only.
    if not len(steps) or not (steps > 0).all() or not np.allclose(steps, steps[0]):
        raise ValueError(
            f"{name} must hold two or more increasing, evenly spaced values; got {values!r}. "
            "Use np.linspace."
        )
    return axis
