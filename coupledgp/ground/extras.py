"""Libraries that a plain installation leaves out, and the extra of the package that brings each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from coupledgp.errors import MissingLibraryError

EXTRAS = {
    "torch": "torch", "gpytorch": "torch", "linear_operator": "torch",
    "matplotlib": "pages", "jinja2": "pages", "pyarrow": "tables", "typer": "cli",
    "pyvista": "pyvista",
}  # fmt: skip
# torch's build for CUDA takes gigabytes, and is what a package index gives.
WITHOUT_GPU = (
    ". Without a GPU, first: pip install torch --index-url https://download.pytorch.org/whl/cpu"
)


def missing(name: str) -> MissingLibraryError:
    """The error of a library that is not installed, which names its extra."""
    text = f'this needs {name}, which is not installed: pip install "coupledgp[{EXTRAS[name]}]"'
    return MissingLibraryError(text + WITHOUT_GPU * (EXTRAS[name] == "torch"))


@contextmanager
def named_extras() -> Iterator[None]:
    """Have imports of libraries that are not installed say which extra brings them.

    Raises
    ------
    MissingLibraryError
        A library of `EXTRAS` is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in EXTRAS:
            raise
        raise missing(name) from error
