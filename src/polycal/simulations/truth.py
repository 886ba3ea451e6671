"""The true posterior of a simulation."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax
from sklearn.utils import check_array

from .._utils.arrays import Floats
from .._utils.validation import one_of
from .densities import SIMULATIONS


def true_posterior(name: str, X: ArrayLike) -> Floats:
    """P(Y = k | x) of a simulation, for equally likely classes.

    Parameters
    ----------
    name : {"spiral", "circle", "sinewave", "gaussian_xor", "polynomial", "trunk"}
        The simulation, named as its function without ``make_``.
    X : array-like of shape (n_samples, n_features)
        Points where the posterior is evaluated; two features but for ``"trunk"``.

    Returns
    -------
    posterior : ndarray of shape (n_samples, 2)
        Rows sum to 1; column k is class k.

    Notes
    -----
    The posterior is p(x | k) / (p(x | 0) + p(x | 1)) with the densities that each function states,
    computed in logs. ``"gaussian_xor"``, ``"sinewave"`` and ``"trunk"`` are closed forms. So are
    the others, except for the mass of ``"circle"`` and ``"polynomial"`` in the box, which is
    integrated numerically with an error below 1e-10, and the sum over turns of ``"spiral"``, whose
    omitted terms are below 1e-200. Each value is exact to 1e-9.

    Where both densities are 0, the posterior is not defined and the prior, 0.5, is returned:
    outside the box for ``"circle"``, ``"sinewave"`` and ``"polynomial"``, outside the unit disc
    and at its centre for ``"spiral"``. ``"gaussian_xor"`` and ``"trunk"`` have positive
    densities everywhere.

    Examples
    --------
    >>> from polycal.simulations import true_posterior
    >>> true_posterior("trunk", [[0.0, 0.0], [1.0, 0.0]]).round(3)
    array([[0.5  , 0.5  ],
           [0.881, 0.119]])
    >>> true_posterior("sinewave", [[0.0, 0.5], [0.0, 2.0]])
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    one_of(tuple(SIMULATIONS), name=name)
    simulation = SIMULATIONS[name]
    rows: Floats = check_array(X, dtype=float, input_name="X")
    if simulation.n_columns is not None and rows.shape[1] != simulation.n_columns:
        raise ValueError(
            f"X must have {simulation.n_columns} columns for the {name!r} simulation; it has "
            f"{rows.shape[1]}."
        )
    support = simulation.support(rows)
    posterior = np.full((len(rows), 2), 0.5)
    posterior[support] = softmax(simulation.log_likelihood(rows[support]), axis=1)
    return posterior
