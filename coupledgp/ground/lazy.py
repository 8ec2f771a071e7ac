"""Public names of a package that are imported at their first use (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from coupledgp.ground.extras import named_extras

Attached = tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]


def attach(package: str, homes: Mapping[str, str]) -> Attached:
    """Return `__all__`, `__getattr__` and `__dir__` of a package.

    Parameters
    ----------
    package
        The package's full name.
    homes
        The names that each module of the package defines, with blanks between them; those of `""`
        are modules themselves.
    """
    home_of = {name: module for module, names in homes.items() for name in names.split()}
    public = sorted(home_of)

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = home_of[name]
        with named_extras():
            found = import_module(f"{package}.{module or name}")
        value = getattr(found, name) if module else found
        setattr(sys.modules[package], name, value)
        return value

    return public, get, lambda: sorted({*public, *vars(sys.modules[package])})
