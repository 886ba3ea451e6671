"""Small changes of a program, each of which a test should notice.

A change is an operator, a number, a condition or a function exchanged for a near one, or a
statement left out. Annotations, decorators, messages and words are left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

NEAR: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
_PAIRS = (
    ("min", "max"),
    ("minimum", "maximum"),
    ("argmin", "argmax"),
    ("any", "all"),
    ("zeros", "ones"),
    ("floor", "ceil"),
    ("log", "log1p"),
    ("exp", "expm1"),
    ("sum", "mean"),
    ("cumsum", "cumprod"),
)
NEAR_NAMES = dict(_PAIRS) | {there: here for here, there in _PAIRS}
# Numbers that only say which line of the caller a warning names.
NO_BEHAVIOUR = ("stacklevel",)


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    path: str
    number: int
    line: int
    what: str
    scope: str

    @property
    def key(self) -> str:
        """A name that stays while the file does."""
        return f"{self.path}:{self.line}:{self.number} {self.what}"


class _Changer(ast.NodeTransformer):
    """Counts all changes of a tree, and makes the wanted one."""

    def __init__(self, wanted: int = -1) -> None:
        self.wanted = wanted
        self.found: list[tuple[int, str, str]] = []
        self.scope: list[str] = []

    def visit(self, node: ast.AST) -> ast.AST:
        if _is_left_alone(node):
            return node
        named = isinstance(node, ast.FunctionDef | ast.ClassDef)
        if named:
            self.scope.append(node.name)
        made: ast.AST | None = None
        for what, change in changes(node):
            if len(self.found) == self.wanted:
                made = change()
            self.found.append((node.lineno, what, ".".join(self.scope)))  # type: ignore[attr-defined]
        if made is not None:
            return ast.copy_location(made, node)
        self._visit_parts(node)
        if named:
            self.scope.pop()
        return node

    def _visit_parts(self, node: ast.AST) -> None:
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params", "exc"):
                continue
            if isinstance(value, list):
                value[:] = [self.visit(v) if isinstance(v, ast.AST) else v for v in value]
            elif isinstance(value, ast.AST):
                setattr(node, name, self.visit(value))


def _is_left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0]) == "__all__"
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.keyword):
        return node.arg in NO_BEHAVIOUR
    return isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom)


def changes(node: ast.AST) -> Iterator[tuple[str, Callable[[], ast.AST]]]:
    """What a node may become, in words, and the function that makes it."""
    if isinstance(node, ast.Compare):
        for i, operator in enumerate(node.ops):
            if type(operator) in NEAR:
                yield _operator(node, operator), _with(node, ops=_put(node.ops, i))
    elif isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp):
        if type(node.op) in NEAR:
            yield _operator(node, node.op), _with(node, op=NEAR[type(node.op)]())
    elif isinstance(node, ast.UnaryOp):
        if not isinstance(node.op, ast.UAdd):
            yield f"{type(node.op).__name__} left out", lambda: node.operand
    elif isinstance(node, ast.Constant):
        yield from _constants(node)
    elif isinstance(node, ast.If | ast.IfExp):
        yield "not", _with(node, test=ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.Name) and node.id in NEAR_NAMES:
        yield f"{node.id} -> {NEAR_NAMES[node.id]}", _with(node, id=NEAR_NAMES[node.id])
    elif isinstance(node, ast.Attribute) and node.attr in NEAR_NAMES:
        yield f"{node.attr} -> {NEAR_NAMES[node.attr]}", _with(node, attr=NEAR_NAMES[node.attr])
    elif isinstance(node, ast.Break):
        yield "break -> continue", ast.Continue
    elif isinstance(node, ast.Continue):
        yield "continue -> break", ast.Break
    if isinstance(node, ast.Raise | ast.AugAssign) or _is_call(node) or _is_storing(node):
        yield "left out", ast.Pass


def _constants(node: ast.Constant) -> Iterator[tuple[str, Callable[[], ast.AST]]]:
    value, other = node.value, None
    if isinstance(value, bool):
        other = not value
    elif isinstance(value, int):
        other = value + 1
    elif isinstance(value, float):
        other = 2 * value if value else 1.0
    if other is not None:
        yield f"{value} -> {other}", lambda: ast.Constant(other)


def _is_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


def _is_storing(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and isinstance(
        node.targets[0], ast.Attribute | ast.Subscript
    )


def _operator(node: ast.AST, operator: ast.AST) -> str:
    return f"{type(operator).__name__} -> {NEAR[type(operator)].__name__}"


def _put(operators: list[ast.cmpop], i: int) -> list[ast.cmpop]:
    return [*operators[:i], NEAR[type(operators[i])](), *operators[i + 1 :]]


def _with(node: ast.AST, **parts: object) -> Callable[[], ast.AST]:
    return lambda: type(node)(**{**dict(ast.iter_fields(node)), **parts})


def mutants_of(root: Path, path: Path) -> list[Mutant]:
    """All changes of a file."""
    changer = _Changer()
    changer.visit(ast.parse(path.read_text("utf-8")))
    name = path.relative_to(root).as_posix()
    return [Mutant(name, i, *found) for i, found in enumerate(changer.found)]


def mutated(source: str, number: int) -> str:
    """The program with one change."""
    tree = _Changer(number).visit(ast.parse(source))
    return ast.unparse(ast.fix_missing_locations(tree))
