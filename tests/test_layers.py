"""The source keeps its order: layers, private names, and options that become objects."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import polycal

ROOT = Path(polycal.__file__).parent
# From the bottom to the top. A package imports from rows below its own, never from its own row.
LAYERS = (
    {"_utils"},
    {"core"},
    {"parents", "kernels", "metrics", "simulations", "datasets", "decisions"},
    {"posterior", "gate"},
    {"calibration"},
    {"monitoring"},
    {"estimators"},
    {"evaluation", "persistence", "plotting"},
    {"reporting"},
    {"mlflow"},
    {"cli", "__init__"},
)
LEVEL = {package: level for level, packages in enumerate(LAYERS) for package in packages}
# model.save, inside the method: the one look upwards.
UPWARDS = ("estimators", "persistence")
# Beyond the layers: what a package has no business with, though it lies below.
UNRELATED = {
    ("gate", "metrics"),
    ("gate", "parents"),
    ("gate", "simulations"),
    ("posterior", "parents"),
    ("posterior", "simulations"),
    ("calibration", "simulations"),
    ("calibration", "decisions"),
    ("decisions", "core"),
    ("metrics", "core"),
    ("simulations", "core"),
    ("plotting", "parents"),
    ("plotting", "kernels"),
}
# Attributes with a leading underscore that are not of self, and why there is no other way.
# "*": any name of these files, which are there to know a library's insides.
PRIVATE = {
    "_utils/sklearn_compat.py": {"*": "scikit-learn's private names, in this file alone"},
    "_utils/compiled.py": {"*": "Numba's cache, which offers no other way to a read-only folder"},
    "persistence/boosting.py": {"*": "fitted state of XGBoost and LightGBM, which offer no other"},
    "parents/keras.py": {"_nodes_by_depth": "Keras has no public list of a graph's nodes"},
    "parents/torch/inference.py": {"_orig_mod": "the module inside one that torch.compile made"},
    "parents/torch/plan.py": {"_orig_mod": "the module inside one that torch.compile made"},
    "estimators/batches.py": dict.fromkeys(("_parts", "_priority"), "of another Sample"),
    "estimators/dask_fit.py": {"*": "the calibrator's own steps, on workers, where self is not"},
    "estimators/streaming.py": {"_make_parent": "of the estimator that available_if asks about"},
    "core/table.py": {"_with_symbols": "a classmethod on the object that it has made"},
    "core/copies.py": dict.fromkeys(("_hashes", "_limit"), "of another LowestHashes"),
    "cli/alarms.py": {"_asdict": "public name of every NamedTuple"},
    "cli/app.py": {"_asdict": "public name of every NamedTuple"},
    "evaluation/result.py": {"_fields": "public name of every NamedTuple"},
}
OPTIONS = {"pooled", "geodesic", "gaussian", "polytope", "euclidean", "oob", "holdout"}
# Where an option may be compared: validation, the objects made of options, and old files.
READS_OPTIONS = ("estimators/", "calibration/fit.py", "persistence/format1.py")


def sources():
    """Every file: its path relative to the package, and its syntax tree."""
    for path in sorted(ROOT.rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text("utf-8"))


def package_of(path):
    """Top-level package of a file, or its own name."""
    return path.split("/")[0].removesuffix(".py")


def imports(path, tree):
    """Top-level packages of polycal that a file imports."""
    depth = path.count("/") + 1
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            names = [node.module] if node.module else [alias.name for alias in node.names]
            yield from (name.split(".")[0] for name in names)


def graph():
    """Pairs of a package and another one that it imports."""
    for path, tree in sources():
        module = package_of(path)
        for other in imports(path, tree):
            if other != module and (module, other) != UPWARDS:
                yield module, other


def absolute_imports(tree):
    """Modules of polycal that are imported by their full name, past the search above."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module]
        yield from (name for name in names if name.split(".")[0] == "polycal")


def private_attributes(tree):
    """Attributes ``x._name`` where x is neither self, cls nor super()."""
    own = {"self", "cls", "super()"}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or ast.unparse(node.value) in own:
            continue
        if node.attr.startswith("_") and not node.attr.startswith("__"):
            yield node.attr


