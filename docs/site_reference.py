"""Pages of the reference: one for each public name, written from the packages' own lists.

A name is public where a package of `PACKAGES` imports it. It has one page, under the shortest path
by which it can be imported; tables of other packages refer to that page.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parent / "reference"
# What each package is for, in the order of the reference.
PACKAGES = {
    "coupledgp": "What most people import: `import coupledgp as cgp`",
    "coupledgp.diagnostics": "Reports, audits, scores and rivals",
    "coupledgp.likelihoods": "Laws of observations given the function",
    "coupledgp.kernels": "Kernels of rows, places, nodes and times",
    "coupledgp.couplings": "Joint laws of frequencies and of walkers",
    "coupledgp.features": "Samples turned into matrices",
    "coupledgp.theory": "Errors before a model is fitted",
    "coupledgp.graphs": "Graphs",
    "coupledgp.fields": "Surfaces, networks with lengths, places on them, and their files",
    "coupledgp.attention": "Attention in linear time",
    "coupledgp.dask": "Estimators on a cluster",
    "coupledgp.testing": "Contracts that test classes of your own",
    "coupledgp.cli": "The command line as a function",
}


def names_of(module: ModuleType) -> list[str]:
    """Public names of a package, without modules and what it takes to import names later."""
    names = getattr(module, "__all__", set(dir(module)) - {"TYPE_CHECKING", "attach"})
    found = [name for name in names if not name.startswith("_")]
    return sorted(
        (name for name in found if not isinstance(getattr(module, name), ModuleType)),
        key=str.lower,
    )


def public_names() -> dict[str, list[tuple[str, str]]]:
    """By package, its public names and the path of the page of each; modules are left out."""
    pages: dict[int, str] = {}
    found: dict[str, list[tuple[str, str]]] = {}
    for package in PACKAGES:
        module = import_module(package)
        found[package] = [
            (name, pages.setdefault(id(getattr(module, name)), f"{package}.{name}"))
            for name in names_of(module)
        ]
    return found


def value_of(path: str) -> object:
    """Return the object of a public path."""
    package, _, name = path.rpartition(".")
    return getattr(import_module(package), name)


def summary(path: str) -> str:
    """First sentence of what a name is documented to be."""
    value = value_of(path)
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return "A value; its page shows it."
    text = (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ")
    first = text.partition(". ")[0]
    return text if first.count("`") % 2 else first.rstrip(".") + "."


def page(path: str) -> str:
    """Page of one name."""
    package, _, name = path.rpartition(".")
    value = value_of(path)
    title = f":orphan:\n\n{name}\n{'=' * len(name)}\n\n"
    title += f"Of :doc:`{package} <../{package}>`.\n\n"
    lines = f".. currentmodule:: {package}\n\n"
    if inspect.isclass(value):
        lines += f".. autoclass:: {name}\n   :members:\n   :inherited-members:\n"
    elif inspect.isroutine(value):
        lines += f".. autofunction:: {name}\n"
    else:
        lines += f".. py:data:: {name}\n\n   ::\n\n      {value!r}\n"
    return title + lines


def table(package: str, names: list[tuple[str, str]]) -> str:
    """Page of a package: what it is for, and its names with what they are."""
    rows = "".join(
        f"* - :doc:`{name} <names/{path}>`\n  - {summary(path)}\n" for name, path in names
    )
    return (
        f"{package}\n{'=' * len(package)}\n\n{PACKAGES[package]}.\n\n"
        ".. list-table::\n   :widths: 30 70\n\n"
        + "".join(f"   {line}\n" for line in rows.splitlines())
    )


def index(packages: list[str]) -> str:
    """First page of the reference: what each package is for."""
    rows = "".join(f"   * - :doc:`{name}`\n     - {PACKAGES[name]}\n" for name in packages)
    tree = "".join(f"   {name}\n" for name in packages)
    head = "Reference\n=========\n\nEvery public name, by the package that lists it.\n\n"
    table = f".. list-table::\n   :widths: 30 70\n\n{rows}\n"
    return f"{head}{table}.. toctree::\n   :hidden:\n\n{tree}"


def write() -> None:
    """Write all pages anew; what has not changed keeps its time, so that builds go on from it."""
    found = public_names()
    texts = {f"names/{path}.rst": page(path) for names in found.values() for _, path in names}
    texts |= {f"{package}.rst": table(package, names) for package, names in found.items()}
    texts["index.rst"] = index(list(found))
    names = FOLDER / "names"
    names.mkdir(parents=True, exist_ok=True)
    for old in [*FOLDER.glob("*.rst"), *names.glob("*.rst")]:
        if str(old.relative_to(FOLDER)) not in texts:
            old.unlink()
    for name, text in texts.items():
        file = FOLDER / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
