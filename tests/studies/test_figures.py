"""Studies of the paper's figures: parts by hand, tiny cells, and verdicts on made-up tables."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from polycal.metrics import hellinger_distance
from polycal.simulations import make_gaussian_xor, true_posterior
from studies import _variants, kernel_depth, scaling, simulations, trunk
from studies._claims import Claim, write_claims
from studies._networks import NetworkClassifier, make_network, train_network
from studies._runner import Options, main, read_table

torch = pytest.importorskip("torch")
QUICK = Options(quick=True)
TINY = {"n_trees": 10, "hidden": [12, 12], "epochs": 15}


@pytest.fixture(scope="module")
def xor():
    return make_gaussian_xor(400, bounded=True, random_state=0)


def small(settings, **sizes):
    """A study's settings with some of them made smaller."""
    return lambda options: {**settings(options), **sizes}


# ----------------------------------------------------------------------- network


def test_training_depends_on_the_seed_alone(xor):
    before = torch.random.get_rng_state()
    train = partial(train_network, *xor, hidden=(8, 8), epochs=3)
    first, again, other = train(seed=1), train(seed=1), train(seed=2)
    assert all(torch.equal(a, b) for a, b in zip(*map(_weights, (first, again)), strict=True))
    assert not torch.equal(_weights(first)[0], _weights(other)[0])
    assert torch.equal(before, torch.random.get_rng_state())
    start = make_network(xor[0], 2, hidden=(8, 8), seed=1)
    fresh = train_network(*xor, hidden=(8, 8), epochs=0, seed=1)
    assert all(torch.equal(a, b) for a, b in zip(*map(_weights, (start, fresh)), strict=True))


def _weights(network):
    return list(network.parameters())


def test_the_first_layer_takes_standard_scores():
    X = np.array([[1.0, 5.0, 0.0], [3.0, 5.0, 8.0]])  # means 2, 5, 4; sd 1, 0, 4
    scored = torch.tensor([[-1.0, 0.0, -1.0], [1.0, 0.0, 1.0]])
    network = make_network(X, 2, hidden=(4,))
    plain = make_network(X, 2, hidden=(4,), standardize=False)
    assert len(network) == len(plain) + 1
    got = network(torch.as_tensor(X, dtype=torch.float32))
    assert torch.allclose(got, plain(scored), atol=1e-6)


def test_training_ends_when_the_loss_no_longer_falls(xor):
    # Without steps the loss is the same in every epoch: the first is the lowest, then one waits.
    calls = []
    whole = torch.randperm

    def count(*args, **kwargs):
        calls.append(args)
        return whole(*args, **kwargs)

    torch.randperm = count
    try:
        train_network(*xor, hidden=(4,), epochs=50, patience=3, learning_rate=0.0, batch_size=400)
    finally:
        torch.randperm = whole
    assert 4 <= len(calls) < 50


def test_network_learns_and_names_classes_in_order(xor):
    X, y = xor
    names = np.array(["b", "a"])[y]
    module = train_network(X, names, hidden=(50, 50), epochs=60, learning_rate=3e-3)
    model = NetworkClassifier(module, np.unique(names))
    assert (model.predict(X) != names).mean() < 0.1
    with torch.no_grad():
        logits = module(torch.as_tensor(X, dtype=torch.float32)).double().numpy()
    np.testing.assert_allclose(model.predict_proba(X), softmax(logits, axis=1), atol=1e-12)


# ------------------------------------------------------------------- simulations


def test_square_and_packed_maps():
    np.testing.assert_allclose(simulations.square(2.0, 2), [[-1, -1], [1, -1], [-1, 1], [1, 1]])
    P = np.random.default_rng(0).random(50)
    np.testing.assert_allclose(simulations.unpack(simulations.pack(P)), P, atol=0.5 / 255)


