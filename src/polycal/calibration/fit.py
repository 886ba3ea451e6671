"""The fit of a model: from labelled rows and a parent to a ``FittedModel``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._utils.arrays import Array, Floats, Ints
from .._utils.validation import n_bytes
from ..core.execution import Execution
from ..core.reading import LabelledRows, Reading
from ..gate.bandwidth import GeodesicBandwidth, PolytopeBandwidth
from ..gate.floor import (
    LEVELS,
    CalibrationScores,
    affordable_level,
    cautious_floor,
    mixture_losses,
    without_excess,
)
from ..gate.gate import DirectionGate, Gate, GaussianGate, GeodesicGate
from ..parents import Adapter
from ..posterior.fit import (
    CalibrationLabels,
    fit_pooled,
    fit_with_gamma,
    log_proba_without_own,
    refit_through_gate,
)
from ..posterior.posterior import Posterior, mixture
from ..posterior.votes import PolytopeVotes, QueryVotes
from . import guards
from .fitted_model import EXACT_PLANS, FittedModel
from .folds import (
    N_PARTS,
    CalibrationFold,
    OwnRows,
    check_class_sizes,
    concatenated,
    cross_fit_splits,
    cross_fitted_folds,
    groups_of,
    holdout_folds,
    holdout_split,
    out_of_bag_folds,
    read_rows,
    stratified_parts,
)
from .kept_rows import keep_rows, with_fit_rows
from .reference_set import ReferenceSet, ReferenceSettings
from .stream_start import StreamStart

# With 20 trees, about one row in 10,000 is in every bootstrap sample: it has no out-of-bag tree.
TREES_FOR_OUT_OF_BAG = 20
# Share of trees that see none of a row's group, mean over the rows; without groups it is 0.37.
LEAST_OUT_OF_BAG = 0.3

# Level and floor of alpha, from the log-losses by floor, the scores and the verdict's level.
Caution = Callable[[Callable[[float], Floats], CalibrationScores, float], tuple[float, float]]


@dataclass(frozen=True)
class Options:
    """The parameters of a calibrator, with objects in place of strings."""

    reference: ReferenceSettings
    gate: type[GeodesicGate | GaussianGate]
    use_votes: bool  # whether the posterior uses the votes of labelled rows
    pooled: bool  # whether the posterior pools the parent with the votes
    gamma: float | None  # None: chosen
    floor: float | None  # None: from the calibration rows
    confidence: float | None  # that the false-alarm bound holds for this model
    false_alarm: float | None  # None: chosen on the calibration rows
    caution: Caution  # how the level of alpha's floor is found
    by_ece: bool
    calibration: Any  # "auto", "holdout", "oob", "cv", a number of parts or a splitter
    calibration_size: float
    random_state: Any

    @property
    def may_stream(self) -> bool:
        """Whether a stream, which samples, can go on from such a fit."""
        return self.reference.sample_modes is not False

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], n_classes: int) -> Options:
        """Build from the checked parameters of a calibrator."""
        p = parameters
        euclidean = p["distance"] == "euclidean"
        gate = GeodesicGate if p["gate"] == "geodesic" else GaussianGate
        bandwidth = GeodesicBandwidth if p["bandwidth"] == "geodesic" else PolytopeBandwidth
        by_query = p["posterior"] == "pooled" and not euclidean
        sampled = _sampled(p, gate is GeodesicGate and not euclidean)
        reference = ReferenceSettings(
            votes=QueryVotes if by_query else PolytopeVotes,
            bandwidth=bandwidth(p["regularization"]),
            euclidean=euclidean,
            n_neighbors=p["n_neighbors"] if gate is GeodesicGate else 1,
            match_scores=gate is GeodesicGate and not euclidean,
            fill=p["posterior"] == "kernel" or gate is GaussianGate,
            categorical_features=p["categorical_features"],
            n_classes=n_classes,
            gamma=None if p["gamma"] == "auto" else float(p["gamma"]),
            n_hyperplanes=int(p["n_hyperplanes"]),
            seed=_seed(p["random_state"]),
            sample_modes=sampled,
            sample_planes=sampled,
            memory=n_bytes(p["memory_limit"]),
            directions=gate is GeodesicGate,
        )
        return cls(
            reference=reference,
            gate=gate,
            use_votes=p["posterior"] != "parent",
            pooled=p["posterior"] == "pooled",
            gamma=reference.gamma,
            floor=None if p["floor"] == "auto" else float(p["floor"]),
            false_alarm=None if p["false_alarm"] == "auto" else float(p["false_alarm"]),
            confidence=None if p["confidence"] is None else float(p["confidence"]),
            caution=_one_floor if gate is GaussianGate else _caution(p["caution"]),
            by_ece=p["scoring"] == "ece",
            calibration=p["calibration"],
            calibration_size=p["calibration_size"],
            random_state=p["random_state"],
        )


def fit_model(
    parent: Adapter,
    rows: LabelledRows,
    held: LabelledRows | None,
    classes: Array,
    prior: Floats,
    options: Options,
    execution: Execution,
    weight_unit: float | None = None,
    fit_parameters: dict[str, Any] | None = None,
    grouped: bool = False,
) -> FittedModel:
    """Fit the parent (unless it is fitted), its reference set, the posterior and the gate.

    ``held`` are calibration rows that the user gave. Weights in ``rows`` have mean 1;
    ``weight_unit`` is the factor to the user's weights, None where the user gave none.
    ``fit_parameters`` go to each fit of the parent. ``grouped`` says that the user gave groups.
    """
    # The reference set, and the calibration rows with their neighbours in it.
    found = calibrate(parent, rows, held, classes, options, execution, weight_unit, fit_parameters)
    n_rows = len(rows) + (0 if held is None else len(held))
    model = conclude(found, n_rows, prior, options, execution)
    if parent.is_fitted:
        votes = None
        if model.posterior.n_votes and isinstance(model.reference.votes, QueryVotes):
            votes = _votes(found.folds, replace(execution, device=found.parent.gpu))
        guards.warn_of_memory(parent, rows, held, classes, model.reference, found.folds, votes)
        if options.may_stream and not grouped:
            model = replace(model, start=_start(found, n_rows, options, weight_unit or 1.0))
    return model


def _start(found: Calibration, n_rows: int, options: Options, weight_unit: float) -> StreamStart:
    """What is kept of a fit, so that more rows may be added to it."""
    assert found.rows is not None
    assert found.reading is not None
    n_held = n_rows - len(found.rows)
    first = len(found.rows) if found.plan == "given" else 0
    how = options.reference, weight_unit
    return StreamStart.of(
        found.reference, found.reading, found.rows, n_held, first, found.folds, *how
    )


def conclude(
    found: Calibration, n_rows: int, prior: Floats, options: Options, execution: Execution
) -> FittedModel:
    """Fit the posterior and the gate on scored calibration rows; ``n_rows`` are all rows."""
    reference, folds = found.reference, found.folds
    execution = replace(execution, device=found.parent.gpu)
    y = concatenated(folds, lambda fold: fold.rows.y)
    weight = concatenated(folds, lambda fold: fold.rows.weight)
    parent_proba = concatenated(folds, lambda fold: fold.reading.proba)
    new_weight = _new_weight(folds)
    n_independent = len(y) if new_weight is None else weight.sum() / new_weight
    known = (parent_proba, reference.votes.prior, n_rows, n_independent, execution.device)
    labels = CalibrationLabels(y, weight, *known)

    # The posterior pi.
    votes: Floats | None = None
    witnesses: tuple[int, ...] = (1,)
    if options.use_votes and isinstance(reference.votes, QueryVotes):
        votes, witnesses = _votes(folds, execution), tuple(reference.witnesses.values())
    if options.use_votes and votes is None:
        posterior = fit_with_gamma(
            partial(_votes_on_grid, folds, execution=execution),
            labels,
            prior,
            pooled=options.pooled,
            gamma=options.gamma,
            by_ece=options.by_ece,
        )
        reference = reference.with_gamma(posterior.gamma, prior, execution)
        folds = [fold.with_gamma(posterior.gamma, prior, execution) for fold in folds]
        votes, witnesses = _votes(folds, execution), (1, 1)
    else:
        gamma = options.gamma if options.use_votes else None
        posterior = fit_pooled(votes, witnesses, labels, prior, gamma)

    # The gate: score, floor and trust weight.
    by_similarity = not options.reference.euclidean
    gate_inputs = [fold.gate_input(execution.n_jobs) for fold in folds]
    fitted_on = (gate_inputs, weight, new_weight)
    kind = options.gate if reference.directions is None else DirectionGate
    gate: GeodesicGate | GaussianGate | DirectionGate
    gate, log_f = kind.fit(reference.votes.n_samples, by_similarity, *fitted_on)

    def judged(posterior: Posterior) -> tuple[CalibrationScores, Floats]:
        """Scores of the calibration rows, and pi of their own classes, under their own shares."""
        known = replace(posterior, prior=posterior.fitted_prior)
        log_pi = known.log_proba(parent_proba, votes, execution.n_jobs)
        classes = None if isinstance(gate, GaussianGate) else y  # the paper has one floor
        scores = CalibrationScores(
            gate.lifted(log_f, known.lift(log_pi)),
            weight,
            new_weight,
            options.confidence,
            classes,
        )
        return scores, np.exp(log_pi[np.arange(len(y)), y])

    def alpha(scores: CalibrationScores, floor: float) -> Floats:
        return replace(gate, log_floor=floor).alpha(scores.log_f)

    scores, own = judged(posterior)
    level = options.false_alarm or LEVELS[0]
    floor = scores.near_floor(level) if options.floor is None else options.floor
    # A parent without leaves or units may be right as it is.
    believe_parent = votes is not None and "kernel" not in reference.witnesses
    weighed = (votes, witnesses, labels, alpha(scores, floor))
    posterior = refit_through_gate(posterior, *weighed, believe_parent)
    scores, own = judged(posterior)
    if found.own is not None:
        usual = _scores(gate, posterior, found.own.folds, execution)
        final = _scores(gate, posterior, [found.own.whole], execution)
        scores = without_excess(scores, usual, final)

    def losses(floor: float) -> Floats:
        return mixture_losses(alpha(scores, floor), own, posterior.fitted_prior[y])

    if options.false_alarm is None:
        level = affordable_level(losses, scores)
    caution, floor = options.caution(losses, scores, level)
    gate = replace(gate, log_floor=floor if options.floor is None else options.floor)
    if options.floor is None:
        guards.warn_of_few_rows(scores, level)
    grouped = None if new_weight is None else concatenated(folds, groups_of)
    part = stratified_parts(y, grouped)
    log_pi = log_proba_without_own(posterior, *weighed, believe_parent, part)
    probabilities = mixture(gate.alpha(scores.log_f), log_pi, posterior.prior)
    kept = keep_rows(folds, found.features(), scores.log_f, probabilities)
    if found.plan in EXACT_PLANS and found.rows is not None and found.reading is not None:
        judges = gate, posterior, execution
        kept = with_fit_rows(kept, reference, found.reading, found.rows, *judges)
    reference = reference.with_tables()
    return FittedModel(
        found.parent, reference, posterior, gate, scores, level, caution, found.plan, kept
    )


@dataclass(frozen=True)
class Calibration:
    """A fitted parent, its reference set, and the rows that it is calibrated on."""

    plan: str  # one of PLANS
    parent: Adapter
    reference: ReferenceSet
    folds: list[CalibrationFold]
    own: OwnRows | None  # what tells scores by the folds from scores by the reference set
    # that the parent was fitted on, and what it computes for them; None where they are not held
    rows: LabelledRows | None = None
    reading: Reading | None = None

    def features(self) -> Floats:
        """Features of the calibration rows, as the parent itself sees them, encoded."""
        if self.plan in EXACT_PLANS or self.rows is None or self.reading is None:
            return concatenated(self.folds, lambda fold: fold.X)
        ids = concatenated(self.folds, lambda fold: fold.rows.ids)
        features = self.reading.take(np.searchsorted(self.rows.ids, ids)).features
        return self.reference.table.encode(features)


def calibrate(
    parent: Adapter,
    rows: LabelledRows,
    held: LabelledRows | None,
    classes: Array,
    options: Options,
    execution: Execution,
    weight_unit: float | None,
    fit_parameters: dict[str, Any] | None = None,
) -> Calibration:
    """Fit the parent, build its reference set, and score the calibration rows."""
    plan = "given" if held is not None else choose_plan(parent, options, rows, weight_unit)
    if held is None:
        check_class_sizes(rows, classes)
    if plan == "holdout":
        rows, held = holdout_split(rows, options.calibration_size, options.random_state)

    def fit(some: LabelledRows) -> Adapter:
        weight = None if weight_unit is None else weight_unit * some.weight
        return parent.fit(some.X, some.y, classes, weight, **(fit_parameters or {}))

    fitted = parent if parent.is_fitted else fit(rows)
    execution = replace(execution, device=fitted.gpu)
    settings, own = options.reference, None
    reading = read_rows(fitted, rows, execution)
    if plan == "oob":
        # Sampled paths go through all trees, and a row is out of bag in a third of them.
        if settings.sampling(reading.modes, by_planes=False) is not None:
            plan = _without_bags(options)
        if plan == "oob":
            settings = replace(settings, sample_modes=False)
    if held is not None:
        reference, folds = holdout_folds(fitted, reading, rows, held, settings, execution)
    elif plan == "oob":
        reference, folds = out_of_bag_folds(fitted, reading, rows, settings, execution)
    else:
        splitter = N_PARTS if isinstance(options.calibration, str) else options.calibration
        splits = cross_fit_splits(rows, classes, splitter, options.random_state)
        parents = (fit, reading)
        reference, folds, own = cross_fitted_folds(*parents, rows, splits, settings, execution)
    return Calibration(plan, fitted, reference, folds, own, rows, reading)


def choose_plan(
    parent: Adapter, options: Options, rows: LabelledRows, weight_unit: float | None
) -> str:
    """What the parameter ``calibration`` means here: "holdout", "oob" or "cv"."""
    calibration = options.calibration
    bagged = not parent.is_fitted and parent.has_out_of_bag
    plan = calibration if calibration in ("auto", "holdout", "oob") else "cv"
    if plan == "auto":
        if parent.is_fitted:
            return "holdout"
        # The first steps of a Pipeline are fitted on all rows, so that out-of-bag rows are not new
        # to them: it has no n_estimators, and "auto" does not choose "oob".
        enough = getattr(parent.estimator, "n_estimators", 0) >= TREES_FOR_OUT_OF_BAG
        # Rows of large weight are in the sample of nearly every tree, so few trees are left.
        even = getattr(parent.estimator, "class_weight", None) in (None, "balanced_subsample")
        # Rows of a group are out of bag only in trees that saw none of the group.
        apart = rows.groups is None or out_of_bag_share(rows.groups) >= LEAST_OUT_OF_BAG
        plain = weight_unit is None and apart
        return "oob" if bagged and enough and even and plain else "cv"
    if parent.is_fitted and plan != "holdout":
        raise ValueError(
            f"calibration={_quoted(calibration)} needs a parent that polycal fits itself; this one "
            "is fitted already. Give it unfitted, or give X_cal and y_cal, rows that are new to "
            'it. (calibration="holdout" is for an X of which it has seen no row.)'
        )
    if plan == "oob" and not bagged:
        raise ValueError(
            'calibration="oob" needs a forest or a bagging of trees with bootstrap=True; got '
            f'{parent.estimator!r}. Use calibration="cv".'
        )
    return plan


def _without_bags(options: Options) -> str:
    """The plan in place of "oob" where the search by the trees is better sampled.

    Where the user has chosen "oob", the search is exact.
    """
    if options.calibration == "auto":
        return "cv"
    if options.reference.sample_modes:
        raise ValueError(
            'search="sampled" goes through all trees, so that no row is out of bag on a path: '
            'calibration="oob" needs search="exact". Use that, or calibration="cv" or "holdout".'
        )
    return "oob"


def out_of_bag_share(groups: Ints) -> float:
    """Mean share of bootstrap samples in which no row of a row's group is."""
    return float(np.exp(-np.bincount(groups)[groups].astype(float)).mean())


