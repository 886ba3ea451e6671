"""Files of format 1: read with equal answers, converted, and refused where they are forged.

``format1.polycal`` is of the first release. The others were written by the last code that wrote
format 1, and are compressed here.
"""

from __future__ import annotations

import copy
import json
import lzma
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal

import polycal
from polycal.core.execution import Execution
from polycal.kernels import reference
from polycal.persistence import AlteredFileError
from polycal.persistence.container import FORMAT, read
from polycal.persistence.format1 import convert_state
from polycal.posterior.votes import PolytopeVotes, QueryVotes
from tests.toys.model_files import assert_answers_or_refuses, change, forged, junk_edits

DATA = Path(__file__).parents[1] / "data"
KINDS = json.loads((DATA / "format1_kinds.json").read_text())
THROUGH_SKOPS = ("network", "votes", "categories")


def unpacked(kind, folder):
    """The file of a model of this kind; skops restores only estimators of its own scikit-learn."""
    if kind in THROUGH_SKOPS:
        ours, theirs = sklearn.__version__.split("."), KINDS[kind]["sklearn"].split(".")
        if ours[:2] != theirs[:2]:
            pytest.skip("the parent in the file is of another scikit-learn")
    path = folder / f"{kind}.polycal"
    path.write_bytes(lzma.decompress((DATA / f"format1_{kind}.polycal.xz").read_bytes()))
    return path


def forged1(path, edit):
    """The file with what ``edit`` makes of it, still of format 1."""
    forged(path, edit)

    def older(manifest, header):
        header["__metadata__"]["format_version"] = "1"

    path.write_bytes(change(path.read_bytes(), older))
    return path


@pytest.fixture
def forest(tmp_path):
    path = tmp_path / "format1.polycal"
    path.write_bytes((DATA / "format1.polycal").read_bytes())
    return path


