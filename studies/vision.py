"""CIFAR-10, CIFAR-100 and SVHN, each in distribution once (Tables 1 and 2 of the paper).

python -m studies.vision --device cuda [--minutes 9] [--ids cifar10] [--encoders lite0 resnet18]

An image classifier is trained on 90 % of the training images of one set; the other 10 % calibrate
every method alike. It is judged on the set's test images, and on three sets that it has never
seen: the other two, and uniform noise. KDN is fitted on the encoder's embeddings, once for each
set and seed, with one setting for all of them. "kdn oe" is the same on the network that
outlier exposure trained, to show that the two go together; no other figure of KDN rests on it.

A cell of stage "train" trains by one loss and keeps the model and what it makes of every image in
the store (a folder beside the data cache, or --store); a cell of stage "score" judges one method
from there, on any machine. With --jobs the scores follow their training in one process. The cells
come in the order of their worth, so --minutes cuts off the
least of them.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax

from benchmarks._protocol import SMALLEST
from polycal import PAPER, GeodesicCalibrator, TorchParent
from polycal._utils.files import atomic_file
from polycal.gate.floor import conformal_floor
from polycal.metrics import (
    auroc,
    expected_calibration_error,
    fpr_at_tpr,
    mean_max_confidence_on_errors,
    ood_calibration_error,
)

from . import _scores, images
from ._encoders import RECIPES, Recipe, make_head, make_model
from ._runner import Cell, Options, Study, main, write_atomically
from ._tabular import recalibrator
from ._training import LOSSES, Images, fast_products, read, to_pixels, train
from ._vision_data import (
    CALIBRATION_SHARE,
    IDS,
    N_NOISE,
    keep,
    load,
    make_problem,
    place_of,
    read_set,
)
from ._vision_report import draw
from .data import cache

ENCODERS = ("lite0", "resnet18")
KDN = {"kdn": {}, "kdn PAPER": PAPER, "kdn oe": {}}
RECALIBRATED = ("isotonic", "sigmoid", "temperature")
DETECTORS = ("energy", "mahalanobis", "knn", "vim")
# False alarms at which the share of rejected images is stated.
LEVELS = (0.01, 0.05)
METHODS = ("parent", *KDN, *RECALIBRATED, "odin", *DETECTORS)
TIMED_ON_CPU = 2000
# What a method starts from; all others from the network that cross-entropy trained.
STARTS_FROM = {"kdn oe": "oe"}
BATCH = 8192  # rows of embeddings in one pass of the head


# ------------------------------------------------------------------------- cells


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ids", nargs="+", choices=IDS, default=list(IDS))
    parser.add_argument("--encoders", nargs="+", choices=[*RECIPES], default=None)
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=list(LOSSES))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--store", type=Path, help="folder of trained models and their outputs")
    parser.add_argument("--compile", action="store_true", help="train by torch.compile")
    parser.add_argument("--share", type=float, default=1.0, help="of the images that training sees")


def chosen_encoders(options: Options) -> list[str]:
    return options.extra.get("encoders") or (["tiny"] if options.quick else list(ENCODERS))


def recipe_of(encoder: str, options: Options) -> Recipe:
    recipe = RECIPES[encoder]
    return replace(recipe, images=round(recipe.images * options.extra.get("share", 1.0)))


def settings(options: Options) -> dict:
    return {
        # All of them, so that choosing encoders does not make other cells of the same ones.
        "recipes": {name: asdict(recipe_of(name, options)) for name in RECIPES},
        "calibration": CALIBRATION_SHARE,
        "noise": N_NOISE,
    }


def cells(options: Options) -> list[Cell]:
    """Seed 0 before the others, the first encoder before the second, cross-entropy first."""
    encoders, losses = chosen_encoders(options), options.extra.get("losses", LOSSES)
    runs = [
        (rep, encoder, loss)
        for rep in options.repeat(3)
        for encoder in encoders
        for loss in losses
        # The other losses are the paper's baselines: one encoder is enough for them.
        if encoder == encoders[0] or loss == "cross-entropy"
    ]
    runs.sort(key=lambda r: (r[0] > 0, r[0] > 0 and r[2] != "cross-entropy", r[1] != encoders[0]))
    found = []
    for rep, encoder, loss in runs:
        for name in options.extra.get("ids", IDS):
            key = {"id": name, "encoder": encoder}
            found.append({"stage": "train", **key, "method": loss, "rep": rep})
            asked = options.extra.get("methods", METHODS)
            methods = [] if loss == "cross-entropy" else [loss]
            methods += [m for m in asked if loss_of(m) == loss]
            found += [{"stage": "score", **key, "method": m, "rep": rep} for m in methods]
    return found


def loss_of(method: str) -> str:
    """The loss of the network that a method judges or starts from."""
    return method if method in LOSSES else STARTS_FROM.get(method, "cross-entropy")


def training_of(cell: Cell) -> str:
    """The training that a cell is, or starts from; its scores follow at once, KDN among the first.

    So a run that is cut off has all figures of what it trained.
    """
    return f"{cell['id']} {cell['encoder']} {loss_of(cell['method'])} {cell['rep']}"


def run(cell: Cell, options: Options) -> list[dict]:
    return (run_training if cell["stage"] == "train" else run_score)(cell, options)


# ---------------------------------------------------------------------- training


def device_name(device: str) -> str:
    return torch.cuda.get_device_name() if device.startswith("cuda") else "CPU"


def run_training(cell: Cell, options: Options) -> list[dict]:
    """Train, read every set, and leave both in the store."""
    problem, loss, device = make_problem(cell, options), cell["method"], options.device
    place = place_of(cell, options, loss)
    place.mkdir(parents=True, exist_ok=True)
    seed = options.seed_of(**cell)
    rows = Images.put(*problem.fit, device)
    outliers = None
    if loss == "oe":
        aside = (
            problem.tests["noise"] if options.quick else images.read_outliers(cache(options.data))
        )
        outliers = to_pixels(aside, device)
    model = make_model(cell["encoder"], problem.n_classes, seed=seed)
    start = _now(device)
    train(
        model,
        rows,
        recipe_of(cell["encoder"], options),
        loss=loss,
        outliers=outliers,
        flip=cell["id"] != "svhn",
        seed=seed,
        compiled=options.extra.get("compile", False),
    )
    seconds = {"train": _now(device) - start}
    with atomic_file(place / "model.pt") as part:
        torch.save(model.state_dict(), part)

    embeddings, logits = {}, {}
    pixels = {"cal": problem.cal[0], **problem.tests}
    whole = loss == "cross-entropy"  # the parent of most methods
    if whole or loss in STARTS_FROM.values():
        embeddings["fit"], logits["fit"] = read(model, rows.x)
    for name, x in pixels.items():
        embeddings[name], logits[name] = read(model, to_pixels(x, device))
    if whole:
        start = _now(device)
        moved = to_pixels(pixels["cal"], device)
        with fast_products():
            magnitude = _scores.choose_magnitude(model, moved)
            for name in pixels:
                found = _scores.odin_logits(model, to_pixels(pixels[name], device), [magnitude])
                logits[f"odin {name}"] = found[0]
        seconds["odin"] = _now(device) - start
    if "fit" in embeddings:
        keep(place, "embeddings.npz", embeddings)
    labels = {"y fit": problem.fit[1], "y cal": problem.cal[1]}
    keep(place, "logits.npz", logits | labels)
    y_test = read_set(f"{cell['id']}_test", options)[1]
    correct = float((logits[cell["id"]].argmax(axis=1) == y_test).mean())
    made = {"accuracy": correct, "device": device_name(device), "seconds": seconds}
    write_atomically(place / "training.json", json.dumps(made))
    found = [{"metric": f"{name} seconds", "value": value} for name, value in seconds.items()]
    found.append({"metric": "accuracy", "value": correct})
    if whole:
        found.append({"metric": "odin magnitude", "value": magnitude})
    return [{**row, "machine": device_name(device)} for row in found]


def _now(device: str) -> float:
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter()


# ----------------------------------------------------------------------- methods


def run_score(cell: Cell, options: Options) -> list[dict]:
    """The figures of one method, from what a training left."""
    method, name = cell["method"], cell["id"]
    place = place_of(cell, options, loss_of(method))
    y_test = read_set(f"{name}_test", options)[1]
    labels = load(place, "logits.npz", "y fit", "y cal")
    priors = np.bincount(labels["y fit"]) / len(labels["y fit"])
    others = [other for other in (*IDS, "noise") if other != name]
    P: dict[str, NDArray] | None
    extra: list[dict] = []
    if method in KDN:
        P, scores, extra = run_kdn(cell, options, place, labels, (name, *others))
    elif method in DETECTORS:
        P, scores = None, detector_scores(method, options, place, labels, ("cal", name, *others))
    else:
        P, scores = probabilities(method, place, labels, ("cal", name, *others))
    rows = []
    if P is not None:
        rows += in_distribution_figures(P[name], y_test)
        rows += [
            {"metric": "oce", "ood": o, "value": ood_calibration_error(P[o], priors)}
            for o in others
        ]
    for label, found in scores.items():
        rows += [{**row, "score": label} for row in rejected(found, name, others)]
        for o in others:
            pair = found[name], found[o]
            rows.append({"metric": "auroc", "score": label, "ood": o, "value": auroc(*pair)})
            rows.append({"metric": "fpr", "score": label, "ood": o, "value": fpr_at_tpr(*pair)})
    return rows + extra


def in_distribution_figures(P: NDArray, y: NDArray) -> list[dict]:
    own = np.maximum(P[np.arange(len(y)), y], SMALLEST)
    found = {
        "accuracy": float((P.argmax(axis=1) == y).mean()),
        "ece": expected_calibration_error(y, P),
        "confidence on errors": mean_max_confidence_on_errors(y, P),
        "log_loss": float(-np.log(own).mean()),
    }
    return [{"metric": metric, "value": value} for metric, value in found.items()]


def rejected(scores: dict[str, NDArray], name: str, others: list[str]) -> list[dict]:
    """Share of each set's images that score below the floor of the calibration images.

    Of the ID set's test images these are the false alarms.
    """
    found = []
    for level in LEVELS:
        floor = conformal_floor(scores["cal"], np.ones(len(scores["cal"])), level)
        for metric, sets in (("false alarms", [name]), ("rejected", others)):
            for ood in sets:
                share = float((scores[ood] < floor).mean())
                row = {"metric": f"{metric} at {level:g}", "value": share}
                found.append(row | ({"ood": ood} if ood != name else {}))
    return found


def probabilities(
    method: str, place: Path, labels: dict, names: tuple[str, ...]
) -> tuple[dict[str, NDArray], dict[str, dict[str, NDArray]]]:
    """Of the network itself, of a recalibrator, or of ODIN; the score is their maximum."""
    prefix = "odin " if method == "odin" else ""
    logits = load(place, "logits.npz", *{"cal", *(prefix + name for name in names)})
    P = {name: softmax(logits[prefix + name].astype(float), axis=1) for name in names}
    scores = {name: p.max(axis=1) for name, p in P.items()}
    if method in RECALIBRATED:
        P_cal = softmax(logits["cal"].astype(float), axis=1)
        change = recalibrator(method, P_cal, labels["y cal"])
        P = {name: change(p) for name, p in P.items()}
        scores = {name: p.max(axis=1) for name, p in P.items()}
    elif method == "odin":
        # The temperature of 1000 is for the score: as a probability it is uniform everywhere.
        scores = {name: _scores.odin_score(logits[prefix + name]) for name in names}
    return P, {"confidence" if method != "odin" else "odin": scores}


def detector_scores(
    method: str, options: Options, place: Path, labels: dict, names: tuple[str, ...]
) -> dict[str, dict[str, NDArray]]:
    if method == "energy":
        logits = load(place, "logits.npz", *names)
        return {method: {name: _scores.energy(logits[name]) for name in names}}
    rows = load(place, "embeddings.npz", "fit", *names)
    score: Any
    if method == "mahalanobis":
        score = _scores.Mahalanobis(rows["fit"], labels["y fit"])
    elif method == "vim":
        logits = load(place, "logits.npz", "fit", *names)
        vim = _scores.VirtualLogit(rows["fit"], logits["fit"])
        return {method: {name: vim(rows[name], logits[name]) for name in names}}
    else:
        k = min(_scores.NEIGHBOUR, len(rows["fit"]))
        score = _scores.Neighbours(rows["fit"], k, options.device)
    return {method: {name: score(rows[name]) for name in names}}


def run_kdn(
    cell: Cell, options: Options, place: Path, labels: dict, names: tuple[str, ...]
) -> tuple[dict[str, NDArray], dict[str, dict[str, NDArray]], list[dict]]:
    """polycal on the kept embeddings; the head is all that it needs of the network."""
    setting, device = KDN[cell["method"]], options.device
    rows = load(place, "embeddings.npz")
    state = torch.load(place / "model.pt", map_location="cpu", weights_only=True)
    weights = {k.removeprefix("head."): v for k, v in state.items() if k.startswith("head.")}
    hidden = tuple(v.shape[0] for k, v in weights.items() if k.endswith("weight"))[:-1]
    head = make_head(rows["fit"].shape[1], int(labels["y fit"].max()) + 1, hidden)
    head.load_state_dict(weights)
    head.to(device).eval()
    _compile_kernels(setting, device)
    n_jobs = 8 if device.startswith("cuda") else None
    model = GeodesicCalibrator(kept_parent(head, device), **setting, n_jobs=n_jobs)
    start = _now(device)
    model.fit(rows["fit"], labels["y fit"], X_cal=rows["cal"], y_cal=labels["y cal"])
    fitted = _now(device)
    P = {names[0]: model.predict_proba(rows[names[0]])}
    answered = _now(device)
    P |= {name: model.predict_proba(rows[name]) for name in names[1:]}
    log_f = {name: model.score_samples(rows[name]) for name in names}
    log_f["cal"] = model.model_.scores.log_f
    confidence = {name: p.max(axis=1) for name, p in P.items()}
    confidence["cal"] = model.predict_proba(rows["cal"]).max(axis=1)
    seconds = {"fit": fitted - start, "predict": answered - fitted}
    if cell["method"] == "kdn":
        seconds["forward"] = forward_seconds(cell, options, state)
    extra = [
        {"metric": f"kdn {k} seconds", "value": v, "machine": device_name(device)}
        for k, v in seconds.items()
    ]
    extra += [
        {"metric": "polytopes", "value": len(model.polytopes_)},
        {"metric": "gamma", "value": model.gamma_},
        {"metric": "false alarms", "value": float((log_f[names[0]] < model.out_floor_).mean())},
    ]
    extra += [
        {"metric": "out", "ood": name, "value": float((log_f[name] < model.out_floor_).mean())}
        for name in names[1:]
    ]
    return P, {"density": log_f, "confidence": confidence}, extra


def forward_seconds(cell: Cell, options: Options, state: dict) -> float:
    """What the embeddings of all images that KDN is fitted on cost: one pass of the network.

    On a CPU, where that takes minutes, of a part of them, as if all took as long.
    """
    problem, device = make_problem(cell, options), options.device
    model = make_model(cell["encoder"], problem.n_classes, seed=0)
    model.load_state_dict(state)
    model.to(device).eval()
    x = np.concatenate([problem.fit[0], problem.cal[0]])
    pixels = to_pixels(x if device.startswith("cuda") else x[:TIMED_ON_CPU], device)
    # The first batch of each size chooses its algorithms; the last one is shorter.
    read(model, torch.cat([pixels[:1000], pixels[: len(pixels) % 1000]]))
    start = _now(device)
    read(model, pixels)
    return (_now(device) - start) * len(x) / len(pixels)


def kept_parent(head: torch.nn.Module, device: str) -> TorchParent:
    """A head as the parent of embeddings that are there already."""
    nothing = torch.nn.Identity()
    parent = TorchParent(encoder=nothing, head=head, device=device, batch_size=BATCH)
    return parent.on_embeddings()


def _compile_kernels(setting: dict, device: str) -> None:
    """A toy first, so that no time measures Numba's compiler."""
    X = np.random.default_rng(0).normal(size=(80, 4)).astype(np.float32)
    y = np.arange(80) % 2
    head = make_head(4, 2, (4, 4)).to(device)
    toy = GeodesicCalibrator(kept_parent(head, device), **setting)
    toy.fit(X[:40], y[:40], X_cal=X[40:], y_cal=y[40:]).predict_proba(X)


STUDY = Study("vision", __doc__.splitlines()[0], cells, run, draw, settings, add_flags, training_of)

if __name__ == "__main__":
    raise SystemExit(main(STUDY))
