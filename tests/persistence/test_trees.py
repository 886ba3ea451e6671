"""Trees come back node for node, with a depth that is not the file's word."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import polycal
from polycal import GeodesicCalibrator
from polycal.persistence import AlteredFileError
from polycal.persistence.trees import Trees
from polycal.persistence.values import Packer, Unpacker
from tests.toys.model_files import PARENTS, forged


@pytest.mark.parametrize("name", ["forest", "best first", "entropy", "class weights"])
def test_trees_come_back_node_for_node(name, rows):
    X, y = rows
    forest = PARENTS[name]().fit(X, y)
    trees = [tree.tree_ for tree in forest.estimators_]
    packer = Packer()
    node = Trees.from_sklearn(trees).pack(packer, "trees")
    derived = {
        "forest": ["children", "weight", "value", "impurity"],
        "best first": ["weight", "value", "impurity"],
        "entropy": ["children", "weight", "value"],
        "class weights": ["children", "counts"],
    }
    assert [key for key, part in node.items() if part is None] == derived[name]
    found = Trees.unpack(Unpacker(packer.arrays), node, 5)
    for ours, theirs in zip(found.build(5, np.array([2])), trees, strict=True):
        a, b = ours.__getstate__(), theirs.__getstate__()
        assert a["max_depth"] == b["max_depth"]
        assert_array_equal(a["values"], b["values"])
        inner = b["nodes"]["left_child"] >= 0
        for field in b["nodes"].dtype.names:
            # scikit-learn leaves this field of a leaf as the memory was.
            rows_of = inner if field == "missing_go_to_left" else slice(None)
            assert_array_equal(a["nodes"][field][rows_of], b["nodes"][field][rows_of])


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


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.5, 3.0])
def test_leaves_without_probabilities_are_refused(value, rows, tmp_path):
    parent = PARENTS["class weights"]()
    GeodesicCalibrator(parent, calibration="holdout", random_state=0).fit(*rows).save(
        tmp_path / "m"
    )

    def edit(manifest, arrays):
        arrays["trees.value"] = arrays["trees.value"].copy()
        arrays["trees.value"][-1, 0, 0] = value

    with pytest.raises(AlteredFileError, match="trees"):
        polycal.load(forged(tmp_path / "m", edit))