def test_simulation_cell_measures_what_it_says(monkeypatch):
    sizes = {"n_rows": 300, "n_test": 150, "n_circle": 20, "grid": 10, **TINY}
    monkeypatch.setattr(simulations, "settings", small(simulations.settings, **sizes))
    cell = {"simulation": "gaussian_xor", "parent": "forest", "rep": 0}
    frame = pd.DataFrame(simulations.run(cell, QUICK))
    value = frame[frame["distance"].isna()].set_index(["method", "metric"])["value"]
    # The forest again, by hand.
    seed = QUICK.seed_of(simulation="gaussian_xor", rep=0)
    rng = np.random.RandomState(seed)
    make = partial(make_gaussian_xor, bounded=True)
    (X, y), (X_test, y_test) = make(300, random_state=rng), make(150, random_state=rng)
    norm = np.linalg.norm(X, axis=1).max()
    X_fit, _, y_fit, _ = train_test_split(X / norm, y, test_size=0.3, stratify=y, random_state=seed)
    forest = RandomForestClassifier(10, random_state=seed).fit(X_fit, y_fit)
    assert value["parent", "error"] == (forest.predict(X_test / norm) != y_test).mean()
    truth = true_posterior("gaussian_xor", X_test)
    by_hand = hellinger_distance(forest.predict_proba(X_test / norm), truth)
    assert value["parent", "hellinger_rows"] == pytest.approx(by_hand)
    # Every variant is there, and far away it is at the prior.
    far = frame[frame["distance"] == 10].set_index("method")["value"]
    assert list(far.index) == list(_variants.METHODS)
    assert far["default, geodesic"] == pytest.approx(0.5, abs=1e-6)
    assert far["parent"] > 0.7
    maps = frame[frame["metric"] == "map"].set_index("method")["map"]
    assert len(simulations.unpack(maps["default, geodesic"])) == simulations.MAP_SIDE**2


def test_ask_gives_the_classes_of_predict(xor):
    X, y = xor
    models = _variants.fit_variants("forest", X, y, sizes=TINY, seed=0, device="cpu")
    far = np.concatenate([X, 50 * X])  # the posterior is the prior there, the class is not
    for model in models.values():
        P, label = _variants.ask(model, far)
        np.testing.assert_array_equal(P, model.predict_proba(far))
        np.testing.assert_array_equal(label, model.predict(far))
    assert (P[len(X) :] == 0.5).all()
    assert 0 < label[len(X) :].mean() < 1


def table_of_simulations(**changed) -> pd.DataFrame:
    """Two simulations, two repetitions; every claim holds unless a value is changed."""
    base = {
        ("parent", "error"): 0.10,
        ("parent", "hellinger"): 0.30,
        ("parent", "hellinger_rows"): 0.30,
    }
    gaps = {"geodesic": 0.0, "euclidean": 0.1}
    for setting, (distance, gap) in product(("paper", "default"), gaps.items()):
        method = f"{setting}, {distance}"
        base |= {
            (method, "error"): 0.105 + gap,
            (method, "hellinger"): 0.1 + gap,
            (method, "hellinger_rows"): 0.1 + gap,
        }
    rows = [
        {"simulation": s, "parent": "forest", "rep": r, "method": m, "metric": k, "value": v}
        for s, r, ((m, k), v) in product(("spiral", "circle"), (0, 1), base.items())
    ]
    rows += [
        {
            "simulation": s,
            "parent": "forest",
            "rep": r,
            "method": m,
            "metric": "confidence",
            "distance": d,
            "value": 0.9 if m == "parent" or d < 2 else 0.5 + changed.get(m, 0.0) * (r == 1),
        }
        for s, r, m, d in product(
            ("spiral", "circle"), (0, 1), _variants.METHODS, simulations.RADII
        )
    ]
    return pd.DataFrame(rows)


