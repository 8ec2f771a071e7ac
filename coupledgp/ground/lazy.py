"""Public names of a package that are imported at their first use (PEP 562).

A package lists its names once, as type checkers read them; the interpreter reads the same lines:

    if TYPE_CHECKING:
        from coupledgp.graphs.graph import Graph as Graph
    else:
        __all__, __getattr__, __dir__ = attach(__name__)
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from coupledgp.ground.extras import named_extras

Attached = tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]
# `from module import name as name`, also over several lines in parentheses.
PUBLIC = re.compile(r"^    from ([\w.]+) import \(?\s*(\w+) as \2\b", re.MULTILINE)


def attach(package: str) -> Attached:
    """Return `__all__`, `__getattr__` and `__dir__` of a package.

    The public names are imported by the package's own text for type checkers. A name that is
    imported from the package itself is a submodule. Any other submodule is imported as well when it
    is asked for as an attribute, but not listed.

    Parameters
    ----------
    package
        The package's full name.

    Raises
    ------
    ImportError
        The package was installed without its text.
    """
    this = sys.modules[package]
    homes = public_names(this)
    public = sorted(homes)
    if any(module == f"{package}.{name}" for name, module in homes.items()):
        this.__class__ = _Package

    def get(name: str) -> Any:
        module = homes.get(name, package)
        if module != package:
            with named_extras():
                value = getattr(import_module(module), name)
            setattr(this, name, value)
            return value
        full = f"{package}.{name}"
        if name.startswith("_") or find_spec(full) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with named_extras():
            return import_module(full)

    def listing() -> list[str]:
        return sorted([*public, *{"__version__"}.intersection(vars(this))])

    return public, get, listing


def public_names(package: ModuleType) -> dict[str, str]:
    """Public name to the full name of the module that a package's text imports it from."""
    loader = package.__spec__.loader if package.__spec__ is not None else None
    text = getattr(loader, "get_source", lambda name: None)(package.__name__)
    if text is None:
        raise ImportError(
            f"{package.__name__}: expected its source beside its compiled code, got none"
        )
    return {name: module for module, name in PUBLIC.findall(text)}


class _Package(ModuleType):
    """A package with a public name that is also the name of the submodule it is imported from.

    The import system makes every submodule an attribute of its package once it is loaded. Here the
    attribute is the public object, whichever import comes first.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and name in self.__all__:
            value = vars(value).get(name, value)
        super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        """Pickle the package by its name, as cloudpickle does with plain modules.

        So functions of scripts and notebooks that name the package go to workers of joblib,
        Dask and multiprocessing.
        """
        return import_module, (self.__name__,)
