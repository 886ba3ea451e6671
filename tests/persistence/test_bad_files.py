"""Model files that are old, damaged or forged: a clear error, and never a crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    IsolationForest,
)
from sklearn.feature_selection import SelectFromModel
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import polycal
from polycal import GeodesicCalibrator, ModelFileError
from polycal._utils.sklearn_compat import walks_within
from polycal.kernels import Execution, reference
from polycal.persistence import (
    AlteredFileError,
    NewerFormatError,
    NotAModelFileError,
    TruncatedFileError,
    UnknownTypeError,
)
from polycal.persistence.checksum import Checksum, pieces
from polycal.persistence.container import DTYPES, MOST_NESTED, read, write
from polycal.persistence.values import Unpacker
from tests.toys.families import lightgbm, torch_net
from tests.toys.models import small_forest, small_network

DATA = Path(__file__).parents[1] / "data"


def test_the_first_format_is_still_read():
    expected = json.loads((DATA / "format1.json").read_text())
    model = polycal.load(DATA / "format1.polycal")
    X = np.array(expected["X"])
    # Processors differ in the last bits of exp and log.
    assert_allclose(model.predict_proba(X), expected["predict_proba"], rtol=1e-9)
    assert_array_equal(model.predict(X), expected["predict"])
    assert_allclose(model.score_samples(X), expected["score_samples"], rtol=1e-9)
    assert model.explain(X).verdict.tolist() == expected["verdict"]


def test_a_network_of_before_weighs_labels_by_all_layers(blobs, tmp_path):
    """Files without the key are of that time, and keep their answers."""
    X, y = blobs
    parent = small_network(hidden_layer_sizes=(16, 8))
    model = GeodesicCalibrator(parent, calibration="holdout", random_state=0).fit(X[:400], y[:400])
    model.save(tmp_path / "m")
    old = polycal.load(
        forged(tmp_path / "m", lambda m, a: m["state"]["landscape"]["kernel"].pop("hidden_labels"))
    )
    modes = model._query(X[400:])[0].modes
    exponent, execution = np.array([2.0]), Execution()
    sums = []
    for kernel in (old._landscape.kernel, model._landscape.kernel):
        evidence = kernel.evidence
        sums.append(evidence.index.class_sums(modes, evidence.counts, exponent, execution)[0])
    K = reference.similarity(modes, evidence.index.modes)
    assert_allclose(sums[0], reference.class_sums(K, evidence.counts, 2.0), rtol=1e-9)
    assert np.abs(sums[0] - sums[1]).max() > 0.01
    # It was by all layers that the old model found its neighbours, as every model does.
    assert_array_equal(old.nearest(X[400:], 3), model.nearest(X[400:], 3))
    old.save(tmp_path / "again")
    again = polycal.load(tmp_path / "again")
    assert_array_equal(again.predict_proba(X[400:]), old.predict_proba(X[400:]))


@pytest.fixture(scope="module")
def small(iris, tmp_path_factory):
    """A file, the rows, and the answers."""
    X, y = iris
    words = np.array(["setosa", "versicolor", "virginica"])[y]
    forest = small_forest(n_estimators=5, max_depth=4)
    model = GeodesicCalibrator(forest, calibration="holdout", random_state=0).fit(X, words)
    path = tmp_path_factory.mktemp("small") / "m.polycal"
    model.save(path)
    return path.read_bytes(), X[:20], model.predict_proba(X[:20])


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
        header["__metadata__"]["format_version"] = "2"

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
    "settings": lambda m, h: m["state"]["landscape"]["settings"].update({"gate": "open"}),
    "neighbours": lambda m, h: m["state"]["landscape"]["settings"].update({"n_neighbors": -1}),
    "type": lambda m, h: m["state"]["posterior"].update({"n_rows": "many"}),
    "kind": lambda m, h: m["state"].update({"classes": {"pickle": "gASVAAAA"}}),
    "array": lambda m, h: m["state"].update({"priors": {"array": "absent"}}),
    "other array": lambda m, h: m["state"].update({"priors": {"array": "polytopes.mean"}}),
    "sizes": lambda m, h: m["state"]["landscape"]["modes"].update({"sizes": [2**60]}),
    "packed": lambda m, h: m["state"]["landscape"]["modes"].update({"packed": True}),
    "levels": lambda m, h: m["state"]["landscape"]["table"].update({"levels": [1]}),
    "shape": lambda m, h: h["polytopes.mean"].update({"shape": [2**40, 2**40]}),
    "negative": lambda m, h: h["polytopes.mean"].update({"shape": [-1, -4]}),
    "dtype": lambda m, h: h["polytopes.mean"].update({"dtype": "O"}),
    "offsets": lambda m, h: h["polytopes.mean"].update({"data_offsets": [0, 2**62]}),
    "overlap": lambda m, h: h["density.precision"].update(
        {"data_offsets": h["polytopes.mean"]["data_offsets"]}
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
        ("rows.owner", lambda a: a.__setitem__(0, 10**9)),
        ("rows.owner", lambda a: a.__setitem__(0, -5)),
        ("trees.feature", lambda a: a.__setitem__(0, 100)),
        ("trees.feature", lambda a: a.__setitem__(0, -1)),
        ("trees.feature", lambda a: a.__setitem__(slice(None), 0)),
        ("trees.n_nodes", lambda a: a.__setitem__(0, -(2**62))),
        ("trees.counts", lambda a: a.__setitem__(slice(None), 0)),
        ("table.start", lambda a: a.__setitem__(0, 7)),
        ("table.numbers", lambda a: a.__setitem__(0, 7)),
    ],
)
def test_numbers_that_would_lead_out_of_an_array(name, values, small, tmp_path):
    path = tmp_path / "lie"
    path.write_bytes(payload_lie(small[0], name, values))
    with pytest.raises(ModelFileError):
        polycal.load(path)


@pytest.mark.parametrize("leaf", [-1, 2**31 - 2])
def test_leaves_that_are_none(leaf, small, tmp_path):
    (tmp_path / "m").write_bytes(small[0])
    manifest, arrays = read(tmp_path / "m")
    arrays["modes"] = arrays["modes"].astype(np.int32)
    write(tmp_path / "m", manifest, arrays)
    assert_array_equal(polycal.load(tmp_path / "m").predict_proba(small[1]), small[2])
    arrays["modes"][3] = leaf
    write(tmp_path / "m", manifest, arrays)
    with pytest.raises(AlteredFileError):
        polycal.load(tmp_path / "m")


def test_a_crafted_estimator_runs_no_code(iris, tmp_path):
    """An object that would run something at its creation is named and refused."""
    import skops.io

    X, y = iris
    model = GeodesicCalibrator(HistGradientBoostingClassifier(max_iter=3), calibration="holdout")
    model.set_params(random_state=0).fit(X, y)
    model.save(tmp_path / "m.polycal")
    manifest, arrays = read(tmp_path / "m.polycal")
    bad = skops.io.dumps({"a": subprocess.Popen, "b": os.system})
    arrays["parent.skops"] = np.frombuffer(bad, np.uint8)
    write(tmp_path / "bad", manifest, arrays)
    with pytest.raises(UnknownTypeError, match="Popen"):
        polycal.load(tmp_path / "bad")
    arrays["parent.skops"] = np.frombuffer(bad[:-30], np.uint8)
    write(tmp_path / "bad", manifest, arrays)
    with pytest.raises(AlteredFileError):
        polycal.load(tmp_path / "bad")


def test_boosted_trees_that_lead_out_of_their_nodes(iris, tmp_path):
    X, y = iris
    model = GeodesicCalibrator(HistGradientBoostingClassifier(max_iter=3), calibration="holdout")
    model.set_params(random_state=0).fit(X, y)
    model.save(tmp_path / "m.polycal")
    for field, number in [("left", 10**6), ("feature_idx", 77), ("right", 0)]:
        manifest, arrays = read(tmp_path / "m.polycal")
        arrays[f"parent.nodes.{field}"][0] = number
        write(tmp_path / "bad", manifest, arrays)
        with pytest.raises(AlteredFileError):
            polycal.load(tmp_path / "bad")


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


def test_loading_a_forest_does_not_import_skops(small, tmp_path):
    """skops imports all of scikit-learn, which takes a second."""
    (tmp_path / "m.polycal").write_bytes(small[0])
    code = (
        "import sys, polycal; m = polycal.load(sys.argv[1]); m.save(sys.argv[1]); "
        "assert 'skops' not in sys.modules and 'pickle' not in vars(polycal.persistence)"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "m.polycal"], check=True)


# --------------------------------------------------- forged, with a fitting checksum


def forged(path, edit):
    """The file with what ``edit(manifest, arrays)`` makes of it."""
    manifest, arrays = read(path)
    edit(manifest, arrays)
    write(path, manifest, arrays)
    return path


@pytest.fixture
def file(small, tmp_path):
    path = tmp_path / "m.polycal"
    path.write_bytes(small[0])
    return path


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


FORGERIES = {
    "name of an array": lambda m, a: m["state"].update(priors={"array": ["priors"]}),
    "threads": lambda m, a: m["parameters"]["values"].update(n_jobs="many"),
    "feature names": lambda m, a: m["state"].update(names={"objects": ["object", [1], [[1]]]}),
    "levels": lambda m, a: m["state"]["landscape"]["table"].update(levels={"tuple": [[1]]}),
    "too many rows": lambda m, a: m["state"]["posterior"].update(n_rows=10**400),
    "too many samples": lambda m, a: m["state"]["gate"].update(n_samples=10**400),
    "hidden layers of a forest": lambda m, a: m["state"]["landscape"]["kernel"].update(
        hidden_labels=True
    ),
    "labels by what": lambda m, a: m["state"]["landscape"]["kernel"].update(hidden_labels=0),
    "classes of the trees": lambda m, a: m["parent"]["tree"]["dict"].__setitem__(
        [key for key, _ in m["parent"]["tree"]["dict"]].index("n_classes_"),
        ["n_classes_", {"array": "priors"}],
    ),
    "features of the forest": lambda m, a: m["parent"]["fitted"]["dict"].__setitem__(
        [key for key, _ in m["parent"]["fitted"]["dict"]].index("n_features_in_"),
        ["n_features_in_", 2],
    ),
    "variance of a polytope that is not": lambda m, a: a["polytopes.varies"].__setitem__(-1, 10**9),
    "variance of a polytope before the first": lambda m, a: a["polytopes.varies"].__setitem__(
        0, -1
    ),
    "two variances of a polytope": lambda m, a: a["polytopes.varies"].__setitem__(
        0, a["polytopes.varies"][1]
    ),
    "type of the rows": lambda m, a: a.update(
        {"polytopes.varies": a["polytopes.varies"].astype(float)}
    ),
    "too few variances": lambda m, a: a.update(
        {"polytopes.variance": a["polytopes.variance"][1:].copy()}
    ),
    "too narrow variances": lambda m, a: a.update(
        {"polytopes.variance": a["polytopes.variance"][:, 1:].copy()}
    ),
    "variance of nothing": lambda m, a: m["state"]["landscape"]["polytopes"].update(variance=None),
    "variance in a list": lambda m, a: m["state"]["landscape"]["polytopes"].update(variance=[]),
    "two bandwidths": lambda m, a: a.update(
        {"density.precision": a["density.precision"][:2].copy()}
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_description_is_refused(forgery, file):
    with pytest.raises(AlteredFileError):
        polycal.load(forged(file, FORGERIES[forgery]))


def test_values_inside_values(file, small):
    """A file holds them so deep and no deeper, whatever Python would allow."""
    deepest = nested(MOST_NESTED - 3)  # inside the whole, "parameters" and "values"

    def gamma(value):
        def edit(manifest, header):
            manifest["parameters"]["values"]["gamma"] = value

        return edit

    file.write_bytes(change(small[0], gamma(deepest)))
    model = polycal.load(file)
    assert model.gamma == deepest
    model.save(file)
    model.gamma = [deepest]
    with pytest.raises(ModelFileError, match=f"more than {MOST_NESTED} deep"):
        model.save(file)
    assert polycal.load(file).gamma == deepest  # the file of before is still there
    for value in ([deepest], nested(490)):
        file.write_bytes(change(small[0], gamma(value)))
        with pytest.raises(AlteredFileError, match=f"more than {MOST_NESTED} deep"):
            polycal.load(file)
    endless = '{"class": ' + "[" * 100_000 + "]" * 100_000 + "}"
    file.write_bytes(change(small[0], lambda manifest, header: endless))
    with pytest.raises(AlteredFileError, match="recursion"):
        polycal.load(file)


def test_variances_of_before(file, small):
    """The first files had the whole array, or 0 where no polytope varies."""
    variance = polycal.load(file)._landscape.polytopes.variance
    assert 0 < variance.any(axis=1).sum() < len(variance)

    def whole(manifest, arrays):
        del arrays["polytopes.varies"]
        arrays["polytopes.variance"] = variance
        node = {"array": "polytopes.variance"}
        manifest["state"]["landscape"]["polytopes"]["variance"] = node

    def none(manifest, arrays):
        del arrays["polytopes.variance"]
        manifest["state"]["landscape"]["polytopes"]["variance"] = 0

    model = polycal.load(forged(file, whole))
    assert_array_equal(model._landscape.polytopes.variance, variance)
    assert_array_equal(model.predict_proba(small[1]), small[2])
    model = polycal.load(forged(file, none))
    assert_array_equal(model._landscape.polytopes.variance, np.zeros_like(variance))


def test_leaves_that_would_take_all_memory(file):
    def edit(manifest, arrays):
        arrays["modes"] = arrays["modes"].astype(np.int32)
        arrays["modes"][0, 0] = 2**27

    with pytest.raises(AlteredFileError, match="leaves in"):
        polycal.load(forged(file, edit))


def test_texts_that_would_take_all_memory():
    node = {"objects": [1025, [100_000], ["a"] * 100_000]}
    with pytest.raises(AlteredFileError, match="100000 texts of width 1025"):
        Unpacker({}).value(node)


def test_rows_that_are_too_narrow_for_the_trees(file):
    """The number of features is the file's own; the compiled walk must not believe it."""
    edit = {"features": 2}
    model = polycal.load(forged(file, lambda m, a: m["state"].update(edit)))
    with pytest.raises(ValueError, match="X has 2 features; the trees ask for 4"):
        model.predict_proba(np.zeros((3, 2)))


