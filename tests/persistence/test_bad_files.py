"""Model files that are damaged or forged: a clear error, and never a crash."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.ensemble import HistGradientBoostingClassifier

import polycal
from polycal import PAPER, GeodesicCalibrator, ModelFileError
from polycal.persistence import (
    AlteredFileError,
    NewerFormatError,
    NotAModelFileError,
    TruncatedFileError,
)
from polycal.persistence.container import DTYPES, FORMAT, read
from tests.toys.model_files import (
    assert_answers_or_refuses,
    change,
    forged,
    junk_edits,
    mixed,
    reference,
    seal,
)
from tests.toys.models import small_network


def test_each_fault_has_its_own_error(small, tmp_path):
    content, X, _ = small
    length = int.from_bytes(content[:8], "little")

    def error(found):
        (tmp_path / "bad").write_bytes(found)
        with pytest.raises(ModelFileError) as caught:
            polycal.load(tmp_path / "bad")
        assert str(caught.value)
        return type(caught.value)

    def version(manifest, header):
        header["__metadata__"]["format_version"] = str(FORMAT + 1)

    assert error(b"") is NotAModelFileError
    assert error(b"PK\x03\x04 a zip file that is none") is NotAModelFileError
    assert error(json.dumps({"a": 1}).encode()) is NotAModelFileError
    assert error((2).to_bytes(8, "little") + b"{}") is NotAModelFileError
    assert error(b"\x00" * 100) is NotAModelFileError
    assert error(change(content, version)) is NewerFormatError
    for size in (length // 2, length + 8, length + 9, len(content) - 1):
        assert error(content[:size]) is TruncatedFileError
    assert error(content + b"\x00") is AlteredFileError
    flipped = bytearray(content)
    flipped[-3] ^= 1
    assert error(bytes(flipped)) is AlteredFileError
    with pytest.raises(FileNotFoundError):
        polycal.load(tmp_path / "absent")
    # Untouched but sealed anew, the file is good: the errors above come from the changes.
    (tmp_path / "good").write_bytes(change(content, lambda manifest, header: None))
    assert_array_equal(polycal.load(tmp_path / "good").predict_proba(X), small[2])


VARIANCE = "model.reference.polytopes.variance"
VARIES = "model.reference.polytopes.variance.rows"


def posterior(manifest):
    return manifest["state"]["model"]["posterior"]


def evidence(manifest):
    return reference(manifest)["votes"]["evidence"]


LIES = {
    "deep": lambda m, h: "[" * 100_000,
    "twice": lambda m, h: '{"class":1,"class":2}',
    "nan": lambda m, h: json.dumps(m).replace("null", "NaN", 1),
    "long number": lambda m, h: json.dumps(m).replace("null", "9" * 10_000, 1),
    "no object": lambda m, h: "3",
    "class": lambda m, h: m.update({"class": "os.system"}),
    "parameter": lambda m, h: m["parameters"]["values"].update({"fit": 3}),
    "parent kind": lambda m, h: m["parent"].update({"kind": "eval"}),
    "parent class": lambda m, h: m["parent"].update({"class": "Pipeline"}),
    "parent gone": lambda m, h: m.update({"parent": None}),
    "attribute": lambda m, h: m["parent"]["fitted"]["dict"].append(["predict_proba", 1]),
    "settings": lambda m, h: m["state"]["model"]["gate"].update({"type": "open"}),
    "neighbours": lambda m, h: reference(m).update({"n_neighbors": -1}),
    "type": lambda m, h: posterior(m).update({"n_rows": "many"}),
    "kind": lambda m, h: m["state"].update({"classes": {"pickle": "gASVAAAA"}}),
    "array": lambda m, h: posterior(m).update({"prior": {"array": "absent"}}),
    "other array": lambda m, h: posterior(m).update(
        {"prior": {"array": "model.reference.polytopes.mean"}}
    ),
    "sizes": lambda m, h: evidence(m)["modes"].update({"sizes": {"tuple": [2**60]}}),
    "packed": lambda m, h: evidence(m)["modes"].update({"packed": True}),
    "levels": lambda m, h: reference(m)["table"].update({"levels": [1]}),
    "shape": lambda m, h: h["model.reference.polytopes.mean"].update({"shape": [2**40, 2**40]}),
    "negative": lambda m, h: h["model.reference.polytopes.mean"].update({"shape": [-1, -4]}),
    "dtype": lambda m, h: h["model.reference.polytopes.mean"].update({"dtype": "O"}),
    "offsets": lambda m, h: h["model.reference.polytopes.mean"].update(
        {"data_offsets": [0, 2**62]}
    ),
    "overlap": lambda m, h: h["model.reference.density.precision"].update(
        {"data_offsets": h["model.reference.polytopes.mean"]["data_offsets"]}
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_with_a_fitting_checksum_is_found(lie, small, tmp_path):
    path = tmp_path / "lie"
    path.write_bytes(change(small[0], LIES[lie]))
    with pytest.raises(ModelFileError):
        polycal.load(path)


def payload_lie(content, name, values):
    """The file with other numbers in one array."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    entry = header[name]
    begin, end = (8 + length + place for place in entry["data_offsets"])
    array = np.frombuffer(content[begin:end], DTYPES[entry["dtype"]]).copy()
    values(array)
    changed = content[:begin] + array.tobytes() + content[end:]
    return change(changed, lambda manifest, header: None)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("model.reference.row_polytope", lambda a: a.__setitem__(0, 10**9)),
        ("model.reference.row_polytope", lambda a: a.__setitem__(0, -5)),
        ("trees.feature", lambda a: a.__setitem__(0, 100)),
        ("trees.feature", lambda a: a.__setitem__(0, -1)),
        ("trees.feature", lambda a: a.__setitem__(slice(None), 0)),
        ("trees.n_nodes", lambda a: a.__setitem__(0, -(2**62))),
        ("trees.counts", lambda a: a.__setitem__(slice(None), 0)),
        ("model.reference.table.level_offsets", lambda a: a.__setitem__(0, 7)),
        ("model.reference.table.numbers", lambda a: a.__setitem__(0, 7)),
    ],
)
def test_numbers_that_would_lead_out_of_an_array(name, values, small, tmp_path):
    path = tmp_path / "lie"
    path.write_bytes(payload_lie(small[0], name, values))
    with pytest.raises(ModelFileError):
        polycal.load(path)