def _quoted(calibration: Any) -> str:
    return f'"{calibration}"' if isinstance(calibration, str) else repr(calibration)


def _votes(folds: list[CalibrationFold], execution: Execution) -> Floats:
    """Votes for the rows of all folds, shape (n_sources, n_rows, n_classes)."""
    return np.concatenate([fold.votes(execution) for fold in folds], axis=1)


def _votes_on_grid(folds: list[CalibrationFold], gammas: Floats, execution: Execution) -> Floats:
    """Votes for the rows of all folds, shape (n_gammas, n_rows, n_classes)."""
    return np.concatenate([fold.votes_on_grid(gammas, execution) for fold in folds], axis=1)


def _seed(random_state: Any) -> int:
    """That hyperplanes are drawn with; without a random state they are always the same."""
    if random_state is None:
        return 0
    return int(check_random_state(random_state).randint(2**31))


def _scores(
    gate: Gate, posterior: Posterior, folds: list[CalibrationFold], execution: Execution
) -> CalibrationScores:
    """Scores of the rows of all folds."""
    folds = [fold.with_gamma(posterior.gamma, posterior.prior, execution) for fold in folds]
    proba = concatenated(folds, lambda fold: fold.reading.proba)
    votes = _votes(folds, execution) if posterior.n_votes else None
    log_f = concatenated(folds, lambda fold: gate.log_f(fold.gate_input(execution.n_jobs)))
    lift = posterior.lift(posterior.log_proba(proba, votes, execution.n_jobs))
    return CalibrationScores(
        gate.lifted(log_f, lift), concatenated(folds, lambda fold: fold.rows.weight)
    )