def test_a_forged_number_of_threads_starts_few(file, small):
    model = polycal.load(forged(file, lambda m, a: m["parameters"]["values"].update(n_jobs=10**9)))
    assert_array_equal(model.predict_proba(small[1]), small[2])


def test_the_depth_of_trees_is_not_believed(file, small):
    """scikit-learn writes a path into as much memory as the depth says."""
    known = polycal.load(file).estimator_
    model = polycal.load(forged(file, lambda m, a: a["trees.depth"].fill(0)))
    X = small[1]
    paths, _ = model.estimator_.decision_path(X)
    wanted, _ = known.decision_path(X)
    assert_array_equal(paths.toarray(), wanted.toarray())
    assert [t.tree_.max_depth for t in known.estimators_] == [
        t.tree_.max_depth for t in model.estimator_.estimators_
    ]


def test_a_byte_of_two_is_true(tmp_path):
    write(tmp_path / "m", {}, {"flags": np.array([0, 2, 1], np.uint8).view(bool)})
    _, arrays = read(tmp_path / "m")
    assert_array_equal(arrays["flags"].view(np.uint8), [0, 1, 1])


def test_trees_of_other_features_do_not_walk(iris):
    X, y = iris
    wide = np.hstack([X, X])
    forest = small_forest(n_estimators=3).fit(X, y)
    assert walks_within(forest)
    forest.estimators_[1] = DecisionTreeClassifier().fit(wide, y)
    assert not walks_within(forest)
    boosted = GradientBoostingRegressor(n_estimators=2).fit(X, y)
    assert walks_within(boosted)
    boosted.estimators_[1, 0] = GradientBoostingRegressor(n_estimators=1).fit(wide, y)[0][0]
    assert not walks_within(boosted)
    lonely = IsolationForest(n_estimators=2, max_features=2).fit(X)
    assert walks_within(lonely)
    lonely.estimators_features_[0] = np.array([0])
    assert not walks_within(lonely)