def test_the_first_format_is_still_read():
    expected = json.loads((DATA / "format1.json").read_text())
    model = polycal.load(DATA / "format1.polycal")
    X = np.array(expected["X"])
    # Processors differ in the last bits of exp and log.
    assert_allclose(model.predict_proba(X), expected["predict_proba"], rtol=1e-9)
    assert_array_equal(model.predict(X), expected["predict"])
    assert_allclose(model.score_samples(X), expected["score_samples"], rtol=1e-9)
    assert model.explain(X).verdict.tolist() == expected["verdict"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_answers_as_before(kind, tmp_path):
    path, expected = unpacked(kind, tmp_path), KINDS[kind]
    assert read(path).version == 1
    model = polycal.load(path)
    X = expected["X"]
    if isinstance(X, dict):
        X = pd.DataFrame(X).astype({"a": float})
        X = X.astype({"colour": "category"}) if "colour" in X else X
        assert X.isna().any(axis=None)
    else:
        X = np.array(X)
    for name in ("predict_proba", "in_distribution"):
        assert_allclose(getattr(model, name)(X), expected[name], rtol=0, atol=1e-12)
    assert_allclose(model.score_samples(X), expected["score_samples"], rtol=1e-12)
    assert_array_equal(model.predict(X), expected["predict"])
    assert model.explain(X).verdict.tolist() == expected["verdict"]
    model.save(path)  # in the present format
    assert read(path).version == FORMAT
    assert_array_equal(polycal.load(path).predict_proba(X), model.predict_proba(X))


def test_the_settings_become_types_and_fields(forest, tmp_path):
    model = polycal.load(forest).model_
    assert isinstance(model.reference.votes, QueryVotes)
    exponent = model.posterior.gamma * np.log(model.reference.votes.n_samples)
    assert model.reference.votes.exponents.tolist() == [exponent]
    assert model.reference.planes is None
    assert model.gate.by_similarity
    assert not model.reference.fill
    assert not model.reference.euclidean
    model = polycal.load(unpacked("euclidean", tmp_path)).model_
    assert isinstance(model.reference.votes, PolytopeVotes)
    assert model.reference.euclidean
    assert not model.gate.by_similarity


def test_variances_of_before(forest):
    """The first files had all rows, or 0 where no polytope varies."""
    model = polycal.load(forest)
    X = np.array(json.loads((DATA / "format1.json").read_text())["X"])
    variance, known = model.polytopes_.variance, model.predict_proba(X)
    assert 0 < variance.any(axis=1).sum() < len(variance)

    def node(manifest):
        return manifest["state"]["landscape"]["polytopes"]

    def complete(manifest, arrays):
        arrays["every variance"] = variance
        node(manifest)["variance"] = {"array": "every variance"}

    def none(manifest, arrays):
        node(manifest)["variance"] = 0

    def some(manifest, arrays):
        rows = np.flatnonzero(variance.any(axis=1))
        arrays["varies"], arrays["values"] = rows, variance[rows]
        node(manifest)["variance"] = {"rows": {"array": "varies"}, "values": {"array": "values"}}

    for edit in (complete, some):
        model = polycal.load(forged1(forest, edit))
        assert_array_equal(model.polytopes_.variance, variance)
        assert_array_equal(model.predict_proba(X), known)
    model = polycal.load(forged1(forest, none))
    assert_array_equal(model.polytopes_.variance, np.zeros_like(variance))


def test_a_network_of_before_weighs_labels_by_all_layers(tmp_path):
    """Files without the key are of that time, and keep their answers."""
    path, X = unpacked("votes", tmp_path), np.array(KINDS["votes"]["X"])
    model = polycal.load(path)
    assert model.model_.reference.votes.evidence.hidden_labels
    old = polycal.load(
        forged1(path, lambda m, a: m["state"]["landscape"]["kernel"].pop("hidden_labels"))
    )
    modes, exponent = model.model_.read(X, Execution())[0].modes, np.array([2.0])
    sums = []
    for evidence in (m.model_.reference.votes.evidence for m in (old, model)):
        sums.append(evidence.index.class_sums(modes, evidence.counts, exponent, Execution())[0])
    K = reference.similarity(modes, evidence.modes)
    assert_allclose(sums[0], reference.class_sums(K, evidence.counts, 2.0), rtol=1e-9)
    assert np.abs(sums[0] - sums[1]).max() > 0.01
    # Neighbours have always been found by all layers.
    assert_array_equal(old.nearest(X, 3), model.nearest(X, 3))
    old.save(path)
    assert_array_equal(polycal.load(path).predict_proba(X), old.predict_proba(X))


def test_nothing_but_the_layout_is_converted(forest):
    """Each array of the state is used, but for the prior that was stored twice."""
    _, manifest, arrays = read(forest)
    before = json.dumps(manifest)
    state = convert_state(manifest["state"], arrays)
    assert json.dumps(manifest) == before
    assert list(state) == ["classes", "features", "names", "model"]
    assert arrays_in(manifest["state"]) - arrays_in(state) <= {"priors"}


def arrays_in(node):
    if isinstance(node, dict):
        if node.keys() == {"array"}:
            return {node["array"]}
        node = list(node.values())
    return set().union(*map(arrays_in, node)) if isinstance(node, list) else set()


def rows_of(manifest):
    return manifest["state"]["landscape"]


FORGERIES = {
    "state": lambda m, a: m.update(state=3),
    "no settings": lambda m, a: rows_of(m).pop("settings"),
    "more settings": lambda m, a: rows_of(m)["settings"].update(colour="red"),
    "gate": lambda m, a: rows_of(m)["settings"].update(gate="open"),
    "gate of another kind": lambda m, a: rows_of(m)["settings"].update(gate="gaussian"),
    "no word": lambda m, a: rows_of(m)["settings"].update(posterior=["pooled"]),
    "posterior without a pool": lambda m, a: rows_of(m)["settings"].update(posterior="kernel"),
    "posterior without votes": lambda m, a: rows_of(m)["settings"].update(posterior="parent"),
    "distance": lambda m, a: rows_of(m)["settings"].update(distance="euclidean"),
    "neighbours": lambda m, a: rows_of(m)["settings"].update(n_neighbors=-1),
    "ratios": lambda m, a: rows_of(m)["kernel"].update(ratios={"array": "polytopes.counts"}),
    "hidden layers of a forest": lambda m, a: rows_of(m)["kernel"].update(hidden_labels=True),
    "gamma": lambda m, a: m["state"]["posterior"].update(gamma=None),
    "no pool": lambda m, a: m["state"]["posterior"].update(pool=None),
    "too many rows": lambda m, a: m["state"]["posterior"].update(n_rows=10**400),
    "plan": lambda m, a: m["state"].update(calibration="none"),
    "false alarms": lambda m, a: m["state"].update(false_alarm=1.0),
    "sizes": lambda m, a: rows_of(m)["modes"].update(sizes=[2**60]),
    "no sizes": lambda m, a: rows_of(m)["modes"].update(sizes=None),
    "packed": lambda m, a: rows_of(m)["modes"].update(packed=True),
    "levels": lambda m, a: rows_of(m)["table"].update(levels={"tuple": [[1]]}),
    "owner": lambda m, a: a["rows.owner"].__setitem__(0, 10**9),
    "offsets": lambda m, a: a["table.start"].__setitem__(0, 7),
    "no variance": lambda m, a: rows_of(m)["polytopes"].update(variance=None),
    "variance in a list": lambda m, a: rows_of(m)["polytopes"].update(variance=[]),
    "variance of other shape": lambda m, a: rows_of(m)["polytopes"].update(
        variance={"array": "classes"}
    ),
    "no variance and no mean": lambda m, a: rows_of(m)["polytopes"].update(variance=0, mean=0),
    "two bandwidths": lambda m, a: a.update(
        {"density.precision": a["density.precision"][:2].copy()}
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_file_is_refused(forgery, forest):
    with pytest.raises(AlteredFileError):
        polycal.load(forged1(forest, FORGERIES[forgery]))


@pytest.mark.parametrize("kind", ["euclidean", "forest", "network"])
def test_junk_anywhere_in_the_state(kind, tmp_path, monkeypatch):
    file = read(unpacked(kind, tmp_path))
    X = KINDS[kind]["X"]
    X = pd.DataFrame(X).astype(float) if isinstance(X, dict) else np.array(X)
    refused = sum(
        assert_answers_or_refuses(file._replace(manifest=manifest), X, monkeypatch)
        for manifest in junk_edits(copy.deepcopy(file.manifest))
    )
    assert refused > 500
