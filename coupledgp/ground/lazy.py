"""Public names of a package that are imported at their first use (PEP 562).

A package lists its names twice, for type checkers and for the interpreter:

    if TYPE_CHECKING:
        from coupledgp.graphs.graph import Graph as Graph
    else:
        __all__, __getattr__, __dir__ = attach(__name__, {"coupledgp.graphs.graph": ["Graph"]})
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

Attached = tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]


def attach(
    package: str, names: Mapping[str, Sequence[str]], modules: Sequence[str] = ()
) -> Attached:
    """Return `__all__`, `__getattr__` and `__dir__` of a package.

    Parameters
    ----------
    package
        The package's full name.
    names
        Full name of a module to the public names that are imported from it.
    modules
        Submodules that are public names themselves. Any other submodule is imported as well when
        it is asked for as an attribute, but not listed.
    """
    this = sys.modules[package]
    homes = {name: module for module, group in names.items() for name in group}
    public = sorted([*homes, *modules])
    if any(module == f"{package}.{name}" for name, module in homes.items()):
        this.__class__ = _Package

    def get(name: str) -> Any:
        if name in homes:
            value = getattr(import_module(homes[name]), name)
            setattr(this, name, value)
            return value
        full = f"{package}.{name}"
        if name.startswith("_") or find_spec(full) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return import_module(full)

    def listing() -> list[str]:
        return sorted([*public, *{"__version__"}.intersection(vars(this))])

    return public, get, listing


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
