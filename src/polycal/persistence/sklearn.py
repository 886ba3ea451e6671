"""Any other scikit-learn estimator, through skops: without pickle, and only trusted types.

skops does not trust trees, since scikit-learn walks down them without checks. They are taken out of
the estimator, stored as arrays, and put back once they are checked.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._utils.sklearn_compat import PREDICTOR_RECORD_DTYPE, Tree, TreePredictor, walks_within
from .errors import AlteredFileError, ModelFileError, UnknownTypeError
from .trees import Trees
from .values import Packer, Unpacker, expect_keys, expect_type

# Types beyond those that skops itself trusts. All hold settings and run nothing of their own.
TRUSTED = (
    "functools.partial",
    "numpy.dtype",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.utils.validation.check_array",
)
# Parts of scikit-learn whose estimators a file may hold. Those of the others (support vector
# machines, clusters, neighbours) use numbers of the file as indices in compiled code, unchecked.
PACKAGES = frozenset(
    [
        "_loss",
        "base",
        "calibration",
        "compose",
        "cross_decomposition",
        "decomposition",
        "discriminant_analysis",
        "dummy",
        "ensemble",
        "feature_extraction",
        "feature_selection",
        "frozen",
        "impute",
        "isotonic",
        "kernel_approximation",
        "linear_model",
        "model_selection",
        "multiclass",
        "multioutput",
        "naive_bayes",
        "neural_network",
        "pipeline",
        "preprocessing",
        "random_projection",
        "tree",
        "utils",
    ]
)
BITSETS = ("binned_left_cat_bitsets", "raw_left_cat_bitsets")
# The key of a mark that replaces a tree; its value is the number of the tree.
HOLE = "polycal: tree"


def pack_sklearn(packer: Packer, estimator: Any, name: str = "parent") -> dict[str, Any]:
    """A fitted estimator, or a list of them; ``name`` is the prefix of its arrays' names."""
    import skops.io  # imports all of scikit-learn

    trees: list[Tree] = []
    predictors: list[TreePredictor] = []
    stripped = _strip(estimator, trees, predictors)
    try:
        content = skops.io.dumps(stripped)
        nameless = [t for t in skops.io.get_untrusted_types(data=content) if "<" in t]
        if nameless:
            raise TypeError(", ".join(nameless))
    except Exception as error:  # skops raises what the object's own methods raise
        raise UnknownTypeError(
            f"{type(estimator).__name__} holds an object that a model file does not hold: {error}. "
            "Use functions and classes that can be imported by name."
        ) from error
    groups: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for number, tree in enumerate(trees):
        groups.setdefault((tree.n_features, tuple(tree.n_classes.tolist())), []).append(number)
    return {
        "kind": "sklearn",
        "skops": packer.bytes(f"{name}.skops", content),
        "trees": [
            {
                "places": numbers,
                "n_features": n_features,
                "n_classes": list(n_classes),
                "trees": Trees.from_sklearn([trees[i] for i in numbers]).pack(
                    packer, f"{name}.trees"
                ),
            }
            for (n_features, n_classes), numbers in groups.items()
        ],
        "predictors": _pack_predictors(packer, predictors, name) if predictors else None,
    }


def unpack_sklearn(reader: Unpacker, node: Any, trusted: Sequence[Any]) -> Any:
    """The estimator or list that ``pack_sklearn`` stored, if all its types are trusted."""
    _, content, groups, predictors = expect_keys(node, "kind", "skops", "trees", "predictors")
    holes: dict[int, Any] = {}
    for group in expect_type(list, groups):
        numbers, n_features, n_classes, trees = expect_keys(
            group, "places", "n_features", "n_classes", "trees"
        )
        found = Trees.unpack(reader, trees, expect_type(int, n_features))
        sizes = np.array(
            [expect_type(int, size) for size in expect_type(list, n_classes)], dtype=np.intp
        )
        if found.shape != (len(sizes), sizes.max(initial=0)) or len(
            expect_type(list, numbers)
        ) != len(found.n_nodes):
            raise AlteredFileError("the trees of the file do not fit their classes.")
        built = found.build(n_features, sizes)
        holes |= zip((expect_type(int, number) for number in numbers), built, strict=True)
    if predictors is not None:
        holes |= {-1 - i: p for i, p in enumerate(_unpack_predictors(reader, predictors))}
    stripped = _load(reader.bytes(content), trusted)
    try:
        return _fill(stripped, holes)
    except ModelFileError:
        raise
    except Exception as error:  # attributes that are missing or of another type
        raise AlteredFileError(f"the estimator of the file is not complete: {error}.") from error


def _load(content: bytes, trusted: Sequence[Any]) -> Any:
    import skops.io

    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            parts = archive.infolist()
            if any(part.compress_type or part.file_size > len(content) for part in parts):
                raise AlteredFileError(
                    "the file holds a compressed estimator; polycal writes none."
                )
            named = _named(json.loads(archive.read("schema.json")))
        needed = skops.io.get_untrusted_types(data=content)
    except ModelFileError:
        raise
    except Exception as error:  # a crafted archive can raise anything
        raise AlteredFileError(f"the file holds no readable estimator: {error}.") from error
    allowed = [*TRUSTED, *(t if isinstance(t, str) else _name(t) for t in trusted)]
    foreign = {n for n in named if n.startswith("sklearn.") and n.split(".")[1] not in PACKAGES}
    unknown = sorted({*needed, *foreign} - {*allowed})
    if unknown:
        raise UnknownTypeError(
            f"the model holds {', '.join(unknown)}, which polycal does not know to be safe. If you "
            f"know where the file comes from, use polycal.load(path, trusted={unknown})."
        )
    try:
        return skops.io.loads(content, trusted=needed)
    except Exception as error:
        raise AlteredFileError(f"the file holds no readable estimator: {error}.") from error


