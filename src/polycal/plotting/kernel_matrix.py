"""Similarity of rows, ordered by class."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .._utils.arrays import Array, Floats, Ints
from .._utils.validation import as_floats
from .style import SEQUENTIAL, model_name, new_axes, require

# Least distance between the names of two classes, as a share of the axis.
APART = 0.045
# A similarity exceeds 1 at most by the rounding of single precision.
ROUNDING = 1e-6


@dataclass(kw_only=True, eq=False, repr=False)
class KernelMatrixDisplay:
    """Kernel matrix with rows sorted by class: blocks show that the kernel separates the classes.

    Make a display with ``from_estimator`` or ``from_predictions``.

    Parameters
    ----------
    matrix : ndarray of shape (n_samples, n_samples)
        Similarity in [0, 1], rows and columns in the order of ``order``.
    order : ndarray of shape (n_samples,)
        Position in the input of each row of ``matrix``: by class, then as given.
    classes : ndarray of shape (n_classes,)
        Class labels, sorted.
    boundaries : ndarray of shape (n_classes + 1,)
        Class k has the rows from boundaries[k] up to, not including, boundaries[k + 1].
    within, between : float
        Mean similarity of two different rows of one class, and of two classes; NaN where there
        are no such pairs.
    name : str
        Name of the model, for the title.

    Attributes
    ----------
    ax_, figure_ : matplotlib objects
        Set by ``plot``.

    Examples
    --------
    >>> from polycal.plotting import KernelMatrixDisplay
    >>> K = [[1.0, 0.1, 0.7], [0.1, 1.0, 0.3], [0.7, 0.3, 1.0]]
    >>> display = KernelMatrixDisplay.from_predictions(K, ["b", "a", "b"])
    >>> display.order, display.boundaries, display.within, display.between
    (array([1, 0, 2]), array([0, 1, 3]), 0.7, 0.2)
    """

    matrix: Floats
    order: Ints
    classes: Array
    boundaries: Ints
    within: float
    between: float
    name: str
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, name: str | None = None
    ) -> Self:
        """Compute the geodesic kernel of a fitted polycal estimator between the rows of X.

        Parameters
        ----------
        estimator : fitted polycal estimator
            Its method ``similarity`` is used.
        X : array-like of shape (n_samples, n_features)
            Rows. Memory grows with the square of their number; a few hundred are enough.
        y : array-like of shape (n_samples,)
            Their labels.
        name : str, default=None
            Name of the model, for the title; the name of its class by default.
        """
        require(estimator, "similarity")
        name = model_name(estimator, name)
        return cls.from_predictions(estimator.similarity(X, X), y, name=name)

    @classmethod
    def from_predictions(cls, K: ArrayLike, y: ArrayLike, *, name: str = "model") -> Self:
        """Sort a given similarity matrix by class.

        Parameters
        ----------
        K : array-like of shape (n_samples, n_samples)
            Similarity in [0, 1] of each pair of rows.
        y : array-like of shape (n_samples,)
            Class of each row, of any sortable type.
        name : str, default="model"
            Name of the model, for the title.
        """
        K = as_floats(K, "K", "the similarity of each pair of rows")
        labels = np.asarray(y)
        if K.ndim != 2 or not K.size or K.shape[0] != K.shape[1]:
            raise ValueError(
                f"K must be square, with at least one row; got shape {K.shape}. Give the "
                "similarity of the rows to themselves: model.similarity(X, X)."
            )
        if labels.shape != (len(K),):
            raise ValueError(
                f"y must hold one class for each of the {len(K)} rows of K; got shape "
                f"{labels.shape}."
            )
        # NaN fails the comparison too.
        if not (K.min() >= 0 and K.max() <= 1 + ROUNDING):
            raise ValueError(
                f"K must lie between 0 and 1; it holds {K.min():.6g} to {K.max():.6g}. Give a "
                "similarity, not a distance."
            )
        classes, codes = np.unique(labels, return_inverse=True)
        order = np.argsort(codes, kind="stable")
        matrix, codes = K[np.ix_(order, order)], codes[order]
        same = codes[:, None] == codes
        return cls(
            matrix=matrix,
            order=order,
            classes=classes,
            boundaries=np.searchsorted(codes, np.arange(len(classes) + 1)),
            within=_mean(matrix[same & ~np.eye(len(K), dtype=bool)]),
            between=_mean(matrix[~same]),
            name=name,
        )

    def plot(self, ax: Any = None, *, colorbar: bool = True) -> Self:
        """Draw the matrix, with a line between classes.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        colorbar : bool, default=True
            Whether to draw a colour bar.

        Returns
        -------
        self : object
            This display, with its axes and figure.
        """
        self.ax_ = ax = new_axes(ax, (5.8, 5.0))
        self.figure_ = ax.figure
        n_rows = len(self.matrix)
        image = ax.imshow(
            self.matrix,
            cmap=SEQUENTIAL,
            vmin=0,
            vmax=1,
            extent=(0, n_rows, n_rows, 0),
            interpolation="nearest",
        )
        for edge in self.boundaries[1:-1]:
            ax.axhline(edge, color="white", lw=0.8)
            ax.axvline(edge, color="white", lw=0.8)
        at, names = self._ticks()
        ax.set(
            xlabel="class of the column", ylabel="class of the row", yticks=at, yticklabels=names
        )
        ax.set_xticks(at, names, rotation=45 if max(map(len, names)) > 3 else 0)
        ax.tick_params(length=0)
        ax.set_title(
            f"{self.name}: mean similarity\n"
            f"{self.within:.2f} within classes, {self.between:.2f} between",
            fontsize="medium",
        )
        if colorbar:
            self.figure_.colorbar(image, ax=ax, label="similarity", shrink=0.85)
        return self

    def _ticks(self) -> tuple[list[float], list[str]]:
        """Middle and name of each class, without names that would overlap the one before."""
        at: list[float] = []
        names: list[str] = []
        middles = (self.boundaries[:-1] + self.boundaries[1:]) / 2
        for middle, label in zip(middles.tolist(), self.classes, strict=True):
            if not at or middle - at[-1] >= APART * len(self.matrix):
                at.append(middle)
                names.append(str(label))
        return at, names


def _mean(values: Floats) -> float:
    return float(values.mean()) if values.size else float("nan")