def _new_weight(folds: list[CalibrationFold]) -> float | None:
    """Weight of a new row with its group: the mean over the groups of the calibration rows."""
    groups = [fold.rows.groups for fold in folds if fold.rows.groups is not None]
    if not groups:
        return None
    weight = concatenated(folds, lambda fold: fold.rows.weight)
    return float(weight.sum() / len(np.unique(np.concatenate(groups))))


def _sampled(parameters: dict[str, Any], by_similarity: bool) -> bool | None:
    """What the parameter ``search`` means; None: sampled where that is cheaper.

    Sampled votes have several exponents, and sampled neighbours are the nearest by K.
    """
    search = str(parameters["search"])
    possible = (
        by_similarity and parameters["posterior"] != "kernel" and parameters["gamma"] == "auto"
    )
    if search == "sampled" and not possible:
        raise ValueError(
            'search="sampled" needs posterior="pooled" or "parent", gate="geodesic", '
            'distance="geodesic" and gamma="auto". Use these, or search="exact".'
        )
    if search == "auto" and possible:
        return None
    return search == "sampled"


def _caution(caution: Any) -> Caution:
    """What the parameter ``caution`` means."""
    if caution == "auto":
        return cautious_floor
    return lambda losses, scores, level: (float(caution), scores.near_floor(float(caution)))


def _one_floor(
    losses: Callable[[float], Floats], scores: CalibrationScores, level: float
) -> tuple[float, float]:
    """The paper's one floor: that of the verdict is alpha's too."""
    return level, scores.floor(level)
