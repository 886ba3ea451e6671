"""The vision studies in tiny form: data files, order and resuming of cells, claims."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from studies import _vision_report, image_simulation, images, vision
from studies._runner import Options, main, read_table

pytest.importorskip("torch")
QUICK = Options(quick=True, extra={"losses": ("cross-entropy", "oe"), "ids": ("cifar10",)})


# -------------------------------------------------------------------------- data


@pytest.fixture
def small_sets(monkeypatch, tmp_path):
    """Two sets of few images, as a user has them."""
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (30, 32, 32, 3), dtype=np.uint8)
    y = np.arange(30) % 10
    np.savez(tmp_path / "svhn_test.npz", x=x, y=y)
    big = np.repeat(np.repeat(x[:8], 2, axis=1), 2, axis=2)  # 64 x 64, equal in blocks
    files = []
    for picture in big:
        buffer = io.BytesIO()
        image.fromarray(picture).save(buffer, "PNG")  # lossless in the place of JPEG
        files.append(buffer.getvalue())
    offsets = np.cumsum([0, *map(len, files)])
    classes = np.array(["n01443537", "n02666196", "n02814533", "n12267677"])
    blob = np.frombuffer(b"".join(files), dtype=np.uint8)
    labels = np.arange(8) % 4
    np.savez(tmp_path / "tinyimagenet.npz", jpeg=blob, offsets=offsets, y=labels, classes=classes)
    monkeypatch.setattr(images, "SIZES", {"svhn_test": 30, "tinyimagenet": 8})
    return tmp_path, x, y


def test_packed_parts_hold_every_pixel(small_sets, monkeypatch, tmp_path):
    folder, x, y = small_sets
    monkeypatch.setattr(images, "PER_MOSAIC", 11)
    lines = images.pack(folder, tmp_path / "parts", megabytes=0.05)
    parts = sorted((tmp_path / "parts").glob("part*"))
    assert len(parts) == len(lines) > 1
    together = tmp_path / "together"
    together.mkdir()
    for path in (tmp_path / "parts").glob("*/*"):
        path.rename(together / path.name)
    assert len(list(together.glob("svhn_test-*.npz"))) == 3
    again, labels = images.read("svhn_test", together)
    assert_array_equal(again, x)
    assert_array_equal(labels, y)
    # What is packed is cut again without a loss, and imported.
    images.pack(together, tmp_path / "second", megabytes=50)
    assert_array_equal(images.read("svhn_test", tmp_path / "second" / "part0")[0], x)
    assert images.import_folder(together, tmp_path / "cache") == [
        "taken   svhn_test",
        "taken   tinyimagenet",
    ]
    assert_array_equal(images.read("svhn_test", tmp_path / "cache")[0], x)


def test_outliers_leave_out_what_the_id_sets_show(small_sets):
    folder, x, _ = small_sets
    # Goldfish (an animal) and beach wagon are shared; abacus and acorn are not.
    assert_array_equal(images.read_outliers(folder), x[[1, 3, 5, 7]])


def test_wrong_files_are_refused(small_sets, tmp_path):
    folder, x, y = small_sets
    np.savez(folder / "svhn_test.npz", x=x[:20], y=y[:20])
    with pytest.raises(ValueError, match="svhn_test must hold 30 images; got 20"):
        images.read("svhn_test", folder)
    lines = images.import_folder(folder, tmp_path / "cache")
    assert lines[0].startswith("refused svhn_test: svhn_test must hold 30 images")
    with pytest.raises(SystemExit, match="holds no image set svhn_test"):
        images.read("svhn_test", tmp_path / "nowhere")
    with pytest.raises(SystemExit, match="holds none of"):
        images.import_folder(tmp_path / "nowhere", tmp_path / "cache")


# ------------------------------------------------------------------------- cells


def test_cells_come_in_the_order_of_their_worth():
    cells = vision.cells(Options())
    training = [c for c in cells if c["stage"] == "train"]
    runs = [(c["rep"], c["encoder"], c["method"]) for c in training[::3]]
    losses = ["cross-entropy", "oe", "focal", "dual focal", "acet"]
    assert runs[:6] == [*((0, "lite0", m) for m in losses), (0, "resnet18", "cross-entropy")]
    assert runs[6:10] == [
        (1, "lite0", "cross-entropy"),
        (2, "lite0", "cross-entropy"),
        (1, "resnet18", "cross-entropy"),
        (2, "resnet18", "cross-entropy"),
    ]
    assert {m for _, _, m in runs[10:]} == set(losses[1:])
    # Each score comes right after the training that it needs.
    place = {tuple(c.values()): i for i, c in enumerate(cells)}
    for c in cells:
        if c["stage"] == "score":
            start = "oe" if c["method"] == "kdn oe" else "cross-entropy"
            loss = c["method"] if c["method"] in losses else start
            before = place["train", c["id"], c["encoder"], loss, c["rep"]]
            after = place[tuple(c.values())] - before
            assert 0 < after <= (2 if c["method"] == "kdn" else len(vision.METHODS))
            assert vision.training_of(c) == vision.training_of(cells[before])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vision")
    arguments = ["--quick", "--reps", "1", "--ids", "cifar10", "--share", "0.3"]
    arguments += ["--losses", "cross-entropy", "oe"]
    arguments += ["--out", str(folder / "out"), "--store", str(folder / "store")]
    assert main(vision.STUDY, arguments) == 0
    return folder, arguments


def test_every_method_has_every_figure(finished):
    folder, _ = finished
    frame = read_table(folder / "out")
    scored = frame[frame["stage"] == "score"]
    assert set(scored["method"]) == {*vision.METHODS, "oe"}
    for method, own in scored.groupby("method"):
        detection = own[own["metric"] == "auroc"]
        assert set(detection["ood"]) == {"cifar100", "svhn", "noise"}
        assert detection["value"].between(0, 1).all()
        has_probabilities = method not in vision.DETECTORS
        assert (own["metric"] == "ece").sum() == has_probabilities
        assert (own["metric"] == "oce").sum() == 3 * has_probabilities
        for level in vision.LEVELS:
            rejected = own[own["metric"] == f"rejected at {level:g}"]
            assert set(rejected["ood"]) == {"cifar100", "svhn", "noise"}
            assert rejected["value"].between(0, 1).all()
    parent = scored[(scored["method"] == "parent") & (scored["metric"] == "accuracy")]["value"]
    trained = frame[(frame["stage"] == "train") & (frame["metric"] == "accuracy")]
    assert parent.item() == pytest.approx(trained["value"].iloc[0], abs=0.01)
    assert parent.item() > 0.4  # chance is 0.25; a small network may lose a class


def test_shares_rejected_are_those_below_the_floor_of_the_calibration_images():
    """By hand: of 199 images at most one in a hundred new ones is below the second lowest."""
    scores = {"cal": np.arange(199.0), "here": np.arange(-1.0, 9.0), "there": np.zeros(4)}
    found = {
        (r["metric"], r.get("ood")): r["value"] for r in vision.rejected(scores, "here", ["there"])
    }
    assert found == {
        ("false alarms at 0.01", None): 0.2,
        ("rejected at 0.01", "there"): 1.0,
        ("false alarms at 0.05", None): 1.0,
        ("rejected at 0.05", "there"): 1.0,
    }


def test_scores_run_elsewhere_from_what_a_training_left(finished, tmp_path):
    """A machine without the images of training, and without its cells, repeats every score."""
    folder, _ = finished
    (place,) = (p for p in (folder / "store").iterdir() if "cross-entropy" in p.name)
    assert {p.name for p in place.iterdir()} == {
        "model.pt",
        "embeddings.npz",
        "logits.npz",
        "training.json",
    }
    with np.load(place / "logits.npz") as kept:
        assert kept["cal"].dtype == np.float16
        assert len(kept["y fit"]) == 432
        assert len(kept["y cal"]) == 48
    assert json.loads((place / "training.json").read_text())["device"] == "CPU"
    options = Options(quick=True, extra={"store": folder / "store"})
    before = {p.stem: json.loads(p.read_text()) for p in (folder / "out" / "cells").iterdir()}
    for method in ("temperature", "kdn", "mahalanobis"):
        cell = {"stage": "score", "id": "cifar10", "encoder": "tiny", "method": method, "rep": 0}
        (known,) = (c["rows"] for c in before.values() if c["cell"] == cell)
        again = vision.run(cell, options)
        for a, b in zip(again, known, strict=True):
            if "seconds" not in a["metric"]:
                assert a["value"] == pytest.approx(b["value"], nan_ok=True)
    away = Options(quick=True, extra={"store": tmp_path})
    with pytest.raises(FileNotFoundError, match="run the cell that makes it first"):
        vision.run(cell, away)


def test_a_second_start_runs_nothing(finished, monkeypatch):
    folder, arguments = finished
    monkeypatch.setattr(vision, "run", lambda cell, options: 1 / 0)
    study = vision.replace(vision.STUDY, run=vision.run)
    assert main(study, arguments) == 0
    names = {p.name for p in (folder / "out").iterdir()}
    assert names >= {"tables.md", "claims.md", "vision_tiny.png"}


def test_rows_to_calibrate_are_shared_by_all_methods():
    cell = {"stage": "train", "id": "svhn", "encoder": "tiny", "method": "oe", "rep": 1}
    first = vision.make_problem(cell, QUICK)
    second = vision.make_problem(cell | {"method": "focal", "encoder": "lite0"}, QUICK)
    assert_array_equal(first.cal[0], second.cal[0])
    other = vision.make_problem(cell | {"rep": 2}, QUICK)
    assert not np.array_equal(first.cal[0], other.cal[0])
    assert_array_equal(np.bincount(first.cal[1]), [12, 12, 12, 12])


# ------------------------------------------------------------------------ report


def toy_frame(kdn_oce=0.1, kdn_auroc=0.95):
    """Two methods, one ID set, three OOD sets, two seeds that differ by 0.02."""
    figures = {
        "parent": {"accuracy": 0.9, "ece": 0.05, "confidence on errors": 0.8},
        "kdn": {"accuracy": 0.897, "ece": 0.01, "confidence on errors": 0.6},
    }
    pairs = {"parent": (0.5, 0.9), "kdn": (kdn_oce, kdn_auroc), "knn": (None, 0.94)}
    rows = []
    for rep in (0, 1):
        for method, (oce, auroc) in pairs.items():
            key = {"stage": "score", "id": "cifar10", "encoder": "resnet18", "rep": rep}
            key |= {"method": method}
            for metric, value in figures.get(method, {}).items():
                rows.append({**key, "metric": metric, "value": value})
            for ood in ("cifar100", "svhn", "noise"):
                score = {"kdn": "density", "knn": "knn"}.get(method, "confidence")
                rows.append({**key, "metric": "auroc", "ood": ood, "score": score, "value": auroc})
                if method == "kdn":  # its other score must not count
                    rows.append({**rows[-1], "score": "confidence", "value": 0.1})
                if oce is not None:
                    value = oce + 0.02 * rep
                    rows.append({**key, "metric": "oce", "ood": ood, "value": value})
    return pd.DataFrame(rows)


def verdicts(frame):
    """By the words before the first comma; two where several claims share them."""
    found = {}
    for claim in _vision_report.find_claims(frame):
        first, *rest = claim.says.split(" (")[0].split(",")
        found[f"{first},{rest[0]}" if first in found else first] = claim
    return found


def test_claims_follow_the_figures():
    found = verdicts(toy_frame())
    assert all(claim.holds for claim in found.values())
    assert len(found) == 7
    assert "0.30 points" in found["accuracy of the parent kept"].found
    assert "on 3 of 3 pairs" in found["lowest OCE of all methods"].found
    assert "kdn 95.00, knn 94.00, parent 90.00" in found["ResNet-18"].found
    assert not verdicts(toy_frame(kdn_oce=0.6))["lowest OCE of all methods"].holds
    more = toy_frame()
    kdn, parent = (more[more["method"] == m] for m in ("kdn", "parent"))
    more = pd.concat([more, kdn.assign(method="kdn oe"), parent.assign(method="oe")])
    claim = verdicts(more)["lowest OCE of all methods, on a network that trained with outliers"]
    assert claim.holds
    assert "on 3 of 3 pairs; mean 0.110, oe alone 0.510" in claim.found
    worse = verdicts(toy_frame(kdn_auroc=0.93))
    assert worse["AUROC above that of the parent's confidence"].holds
    assert not worse["AUROC at least that of the best method that used no outliers"].holds
    assert not worse["ResNet-18"].holds


def test_time_is_a_ratio_to_one_pass_of_the_network(tmp_path):
    frame = toy_frame()
    row = {"stage": "score", "id": "cifar10", "encoder": "resnet18", "method": "kdn", "rep": 0}
    parts = {"fit": 1.0, "predict": 0.5, "forward": 2.0}
    rows = [{**row, "metric": f"kdn {k} seconds", "value": v} for k, v in parts.items()]
    whole = pd.concat([frame, pd.DataFrame(rows).assign(machine="a GPU")])
    (claim,) = (c for name, c in verdicts(whole).items() if name.startswith("fit and answers"))
    assert claim.holds
    assert "CIFAR-10 0.75" in claim.found
    text = _vision_report.write_tables(whole, tmp_path).read_text()
    assert "## Seconds on a GPU" in text
    assert "| CIFAR-10 | kdn | 1.00 | 0.50 | 2.00 |" in text


def test_tables_show_mean_deviation_and_the_papers_figure(tmp_path):
    text = _vision_report.write_tables(toy_frame(), tmp_path).read_text()
    assert "| CIFAR-10 | SVHN | OCE | ours | 0.5100 +- 0.0141 | **0.1100 +- 0.0141** |" in text
    assert "| CIFAR-10 | SVHN | OCE | paper | 0.87 | 0.01 |" in text
    assert "Mean +- deviation over 2 seed(s)." in text


def test_the_papers_tables_are_whole():
    paper = pd.read_csv(_vision_report.PAPER_TABLE, keep_default_na=False)
    assert len(paper) == 9 * (3 * 3 + 9 * 3)
    means = paper[paper["metric"] == "oce"].groupby("method")["value"].mean()
    assert means.idxmin() == "kdn"


# -------------------------------------------------------------- image simulation


def test_image_simulation_in_tiny_form(tmp_path, monkeypatch):
    shifts = {name: values[::5] for name, values in image_simulation.SHIFTS.items()}
    shifts |= {name: np.append(shifts[name], image_simulation.HOME[name]) for name in shifts}
    shifts = {name: np.unique(values) for name, values in shifts.items()}
    monkeypatch.setattr(image_simulation, "SHIFTS", shifts)
    size = {"n_images": 120, "n_test": 20, "epochs": 2, "channels": 2, "pool": 8}
    monkeypatch.setattr(image_simulation, "settings", lambda options: size)
    study = vision.replace(image_simulation.STUDY, settings=lambda options: size)
    assert main(study, ["--out", str(tmp_path), "--reps", "1"]) == 0
    frame = read_table(tmp_path)
    shown = frame[frame["metric"] == "confidence"]
    assert len(shown) == 3 * sum(map(len, shifts.values()))
    assert shown["value"].between(0.5, 1).all()
    assert (tmp_path / "image_simulation.svg").exists()


def test_the_cnn_of_the_repetition_that_learned_nothing_learns():
    """Seed 0, repetition 4, a quarter of its images and passes: no node dies."""
    import torch

    seed = Options().seed_of(rep=4)
    X, y = image_simulation.make_shape_images(1000, random_state=seed)
    encoder, head = image_simulation.make_cnn(3, 4, seed)
    net = torch.nn.Sequential(encoder, head)
    image_simulation.train_cnn(net, X, y, 5, seed, "cpu")
    with torch.no_grad():
        on = (head[0](encoder(torch.as_tensor(X))) > 0).float().mean(dim=0)
        error = (net(torch.as_tensor(X)).argmax(dim=1).numpy() != y).mean()
    assert on.min() > 0
    assert error < 0.45


def test_intensity_scales_what_the_cnn_sees():
    """Pixels 0 to 255 in; at twice the intensity the convolution doubles, and black stays so."""
    import torch

    encoder, _ = image_simulation.make_cnn(2, 4, seed=0)
    assert encoder(torch.zeros(1, 100, 100)).abs().max() == 0
    one = image_simulation.shifted("intensity", 100.0, 3, seed=0)
    two = image_simulation.shifted("intensity", 200.0, 3, seed=0)
    with torch.no_grad():
        low, high = encoder(torch.tensor(one)), encoder(torch.tensor(two))
    assert low.shape == (3, 2 * 24 * 24)
    np.testing.assert_allclose(high, 2 * low, rtol=1e-5)
