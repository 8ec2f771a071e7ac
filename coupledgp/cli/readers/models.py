"""Saved models that commands read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coupledgp.cli.readers.files import about, on_disk
from coupledgp.models import load_model


def read_model(path: Path) -> Any:
    """Read a model from a file or a pipe; see `coupledgp.load_model`."""
    source = on_disk(path)
    with about(path):
        return load_model(source)
