"""Model files: written and read again, and forged with a checksum that fits."""

from __future__ import annotations

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier

import polycal
from polycal.persistence.checksum import Checksum, pieces
from polycal.persistence.container import read, write
from tests.toys.families import FAMILIES
from tests.toys.models import small_forest

MARKS = [
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated"),
]


def again(model, path, module=None, **options):
    """The model after a way through a file."""
    model.save(path / "m.polycal")
    return polycal.load(path / "m.polycal", module, **options)


def assert_same(loaded, model, X):
    """Every answer is equal to the last bit."""
    assert type(loaded) is type(model)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert_array_equal(loaded.classes_, model.classes_)
    for name in ("predict_proba", "predict", "score_samples", "in_distribution"):
        ours, theirs = getattr(loaded, name)(X), getattr(model, name)(X)
        assert ours.dtype == theirs.dtype
        assert_array_equal(ours, theirs, err_msg=name)
    assert_array_equal(loaded.nearest(X, 3), model.nearest(X, 3))
    ours, theirs = loaded.explain(X), model.explain(X)
    for name in ("verdict", "p_value", "polytope", "similarity", "counts", "surprise"):
        assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)
    assert [row.tolist() for row in ours.rows] == [row.tolist() for row in theirs.rows]
    assert ours.features == theirs.features
    assert_array_equal(loaded.pool_weights_, model.pool_weights_)
    assert (loaded.gamma_, loaded.log_floor_) == (model.gamma_, model.log_floor_)


MORE = {
    "extra trees": lambda: ExtraTreesClassifier(20, random_state=0),
    "tree": lambda: DecisionTreeClassifier(max_depth=6, random_state=0),
    "best first": lambda: small_forest(max_leaf_nodes=12),
    "entropy": lambda: small_forest(criterion="entropy"),
    "class weights": lambda: ExtraTreesClassifier(
        20, class_weight={0: 1.0, 1: 2.5}, random_state=0
    ),
    "bagging": lambda: BaggingClassifier(n_estimators=20, max_features=0.6, random_state=0),
    "adam": lambda: MLPClassifier((12,), max_iter=20, random_state=0),
}
PARENTS = FAMILIES | MORE


def mixed():
    rng = np.random.default_rng(0)
    n = 400
    colour = rng.choice(["red", "green", "blue"], n)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "colour": colour})
    y = ((X["a"] > 0) ^ (colour == "red")).to_numpy().astype(int)
    X.loc[::9, "a"] = np.nan
    return X, y


def change(content, edit):
    """The file with another manifest or header, and a checksum that fits."""
    from polycal.persistence import container

    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    payload = content[8 + length :]
    header["__metadata__"]["checksum"] = container.NO_SUM
    manifest = json.loads(header["__metadata__"]["manifest"])
    result = edit(manifest, header)
    manifest = manifest if result is None else result
    text = manifest if isinstance(manifest, str) else json.dumps(manifest)
    header["__metadata__"]["manifest"] = text
    return seal(json.dumps(header, separators=(",", ":")).encode(), payload)


def seal(raw, payload):
    from polycal.persistence import container

    head = len(raw).to_bytes(8, "little") + raw
    with Checksum() as checksum:
        for piece in pieces([np.frombuffer(payload, np.uint8)]):
            checksum.add(piece)
        total = checksum.hex(head)
    return head.replace(container.NO_SUM.encode(), total.encode(), 1) + payload


def reference(manifest):
    """The node of the reference set."""
    return manifest["state"]["model"]["reference"]


def forged(path, edit):
    """The file with what ``edit(manifest, arrays)`` makes of it."""
    _, manifest, arrays = read(path)
    edit(manifest, arrays)
    write(path, manifest, arrays)
    return path


JUNK = (None, [], {}, "x", -1, True, 10**400, {"float": "nan"}, {"array": "absent"}, {"tuple": [1]})


def junk_edits(manifest):
    """The manifest with junk in place of one part of its state after another."""

    def edits(owner):
        for key in owner if isinstance(owner, dict) else range(len(owner)):
            known = owner[key]
            if isinstance(known, (dict, list)):
                yield from edits(known)
            for junk in (*JUNK, {"array": "classes"}):
                owner[key] = junk
                yield manifest
            owner[key] = known

    return edits(manifest["state"])


def assert_answers_or_refuses(file, X, monkeypatch):
    """Whether the file is refused; if not, the model answers, or says what does not fit X."""
    from polycal.persistence import model

    own = file._replace(arrays=dict(file.arrays), manifest=json.loads(json.dumps(file.manifest)))
    monkeypatch.setattr(model, "read", lambda path: own)
    try:
        loaded = polycal.load("a file")
    except polycal.ModelFileError:
        return True
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            loaded.predict_proba(X)
            loaded.explain(X)
        except ValueError as error:
            assert re.search("X|feature names|logits", str(error))  # noqa: PT017
    return False
