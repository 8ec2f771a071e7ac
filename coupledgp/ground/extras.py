"""Libraries that a plain installation leaves out, and the extra of the package that brings each.

Public names of a package that are imported at their first use (PEP 562).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from coupledgp.errors import MissingLibraryError

EXTRAS = {
    **dict.fromkeys(("torch", "gpytorch", "linear_operator"), "torch"),
    **dict.fromkeys(("pyarrow", "typer"), "cli"),
    **dict.fromkeys(("geopandas", "meshio", "pyogrio", "pyproj", "shapely"), "geo"),
    "robust_laplacian": "geo",
    **dict.fromkeys(("h5netcdf", "h5py", "xarray", "zarr"), "netcdf"),
    **dict.fromkeys(("dask", "distributed"), "dask"),
}
# In no extra: VTK, which PyVista brings, takes 570 megabytes.
ALONE = ("pyvista",)
# torch's build for CUDA takes gigabytes, and is what a package index gives.
WITHOUT_GPU = (
    ". Without a GPU, first: pip install torch --index-url https://download.pytorch.org/whl/cpu"
)


def missing(name: str, purpose: str = "this") -> MissingLibraryError:
    """The error of a library that is not installed, which names its extra."""
    what = f'"coupledgp[{EXTRAS[name]}]"' if name in EXTRAS else name
    text = f"{purpose} needs {name}, which is not installed: pip install {what}"
    return MissingLibraryError(text + WITHOUT_GPU * (EXTRAS.get(name) == "torch"))


def library(name: str, purpose: str = "this") -> Any:
    """Import a library of an extra; the error of one that is not installed says its purpose.

    Raises
    ------
    MissingLibraryError
        The library is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise missing(name, purpose) from error


@contextmanager
def named_extras() -> Iterator[None]:
    """Have imports of libraries that are not installed say which extra brings them.

    Raises
    ------
    MissingLibraryError
        A library of an extra is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in EXTRAS and name not in ALONE:
            raise
        raise missing(name) from error


Attached = tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]


def attach(package: str, homes: Mapping[str, str]) -> Attached:
    """Return `__all__`, `__getattr__` and `__dir__` of a package.

    Parameters
    ----------
    package
        The package's full name.
    homes
        The names that each module defines, with blanks between them; those of `""` are modules
        themselves. Modules of other packages are named from the top.
    """
    home_of = {name: module for module, names in homes.items() for name in names.split()}
    public = sorted(home_of)

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = home_of[name]
        with named_extras():
            path = module if module.startswith("coupledgp.") else f"{package}.{module or name}"
            found = import_module(path)
        value = getattr(found, name) if module else found
        setattr(sys.modules[package], name, value)
        return value

    return public, get, lambda: sorted({*public, *vars(sys.modules[package])})