def _named(schema: Any) -> set[str]:
    """Types that a schema of skops names."""
    if isinstance(schema, list):
        return set().union(*map(_named, schema))
    if not isinstance(schema, dict):
        return set()
    own = {f"{schema['__module__']}.{schema['__class__']}"} if "__class__" in schema else set()
    return own.union(*map(_named, schema.values()))


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _strip(value: Any, trees: list[Tree], predictors: list[TreePredictor]) -> Any:
    """A copy with a mark instead of each tree; what holds no tree is not copied deeply."""
    if isinstance(value, Tree):
        trees.append(value)
        return {HOLE: len(trees) - 1}
    if isinstance(value, TreePredictor):
        predictors.append(value)
        return {HOLE: -len(predictors)}
    if type(value) in (list, tuple):
        return type(value)(_strip(item, trees, predictors) for item in value)
    if type(value) is dict:
        return {key: _strip(item, trees, predictors) for key, item in value.items()}
    if isinstance(value, np.ndarray) and value.dtype == object:
        filled = np.empty(value.shape, dtype=object)
        for position in np.ndindex(value.shape):
            filled[position] = _strip(value[position], trees, predictors)
        return filled
    if isinstance(value, BaseEstimator):
        shallow = copy(value)
        vars(shallow).update(
            {key: _strip(item, trees, predictors) for key, item in vars(value).items()}
        )
        return shallow
    return value


def _fill(value: Any, holes: dict[int, Any]) -> Any:
    """The trees again instead of the marks; every estimator is checked with its trees."""
    if type(value) is dict and value.keys() == {HOLE}:
        if value[HOLE] not in holes:
            raise AlteredFileError("the file lacks a tree.")
        return holes[value[HOLE]]
    if type(value) in (list, tuple):
        return type(value)(_fill(item, holes) for item in value)
    if type(value) is dict:
        return {key: _fill(item, holes) for key, item in value.items()}
    if isinstance(value, np.ndarray) and value.dtype == object:
        for position in np.ndindex(value.shape):
            value[position] = _fill(value[position], holes)
    elif isinstance(value, BaseEstimator):
        state = vars(value)
        state.update({key: _fill(item, holes) for key, item in state.items()})
        if not walks_within(value):
            raise AlteredFileError("the file holds trees that cannot be walked.")
    return value


def _pack_predictors(packer: Packer, predictors: list[TreePredictor], name: str) -> dict[str, Any]:
    nodes = [predictor.nodes for predictor in predictors]
    every = np.concatenate(nodes)
    names = PREDICTOR_RECORD_DTYPE.names or ()
    node = {field: packer.array(f"{name}.nodes.{field}", every[field]) for field in names}
    sizes = {"nodes": np.array([len(part) for part in nodes])}
    for part in BITSETS:
        bits = [getattr(predictor, part) for predictor in predictors]
        node[part] = packer.array(f"{name}.{part}", np.concatenate(bits))
        sizes[part] = np.array([len(one) for one in bits])
    return {
        "arrays": node,
        "sizes": {part: packer.array(f"{name}.sizes.{part}", n) for part, n in sizes.items()},
    }


def _unpack_predictors(reader: Unpacker, node: Any) -> list[TreePredictor]:
    arrays, sizes = expect_keys(node, "arrays", "sizes")
    names = PREDICTOR_RECORD_DTYPE.names or ()
    parts = dict(zip((*names, *BITSETS), expect_keys(arrays, *names, *BITSETS), strict=True))
    found = {key: reader.array(part) for key, part in parts.items()}
    lengths = [reader.array(part) for part in expect_keys(sizes, "nodes", *BITSETS)]
    n = len(found["value"])
    fits = all(
        found[key].shape == (n,) and found[key].dtype == PREDICTOR_RECORD_DTYPE[key]
        for key in names
    )
    totals = (n, *(len(found[part]) for part in BITSETS))
    fits &= all(
        size.dtype == np.int64
        and size.shape == lengths[0].shape
        and size.ndim == 1
        and (size >= 0).all()
        and (size <= total).all()
        and size.sum() == total
        for size, total in zip(lengths, totals, strict=True)
    )
    fits &= bool(np.isfinite(found["value"]).all())
    fits &= all(found[part].dtype == np.uint32 and found[part].ndim == 2 for part in BITSETS)
    if not fits:
        raise AlteredFileError("the boosted trees of the file do not fit their sizes.")
    nodes = np.zeros(n, dtype=PREDICTOR_RECORD_DTYPE)
    for key in names:
        nodes[key] = found[key]
    cuts = [np.cumsum(size)[:-1] for size in lengths]
    pieces = zip(
        np.split(nodes, cuts[0]),
        *(np.split(found[part], cut) for part, cut in zip(BITSETS, cuts[1:], strict=True)),
        strict=True,
    )
    # Copies: an array of its own for each tree, as after a fit.
    return [TreePredictor(*(piece.copy() for piece in three)) for three in pieces]
