"""Which file of a package imports which: read from the sources, nothing is executed.

An import of a name from a package counts as an import of the module that defines the name: a
package's `__init__` is the set of the names that it lists, eagerly, under `TYPE_CHECKING` or in a
table for `__getattr__`. A package that is imported whole counts as the names that are then taken
from it. Four kinds of imports are told apart:

* `"eager"`: executed when the file is imported;
* `"local"`: inside a function, executed when it is called;
* `"named"`: a text for `import_module`, or `"module:name"`;
* `"typing"`: under `if TYPE_CHECKING:`, for type checkers only.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

RUNNING = ("eager", "local", "named")
_ENTRY_POINT = re.compile(r"[\w.]+:[\w.]+")


@dataclass(frozen=True)
class Import:
    """One import of a module or of another package, by a module, with its kind and line."""

    source: str
    target: str
    kind: str
    line: int

    def __str__(self) -> str:
        """As an error message names it."""
        return f"{self.source}:{self.line} imports {self.target} ({self.kind})"


class Module:
    """A file of the package, parsed.

    Parameters
    ----------
    name
        Dotted name; a package's `__init__` has the name of the package.
    path
        The file.
    """

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path
        self.is_package = path.name == "__init__.py"
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)

    @cached_property
    def statements(self) -> list[tuple[ast.Import | ast.ImportFrom, str]]:
        """Import statements with their kinds."""
        return list(_statements(self.tree, "eager"))

    @cached_property
    def bindings(self) -> dict[str, tuple[str, str | None]]:
        """Names that import statements bind: a module and the name taken from it, if any."""
        bound: dict[str, tuple[str, str | None]] = {}
        for node, _ in self.statements:
            if isinstance(node, ast.ImportFrom):
                home = self.absolute(node)
                bound |= {alias.asname or alias.name: (home, alias.name) for alias in node.names}
            else:
                for alias in node.names:
                    whole = alias.name if alias.asname else alias.name.split(".")[0]
                    bound[alias.asname or whole] = (whole, None)
        return bound

    @cached_property
    def defined(self) -> set[str]:
        """Names of functions, classes and variables that the file itself makes."""
        made = set()
        for node in self.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                made.add(node.name)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                made |= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        return made

    def absolute(self, node: ast.ImportFrom) -> str:
        """Full name of the module that names are imported from."""
        if not node.level:
            return node.module or ""
        package = self.name if self.is_package else self.name.rpartition(".")[0]
        parts = package.split(".")
        return ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [node.module])])


class ImportGraph:
    """The modules of a package and the imports between them.

    Parameters
    ----------
    folder
        Folder of the package, with its `__init__.py`.
    """

    def __init__(self, folder: Path) -> None:
        self.package = folder.name
        self.modules: dict[str, Module] = {}
        for path in sorted(folder.rglob("*.py")):
            parts = [self.package, *path.relative_to(folder).with_suffix("").parts]
            name = ".".join(parts).removesuffix(".__init__")
            self.modules[name] = Module(name, path)

    @cached_property
    def imports(self) -> list[Import]:
        """Imports of modules of the package, resolved; lists of names in packages left out."""
        found = []
        for module in self.modules.values():
            found += [*self._by_statements(module), *self._by_text(module)]
        return sorted(set(found), key=lambda item: (item.source, item.line, item.target))

    @cached_property
    def third_party(self) -> list[Import]:
        """Imports of other packages, by the name of the top-level package."""
        found = set()
        for module in self.modules.values():
            for node, kind in module.statements:
                names = (
                    [module.absolute(node)]
                    if isinstance(node, ast.ImportFrom)
                    else [alias.name for alias in node.names]
                )
                tops = {name.split(".")[0] for name in names} - {self.package, "__future__"}
                found |= {Import(module.name, top, kind, node.lineno) for top in tops}
        return sorted(found, key=lambda item: (item.source, item.line, item.target))

    def edges(self, kinds: Collection[str] = RUNNING) -> dict[str, set[str]]:
        """Modules that each module imports, itself left out."""
        edges: dict[str, set[str]] = {name: set() for name in self.modules}
        for item in self.imports:
            if item.kind in kinds and item.target != item.source:
                edges[item.source].add(item.target)
        return edges

    def resolve(self, home: str, name: str | None, seen: tuple[str, ...] = ()) -> str | None:
        """Module that defines a name of a module or package; None if it is of another package."""
        if home.split(".")[0] != self.package:
            return None
        if name is None or home not in self.modules:
            return home if home in self.modules else None
        module = self.modules[home]
        if not module.is_package:
            return home
        further = module.bindings.get(name)
        if further is not None and name not in module.defined and f"{home}.{name}" not in seen:
            found = self.resolve(*further, seen=(*seen, f"{home}.{name}"))
            if found is not None:
                return found
        return f"{home}.{name}" if f"{home}.{name}" in self.modules else home

    def _by_statements(self, module: Module) -> Iterator[Import]:
        for node, kind in module.statements:
            if kind == "typing" and module.is_package:
                continue  # the list of a package's names
            home = module.absolute(node) if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                taken = (home, alias.name) if home else (alias.name, None)
                target = self.resolve(*taken)
                if target is None:
                    continue
                bound = alias.asname or alias.name
                for found in self._behind(module, target, bound if home or alias.asname else None):
                    yield Import(module.name, found, kind, node.lineno)

    def _behind(self, module: Module, target: str, bound: str | None) -> Iterable[str]:
        """The modules whose names are taken from a package that is bound whole."""
        if not self.modules[target].is_package:
            return [target]
        chains = (
            [chain[1:] for chain in _chains(module.tree) if chain[0] == bound]
            if bound is not None
            else [c[target.count(".") + 1 :] for c in _chains(module.tree)
                  if ".".join(c).startswith(f"{target}.")]
        )  # fmt: skip
        found = {self._follow(target, chain) for chain in chains if chain}
        return sorted(found) or [target]

    def _follow(self, package: str, chain: list[str]) -> str:
        """Module reached from a package by attributes."""
        home = package
        for name in chain:
            reached = self.resolve(home, name)
            if reached is None or not self.modules[reached].is_package or reached == home:
                return reached or home
            home = reached
        return home

    def _by_text(self, module: Module) -> Iterator[Import]:
        for node, text in _named_modules(module.tree):
            name, _, attribute = text.partition(":")
            if name in self.modules and not module.is_package:
                target = self.resolve(name, attribute or None) or name
                yield Import(module.name, target, "named", node.lineno)


def _named_modules(tree: ast.AST) -> Iterator[tuple[ast.Constant, str]]:
    """Texts that are arguments of `import_module`, or of the form `module:name`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            for text in node.args:
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    yield text, text.value
        elif isinstance(node, ast.Constant) and _ENTRY_POINT.fullmatch(str(node.value)):
            yield node, str(node.value)


def _statements(node: ast.AST, kind: str) -> Iterator[tuple[ast.Import | ast.ImportFrom, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child, kind
        elif isinstance(child, ast.If) and _is_type_checking(child.test):
            for inner in child.body:
                yield from _statements(ast.Module([inner], []), "typing")
            for inner in child.orelse:
                yield from _statements(ast.Module([inner], []), kind)
        elif not isinstance(child, ast.expr):  # which holds no statement
            inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
            yield from _statements(child, "local" if inside and kind == "eager" else kind)


def _is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test).rpartition(".")[2] == "TYPE_CHECKING"


def _chains(tree: ast.AST) -> list[list[str]]:
    """Dotted names in a file as lists: `a.b.c` gives [a, b, c], and so do its beginnings."""
    chains = []
    for node in ast.walk(tree):
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if parts and isinstance(node, ast.Name):
            chains.append([node.id, *reversed(parts)])
    return chains


def circles(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Sets of two nodes or more that all reach each other, largest first (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in edges.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            start = stack.index(node)
            found.append(sorted(stack[start:]))
            del stack[start:]

    for node in edges:
        if node not in index:
            visit(node)
    return sorted((c for c in found if len(c) > 1), key=lambda c: (-len(c), c))