def test_categories_that_the_bins_do_not_know(iris):
    """scikit-learn looks a category up among those of the bins, without a check."""
    X, y = iris
    codes = np.round(X)
    model = HistGradientBoostingClassifier(
        max_iter=3, min_samples_leaf=3, categorical_features=[0, 1, 2, 3]
    ).fit(codes, y)
    assert walks_within(model)
    model._bin_mapper.is_categorical_ = np.zeros(4, dtype=np.uint8)
    assert not walks_within(model)


def test_estimators_with_unchecked_compiled_code_need_trust(iris, tmp_path):
    X, y = iris
    chosen = make_pipeline(SelectFromModel(SVC(kernel="linear")), small_forest())
    model = GeodesicCalibrator(chosen, calibration="holdout", random_state=0).fit(X, y)
    model.save(tmp_path / "m")
    with pytest.raises(UnknownTypeError, match=r"sklearn.svm._classes.SVC.*trusted="):
        polycal.load(tmp_path / "m")
    loaded = polycal.load(tmp_path / "m", trusted=[SVC])
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_forged_attributes_of_lightgbm(iris, tmp_path):
    X, y = iris
    model = GeodesicCalibrator(lightgbm(), calibration="holdout", random_state=0).fit(X, y)
    model.save(tmp_path / "m")

    def edit(manifest, arrays):
        pairs = manifest["parent"]["more"]["dict"]
        pairs[[key for key, _ in pairs].index("_other_params")][1] = [1]

    with pytest.raises(AlteredFileError):
        polycal.load(forged(tmp_path / "m", edit))


@pytest.mark.parametrize(
    "edit",
    [
        lambda m, a: m["parent"]["state"][0].pop(),
        lambda m, a: m["parent"]["state"][0].__setitem__(1, "bfloat16"),
        lambda m, a: m["parent"]["parameters"]["values"].update(forward=1),
    ],
    ids=["entry", "type", "parameter"],
)
def test_forged_weights(edit, blobs, tmp_path):
    X, y = blobs
    net = torch_net(X[:300].astype(np.float32), y[:300])
    model = GeodesicCalibrator(net).fit(
        X[:300].astype(np.float32), y[:300], X_cal=X[300:].astype(np.float32), y_cal=y[300:]
    )
    model.save(tmp_path / "m")
    with pytest.raises(AlteredFileError):
        polycal.load(forged(tmp_path / "m", edit), net)