def test_simulation_claims_hold_and_fail_where_they_should():
    claims = simulations.find_claims(table_of_simulations())
    assert [c.says for c in claims if not c.holds] == []
    assert len(claims) == 2 * 7 + 1
    # One repetition that stays 0.02 above the prior is enough to fail.
    claims = simulations.find_claims(table_of_simulations(**{"paper, geodesic": 0.02}))
    failed = [c for c in claims if not c.holds]
    assert [(c.model, "0.0200 off" in c.found, "nowhere" in c.found) for c in failed] == [
        ("KDF, paper, geodesic", True, True)
    ]
    reached = next(c for c in claims if c.model == "KDF, default, geodesic" and "prior" in c.says)
    assert "from distance 2 on" in reached.found


# ------------------------------------------------------------------------- trunk


def test_trunk_smallest_error():
    assert trunk.smallest_error(1) == pytest.approx(0.158655, abs=1e-6)  # Phi(-1)
    assert trunk.smallest_error(10) == pytest.approx(0.0436, abs=1e-4)


def table_of_trunk(gaps: tuple[float, float]) -> pd.DataFrame:
    rows = []
    for (d, gap), parent, rep, method in product(
        zip((1, 100), gaps, strict=True), ("forest", "network"), (0, 1), _variants.METHODS
    ):
        low = 0.1 + gap * method.endswith("geodesic")
        out = 0.8 if method == "parent" else 0.505
        values = {"error": low, "hellinger": low, "confidence_in": 0.9, "confidence_out": out}
        key = {"dimension": d, "parent": parent, "rep": rep, "method": method}
        rows += [{**key, "metric": metric, "value": v} for metric, v in values.items()]
    return pd.DataFrame(rows)


def test_trunk_claims():
    assert all(c.holds for c in trunk.find_claims(table_of_trunk((0.01, -0.05))))
    failed = [c for c in trunk.find_claims(table_of_trunk((0.0, 0.05))) if not c.holds]
    assert len(failed) == 8  # error and Hellinger, two settings, two parents
    assert all("100: +0.0500" in c.found for c in failed)
    # A gap below the margin is none.
    assert sum(not c.holds for c in trunk.find_claims(table_of_trunk((0.0, -0.004)))) == 8
    near = table_of_trunk((0.01, -0.05))
    near.loc[(near["method"] == "parent") & (near["dimension"] == 100), "value"] = 0.5
    failed = [c for c in trunk.find_claims(near) if not c.holds]
    assert len(failed) == 4
    assert all("in 1 of 2 dimensions" in c.found for c in failed)


# ------------------------------------------------------------------ kernel depth


