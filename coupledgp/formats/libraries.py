"""Optional libraries of file formats, each from an extra of the package."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from coupledgp.errors import MissingLibraryError


def library(name: str, extra: str, purpose: str) -> Any:
    """Import an optional library; `extra` is the extra of coupledgp that installs it.

    Raises
    ------
    MissingLibraryError
        The library is not installed; the message names the extra.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingLibraryError(
            f'{purpose} needs {name}, which is not installed: pip install "coupledgp[{extra}]"'
        ) from error