def private_imports(path, tree):
    """Private names that a file imports from another package of polycal."""
    depth = path.count("/") + 1
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            parts = [*(node.module or "").split(".")[1:], *(alias.name for alias in node.names)]
            yield from (name for name in parts if name.startswith("_") and name != "_utils")


def compared_options(tree):
    """Option strings in comparisons, in ``match`` and as keys that are looked up."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Compare, ast.MatchValue)):
            inside = ast.walk(node)
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Dict):
            inside = node.value.keys  # {"pooled": ...}[option]
        else:
            continue
        yield from (c.value for c in inside if isinstance(c, ast.Constant) and c.value in OPTIONS)


def test_every_module_has_a_layer():
    modules = {
        p.stem if p.is_file() else p.name
        for p in ROOT.iterdir()
        if not p.name.startswith("__pycache__") and p.name != "py.typed"
    }
    assert modules == set(LEVEL)


def test_imports_point_downwards():
    edges = set(graph())
    assert ("estimators", "calibration") in edges  # the search itself works
    wrong = sorted(f"{module} imports {other}" for module, other in edges & UNRELATED)
    wrong += [
        f"{module} imports {other}, which is not below it"
        for module, other in sorted(edges)
        if LEVEL[other] >= LEVEL[module]
    ]
    assert not wrong


def test_no_cycles():
    edges: dict[str, set[str]] = {}
    for module, other in graph():
        edges.setdefault(module, set()).add(other)

    def visit(module, path):
        assert module not in path, f"cycle: {[*path, module]}"
        for other in edges.get(module, ()):
            visit(other, [*path, module])

    for module in edges:
        visit(module, [])


def test_the_one_look_upwards_is_inside_a_method():
    found = []
    for path, tree in sources():
        if package_of(path) != UPWARDS[0]:
            continue
        assert UPWARDS[1] not in imports(path, ast.Module(_top_level_imports(tree), []))
        found += [other for other in imports(path, tree) if other == UPWARDS[1]]
    assert len(found) == 1


def _top_level_imports(tree):
    return [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]


def test_imports_are_relative():
    found = {path: names for path, tree in sources() if (names := [*absolute_imports(tree)])}
    assert not found, "an absolute import is not seen by the tests above"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("model._landscape.density", ["_landscape"]),
        ("self.model._reference", ["_reference"]),
        ("self._own, cls._own, super()._own, x.__len__()", []),
    ],
)
def test_the_search_for_private_attributes_works(source, names):
    assert list(private_attributes(ast.parse(source))) == names


def test_private_attributes_belong_to_self():
    found, needed = [], set()
    for path, tree in sources():
        allowed = PRIVATE.get(path, {})
        for name in private_attributes(tree):
            key = "*" if "*" in allowed else name
            needed.add((path, key))
            if key not in allowed:
                found.append(f"{path}: {name}")
    assert not found, "give it a public name, or a reason in PRIVATE"
    listed = {(path, name) for path, names in PRIVATE.items() for name in names}
    assert listed == needed, "remove the rows that are not needed any more"


def test_no_package_imports_a_private_name_of_another():
    found = {path: names for path, tree in sources() if (names := [*private_imports(path, tree)])}
    assert not found


@pytest.mark.parametrize(
    "source",
    [
        'posterior == "pooled"',
        '"oob" != plan',
        'plan in ("oob", "cv")',
        'match gate:\n    case "gaussian":\n        pass',
        '{"geodesic": 1, "gaussian": 2}[gate]',
    ],
)
def test_the_search_for_options_works(source):
    assert list(compared_options(ast.parse(source)))
    assert not list(compared_options(ast.parse('Plan("oob"); f(gate="gaussian")')))


def test_options_become_objects_in_one_place():
    found = {path: names for path, tree in sources() if (names := {*compared_options(tree)})}
    assert "calibration/fit.py" in found
    wrong = {path: names for path, names in found.items() if not path.startswith(READS_OPTIONS)}
    assert not wrong, "take the object that Options.from_parameters makes of the option"
