"""The layers are acyclic: a module imports only from layers below its own, or its own."""

from __future__ import annotations

import ast
from pathlib import Path

import polycal

ROOT = Path(polycal.__file__).parent
LAYERS = {
    "_utils": 0,
    "core": 1,
    "parents": 2,
    "kernels": 2,
    "metrics": 2,
    "simulations": 2,
    "posterior": 3,
    "gate": 3,
    "calibration": 4,
    "estimators": 5,
    "evaluation": 6,
    "persistence": 6,
    "plotting": 6,
    "reporting": 7,
    "cli": 8,
    "__init__": 8,
}
# model.save, inside the method: the one look upwards.
UPWARDS = ("estimators", "persistence")
# Two packages of one layer that must not know each other.
STRANGERS = {("parents", "kernels"), ("kernels", "parents")}


def imports(path: Path):
    """Top-level polycal modules that a file imports relatively."""
    depth = len(path.relative_to(ROOT).parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            names = [node.module] if node.module else [alias.name for alias in node.names]
            yield from (name.split(".")[0] for name in names)


def graph():
    for path in ROOT.rglob("*.py"):
        relative = path.relative_to(ROOT)
        module = relative.parts[0] if len(relative.parts) > 1 else path.stem
        for other in imports(path):
            if other != module and (module, other) != UPWARDS:
                yield module, other


def test_every_module_has_a_layer():
    modules = {
        p.stem if p.is_file() else p.name
        for p in ROOT.iterdir()
        if not p.name.startswith("__pycache__") and p.name != "py.typed"
    }
    assert modules == set(LAYERS)


def test_imports_point_downwards():
    edges = set(graph())
    assert ("estimators", "kernels") in edges  # the search itself works
    for module, other in edges:
        assert LAYERS[other] <= LAYERS[module], f"{module} imports {other} from a higher layer"
        assert (module, other) not in STRANGERS


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
