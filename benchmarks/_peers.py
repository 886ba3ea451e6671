"""The strongest calibrators of other libraries, as functions of a parent's probabilities.

Each takes the probabilities for calibration rows, their labels, and the probabilities for new rows,
and returns those after calibration. `pip install 'polycal[benchmarks]'` brings the libraries.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from importlib.util import find_spec

import numpy as np
from _protocol import SMALLEST
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV

Peer = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
HALF_A_VOTE = 1 / 600
# Strengths of the Dirichlet calibrator's ridge, as scikit-learn's C.
STRENGTHS = (0.01, 0.1, 1.0, 10.0)
FOLDS = 3


def without_zeros(P: np.ndarray, least: float) -> np.ndarray:
    P = np.maximum(P, least)
    return P / P.sum(axis=1, keepdims=True)


def cut_peer(peer: Peer, P_cal: np.ndarray, y_cal: np.ndarray, P: np.ndarray):
    return peer(without_zeros(P_cal, HALF_A_VOTE), y_cal, without_zeros(P, HALF_A_VOTE))


def probmetrics_peer(method: str, P_cal: np.ndarray, y_cal: np.ndarray, P: np.ndarray, **how):
    from probmetrics.calibrators import get_calibrator

    return get_calibrator(method, **how).fit(P_cal, y_cal).predict_proba(P)


def ets_peer(P_cal: np.ndarray, y_cal: np.ndarray, P: np.ndarray):
    """Ensemble temperature scaling."""
    from probmetrics.calibrators.temperature_scaling import ETSCalibrator

    return ETSCalibrator().fit(P_cal, y_cal).predict_proba(P)


def one_against_rest(module: str, name: str, P_cal: np.ndarray, y_cal: np.ndarray, P: np.ndarray):
    """A calibrator of probmetrics for two classes, class by class, normalised."""
    from importlib import import_module

    calibrator = getattr(import_module(f"probmetrics.calibrators.{module}"), name)
    columns = []
    for c in range(P.shape[1]):
        known, new = (np.stack([1 - rows[:, c], rows[:, c]], axis=1) for rows in (P_cal, P))
        found = calibrator().fit(known, (y_cal == c).astype(int)).predict_proba(new)
        columns.append(np.asarray(found, dtype=float)[:, 1])
    return without_zeros(np.clip(np.stack(columns, axis=1), 0.0, 1.0), SMALLEST)


def venn_abers_peer(kind: str, P_cal: np.ndarray, y_cal: np.ndarray, P: np.ndarray):
    from venn_abers import VennAbersCalibrator

    # It divides by the sum over a pair of classes, which is 0 for many rows of a forest.
    P_cal, P = np.maximum(P_cal, SMALLEST), np.maximum(P, SMALLEST)
    rows = {"p_cal": P_cal, "y_cal": y_cal, "p_test": P}
    return VennAbersCalibrator().predict_proba(**rows, va_type=kind)


def beta_peer(P_cal: np.ndarray, y_cal: np.ndarray, P: np.ndarray):
    from betacal import BetaCalibration

    columns = [
        BetaCalibration().fit(P_cal[:, c], (y_cal == c).astype(int)).predict(P[:, c])
        for c in range(P.shape[1])
    ]
    return without_zeros(np.stack(columns, axis=1), SMALLEST)


def dirichlet_peer(P_cal: np.ndarray, y_cal: np.ndarray, P: np.ndarray):
    """Dirichlet calibration: logistic regression on log p, its ridge by cross-validation."""
    known, new = (np.log(without_zeros(rows, HALF_A_VOTE)) for rows in (P_cal, P))
    fewest = np.bincount(y_cal).min()
    if fewest < FOLDS:
        model = LogisticRegression(C=STRENGTHS[1], max_iter=1000)
    else:
        how = {"scoring": "neg_log_loss", "use_legacy_attributes": False, "l1_ratios": (0.0,)}
        model = LogisticRegressionCV(Cs=STRENGTHS, cv=FOLDS, max_iter=1000, **how)
    return model.fit(known, y_cal).predict_proba(new)


LOGISTIC, MIXTURE = (partial(probmetrics_peer, method) for method in ("logistic", "ts-mix"))
EXTRA_PEERS: dict[str, tuple[str, Peer]] = {  # name: (module, function)
    "probmetrics logistic": ("probmetrics", LOGISTIC),
    "probmetrics logistic, cut": ("probmetrics", partial(cut_peer, LOGISTIC)),
    "probmetrics ts-mix": ("probmetrics", MIXTURE),
    "probmetrics ts-mix, cut": ("probmetrics", partial(cut_peer, MIXTURE)),
    "venn-abers": ("venn_abers", partial(venn_abers_peer, "one_vs_one")),
    "venn-abers, rest": ("venn_abers", partial(venn_abers_peer, "one_vs_rest")),
    "betacal": ("betacal", beta_peer),
    "betacal, cut": ("betacal", partial(cut_peer, beta_peer)),
}
# Structured matrix scaling for three and more classes; for two, affine or quadratic in the logit.
AFFINE, QUADRATIC = (
    partial(probmetrics_peer, "logistic-mix", logistic_binary_type=kind)
    for kind in ("affine", "quadratic")
)
STRONG_PEERS: dict[str, tuple[str, Peer]] = EXTRA_PEERS | {
    "matrix scaling, mixture": ("probmetrics", AFFINE),
    "matrix scaling, mixture, cut": ("probmetrics", partial(cut_peer, AFFINE)),
    "matrix scaling, mixture, quadratic": ("probmetrics", QUADRATIC),
    "matrix scaling, mixture, quadratic, cut": ("probmetrics", partial(cut_peer, QUADRATIC)),
    "ETS": ("probmetrics", ets_peer),
    "spline": ("probmetrics", partial(one_against_rest, "splines", "CDFSplineCalibrator")),
    "BBQ": ("netcal", partial(one_against_rest, "binning", "NetcalBBQCalibrator")),
    "Dirichlet": ("sklearn", dirichlet_peer),
}


def installed(peers: dict[str, tuple[str, Peer]]) -> list[str]:
    """Names of the peers whose libraries are there; the others are named on stderr."""
    missing = {name: module for name, (module, _) in peers.items() if not _is_there(module)}
    for name, module in missing.items():
        print(f"{name} is left out: {module} is not installed", file=sys.stderr)
    return [name for name in peers if name not in missing]


def _is_there(module: str) -> bool:
    return find_spec(module) is not None


def answers(
    peers: dict[str, tuple[str, Peer]],
    names: Iterable[str],
    known: tuple[np.ndarray, np.ndarray],
    P: np.ndarray,
) -> dict[str, np.ndarray]:
    """What each of the named peers makes of P; one that fails has no answer, and is named."""
    found = {}
    for name in names:
        try:
            found[name] = np.asarray(peers[name][1](*known, P), dtype=float)
            if not np.isfinite(found[name]).all():
                raise ValueError("probabilities that are not finite")
        except Exception as trouble:  # of a library that is only compared with
            found.pop(name, None)
            print(f"{name} fails: {str(trouble)[:200]}", file=sys.stderr)
    return found