def test_mean_kernels_by_hand():
    """Hidden units on for x > 0 and for x > 1; the output follows the first."""
    network = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.ReLU(), torch.nn.Linear(2, 2))
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([[1.0], [1.0]]))
        network[0].bias.copy_(torch.tensor([0.0, -1.0]))
        network[2].weight.copy_(torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
        network[2].bias.copy_(torch.tensor([0.25, 0.0]))
    X, y = np.array([[-1.0], [0.5], [2.0]]), np.array([0, 1, 1])
    # Hidden bits 00, 10, 11: K = 1/2 of (0.5, 2), 1/2 of (-1, 0.5), 0 of (-1, 2).
    # Output bits 10, 01, 01: 1 between the last two, 0 from either to the first.
    means = kernel_depth.mean_kernels(network, X, y)
    assert means == {
        "same": 0.5,
        "different": 0.0,
        "same_hidden": 0.5,
        "different_hidden": 0.25,
    }


def table_of_kernels(kept: float) -> pd.DataFrame:
    """K of depth 1 and 4; trained, the same class keeps the given part of it."""
    rows = []
    for width, (depth, last) in product((10, 100), ((1, False), (4, True))):
        K = {
            ("before", "same"): 0.3 if last else 0.5,
            ("before", "different"): 0.2 if last else 0.4,
            ("after", "same"): 0.5 * kept if last else 0.5,
            ("after", "different"): 0.1,
        }
        for (method, metric), value in K.items():
            key = {"data": "digits", "depth": depth, "width": width, "rep": 0, "method": method}
            rows += [{**key, "metric": metric + s, "value": value} for s in ("", "_hidden")]
    return pd.DataFrame(rows)


def test_kernel_claims():
    assert all(c.holds for c in kernel_depth.find_claims(table_of_kernels(0.9)))
    failed = [c for c in kernel_depth.find_claims(table_of_kernels(0.5)) if not c.holds]
    assert len(failed) == 2
    words = "50% of K at the smallest; before training 60%; holds in 0 of 2 widths alone"
    assert all(words in c.found for c in failed)


# ----------------------------------------------------------------------- scaling


def test_scaling_images_are_784_distinct_features():
    X, y = scaling.make_images(60, seed=0)
    assert X.shape == (60, 784)
    assert len(np.unique(X, axis=0)) == 60
    assert np.bincount(y).tolist() == [30, 30]
    # A circle that no edge cuts has about 314 = pi 10^2 small pixels of 127; noise adds +-14.
    inside = X.sum(axis=1) * scaling.BLOCK**2 / 127
    assert np.median(inside[y == 0]) == pytest.approx(314, abs=20)


def test_growth_and_scaling_claims():
    nodes = np.array([10, 100, 1000, 5000, 10_000])
    assert scaling.growth(pd.Series(0.003 * nodes, index=nodes)) == pytest.approx(1.0)
    rows = []
    for method, n in product(scaling.METHODS, nodes):
        values = {"polytopes": min(n * 10, 10_000), "fit": n / 100, "predict": (n / 1e4) ** 1.5}
        rows += [{"method": method, "nodes": n, "metric": k, "value": v} for k, v in values.items()]
    frame = pd.DataFrame(rows).assign(settings='{"n_rows": 10000}', machine="a toy")
    claims = scaling.find_claims(frame)
    assert [c.holds for c in claims] == [True, True, False, True] * 2
    assert "100.0 s, a toy" in claims[3].found
    fewer = scaling.find_claims(frame[frame["nodes"] < 10_000])
    assert len(fewer) == 6  # nothing is said of 40,000 nodes where they were not run


# --------------------------------------------------------------- from end to end


def test_claims_are_written(tmp_path, capsys):
    claims = [Claim("a", "m", "1.0", True), Claim("b", "m", "2.0", False)]
    text = write_claims(claims, tmp_path).read_text()
    assert text.splitlines()[2:] == ["| a | m | 1.0 | holds |", "| b | m | 2.0 | does not hold |"]
    assert "does not hold: b [m]: 2.0" in capsys.readouterr().out


STUDIES = [
    (simulations, {"n_rows": 100, "n_test": 50, "n_circle": 5, "grid": 6, **TINY}, 4),
    (trunk, {"n_rows": 100, "n_test": 50, "n_sphere": 5, **TINY}, 6),
    (kernel_depth, {"n_rows": 60, "n_test": 40, "epochs": 2}, 12),
    (scaling, {"n_rows": 100, "n_calibrate": 60, "n_predict": 10, "epochs": 1}, 3),
]


@pytest.mark.parametrize(("module", "sizes", "n_cells"), STUDIES)
def test_a_tiny_study_runs_and_draws(module, sizes, n_cells, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    tiny = small(module.settings, **sizes)
    monkeypatch.setattr(module, "settings", tiny)
    two = {name: simulations.MAKERS[name] for name in ("gaussian_xor", "trunk")}
    monkeypatch.setattr(simulations, "MAKERS", two)
    study = replace(module.STUDY, settings=tiny)
    assert main(study, ["--quick", "--out", str(tmp_path)]) == 0
    frame = read_table(tmp_path)
    keys = list(module.cells(QUICK)[0])
    assert len(frame[keys].drop_duplicates()) == n_cells
    assert frame["value"].notna().all()
    assert (tmp_path / "claims.md").read_text().count("hold") >= 5
    pictures = sorted(path.suffix for path in tmp_path.iterdir() if path.suffix in (".png", ".svg"))
    assert pictures.count(".png") == pictures.count(".svg") >= 1
