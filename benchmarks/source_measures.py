"""Measures of sources: accesses to privates, lengths of functions, shapes in docstrings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
# Public methods of named tuples, whose names begin with an underscore.
NAMED_TUPLE = {"_fields", "_replace", "_asdict", "_make", "_field_defaults"}
CHANGES = {"update", "pop", "clear", "setdefault", "popitem", "__setitem__", "__delitem__"}
ARRAYS = re.compile(
    r"\b(FloatArray|IntArray|ComplexArray|ArrayLike|NDArray|ndarray|Tensor|csr_array|csr_matrix)\b"
)
_SIZE = r"(?:[A-Za-z]\w?|n_\w+|\d+(?:\s+[A-Za-z]\w?)?|\.\.\.|\*\w+)"
_SUM = rf"{_SIZE}(?:\s*[-+*/]\s*{_SIZE})*"
# A tuple of sizes: short names, `n_...`, numbers, `...`, `*batch`, their sums and products; `()`;
# any tuple after the word shape; or "of any shape".
SHAPE = re.compile(rf"\(\)|\((?:{_SUM}),\s*(?:{_SUM}(?:,\s*{_SUM})*)?\)|shapes? \(|any shape")


@dataclass(frozen=True)
class Function:
    """A function or method in a file.

    Attributes
    ----------
    node : FunctionDef or AsyncFunctionDef
    owners : tuple of str
        Names of the classes and functions around it, from the outside.
    docstring : str or None
        Its own; of a constructor, that of its class.
    """

    node: FunctionNode
    owners: tuple[str, ...]
    docstring: str | None

    @property
    def is_public(self) -> bool:
        """Whether neither its name nor one around it begins with an underscore."""
        names = [n for n in (*self.owners, self.node.name) if n != "__init__"]
        return not any(name.startswith("_") for name in names) and "<function>" not in self.owners

    @property
    def takes_arrays(self) -> bool:
        """Whether the annotation of an argument names an array."""
        arguments = self.node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
        return any(a.annotation and ARRAYS.search(ast.unparse(a.annotation)) for a in every)

    @property
    def names_shapes(self) -> bool:
        """Whether its docstring has a shape such as `(n, d)` or `(m,)`."""
        return self.docstring is not None and SHAPE.search(self.docstring) is not None

    @property
    def length(self) -> int:
        """Lines of the body, from the first statement after the docstring to the last."""
        body = self.node.body
        own = body[1:] if ast.get_docstring(self.node) is not None else body
        return 0 if not own else (own[-1].end_lineno or 0) - own[0].lineno + 1


def functions(
    tree: ast.AST, owners: tuple[str, ...] = (), about: str | None = None
) -> Iterator[Function]:
    """All functions of a file, those within classes and functions included."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, FunctionNode):
            own = ast.get_docstring(node)
            yield Function(node, owners, about if node.name == "__init__" else own)
            yield from functions(node, (*owners, "<function>"))
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, (*owners, node.name), ast.get_docstring(node))
        else:
            yield from functions(node, owners, about)


def foreign_privates(tree: ast.AST) -> list[str]:
    """Accesses `x._name` where x is not `self`, `cls` or `super()`, in order, as texts.

    Names with two underscores and the public methods of named tuples are left out.
    """
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_"):
            continue
        if node.attr.startswith("__") or node.attr in NAMED_TUPLE:
            continue
        owner = ast.unparse(node.value)
        if owner not in ("self", "cls", "super()"):
            found.append(f"{node.lineno}: {owner}.{node.attr}")
    return found


def writes_to_dicts(tree: ast.AST) -> list[str]:
    """Changes of an object's `__dict__` or `vars(...)`: assignments and calls that change it."""
    found = []
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        elif isinstance(node, ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            targets = [node.func.value] if node.func.attr in CHANGES else []
        found += [f"{t.lineno}: {ast.unparse(t)}" for t in targets if _is_dict_of_object(t)]
    return found


def _is_dict_of_object(node: ast.expr) -> bool:
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "vars" and bool(node.args)
    return isinstance(node, ast.Attribute) and node.attr == "__dict__"