def mutants(content, rng, n):
    """n damaged copies: bits, bytes, cuts, insertions, swaps, and lengths that lie."""
    length = int.from_bytes(content[:8], "little")
    for i in range(n):
        found = bytearray(content)
        # Half of the damage goes to the header, which steers the rest.
        end = 8 + length if i % 2 else len(content)
        kind, at = i % 7, int(rng.integers(end))
        if kind == 0:
            found[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            for place in rng.integers(end, size=8):
                found[place] = int(rng.integers(256))
        elif kind == 2:
            del found[at:]
        elif kind == 3:
            found[at:at] = rng.bytes(int(rng.integers(1, 40)))
        elif kind == 4:
            other = int(rng.integers(end))
            found[at], found[other] = found[other], found[at]
        elif kind == 5:
            lie = int(rng.choice([0, 1, length - 1, length + 1, len(content), 2**31, 2**63]))
            found[:8] = lie.to_bytes(8, "little")
        else:
            del found[at : at + int(rng.integers(1, 40))]
        yield bytes(found)


def test_two_thousand_damaged_files(small, tmp_path):
    """Each gives a polycal error or the same model."""
    content, X, expected = small
    path = tmp_path / "mutant"
    refused = 0
    for mutant in mutants(content, np.random.default_rng(0), 2000):
        path.write_bytes(mutant)
        try:
            model = polycal.load(path)
        except ModelFileError:
            refused += 1
        else:
            assert_array_equal(model.predict_proba(X), expected)
    assert refused > 1900


def test_damaged_descriptions_with_a_fitting_checksum(small, tmp_path):
    """Swapped bytes in the header, sealed anew: an error, or a model that answers or refuses."""
    content, X, _ = small
    length = int.from_bytes(content[:8], "little")
    raw, payload = content[8 : 8 + length], content[8 + length :]
    place = raw.find(b'"checksum":"') + 12
    raw = raw[:place] + b"0" * 64 + raw[place + 64 :]
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(600):
        found = bytearray(raw)
        at, other = rng.integers(place + 64, length, size=2)
        if rng.random() < 0.5:
            found[at], found[other] = found[other], found[at]
        else:
            found[at] = int(rng.choice(np.frombuffer(b'0123456789"{}[],:-.eaz', np.uint8)))
        (tmp_path / "mutant").write_bytes(seal(bytes(found), payload))
        try:
            model = polycal.load(tmp_path / "mutant")
        except ModelFileError:
            refused += 1
            continue
        try:
            answer = model.predict_proba(X)
        except (ValueError, TypeError):  # a setting of another value, refused by its own check
            continue
        assert answer.shape == (20, 3)
    assert refused > 300


def test_damaged_numbers_with_a_fitting_checksum(small, tmp_path):
    """Bits of the arrays flipped, sealed anew: no compiled loop leaves its arrays."""
    content, X, _ = small
    length = int.from_bytes(content[:8], "little")
    raw, payload = content[8 : 8 + length], content[8 + length :]
    place = raw.find(b'"checksum":"') + 12
    raw = raw[:place] + b"0" * 64 + raw[place + 64 :]
    rng = np.random.default_rng(2)
    for _ in range(300):
        found = bytearray(payload)
        for at in rng.integers(len(payload), size=20):
            found[at] ^= 1 << int(rng.integers(8))
        (tmp_path / "mutant").write_bytes(seal(raw, bytes(found)))
        try:
            model = polycal.load(tmp_path / "mutant")
        except ModelFileError:
            continue
        with np.errstate(all="ignore"):
            assert model.predict_proba(X).shape == (20, 3)
            model.explain(X)
            model.estimator_.predict_proba(X)


FORGERIES = {
    "name of an array": lambda m, a: posterior(m).update(
        prior={"array": ["model.posterior.prior"]}
    ),
    "threads": lambda m, a: m["parameters"]["values"].update(n_jobs="many"),
    "feature names": lambda m, a: m["state"].update(names={"objects": ["object", [1], [[1]]]}),
    "levels": lambda m, a: reference(m)["table"].update(levels={"tuple": [[1]]}),
    "too many rows": lambda m, a: posterior(m).update(n_rows=10**400),
    "too many samples": lambda m, a: m["state"]["model"]["gate"].update(n_samples=10**400),
    "hidden layers of a forest": lambda m, a: evidence(m).update(hidden_labels=True),
    "labels by what": lambda m, a: evidence(m).update(hidden_labels=0),
    "classes of the trees": lambda m, a: m["parent"]["tree"]["dict"].__setitem__(
        [key for key, _ in m["parent"]["tree"]["dict"]].index("n_classes_"),
        ["n_classes_", {"array": "model.posterior.prior"}],
    ),
    "features of the forest": lambda m, a: m["parent"]["fitted"]["dict"].__setitem__(
        [key for key, _ in m["parent"]["fitted"]["dict"]].index("n_features_in_"),
        ["n_features_in_", 2],
    ),
    "variance of a polytope that is not": lambda m, a: a[VARIES].__setitem__(-1, 10**9),
    "variance of a polytope before the first": lambda m, a: a[VARIES].__setitem__(0, -1),
    "two variances of a polytope": lambda m, a: a[VARIES].__setitem__(0, a[VARIES][1]),
    "type of the rows": lambda m, a: a.update({VARIES: a[VARIES].astype(float)}),
    "too few variances": lambda m, a: a.update({VARIANCE: a[VARIANCE][1:].copy()}),
    "too narrow variances": lambda m, a: a.update({VARIANCE: a[VARIANCE][:, 1:].copy()}),
    "variance of nothing": lambda m, a: reference(m)["polytopes"].update(variance=None),
    "variance in a list": lambda m, a: reference(m)["polytopes"].update(variance=[]),
    "two bandwidths": lambda m, a: a.update(
        {"model.reference.density.precision": a["model.reference.density.precision"][:2].copy()}
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_description_is_refused(forgery, file):
    with pytest.raises(AlteredFileError):
        polycal.load(forged(file, FORGERIES[forgery]))


@pytest.mark.parametrize("kind", ["small", "paper", "euclidean", "mixed"])
def test_junk_anywhere_in_the_state(kind, file, small, iris, tmp_path, monkeypatch):
    """Each part of the state in turn: an error, or a model that answers."""
    X, y = iris
    if kind == "mixed":
        X, y = mixed()
        X["colour"] = X["colour"].astype("category")
        parent = HistGradientBoostingClassifier(max_iter=2, random_state=0)
        GeodesicCalibrator(parent, calibration="holdout", random_state=0).fit(X, y).save(file)
    elif kind != "small":
        options = PAPER if kind == "paper" else {"distance": "euclidean"}
        parent = small_network(hidden_layer_sizes=(4, 3))
        model = GeodesicCalibrator(parent, calibration="holdout", random_state=0, **options)
        model.fit(X, y).save(file)
    found = read(file)
    refused = sum(
        assert_answers_or_refuses(found._replace(manifest=manifest), X[:5], monkeypatch)
        for manifest in junk_edits(copy.deepcopy(found.manifest))
    )
    assert refused > 500
