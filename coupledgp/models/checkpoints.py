"""Checkpoints of a fit in passes: a folder of states, and the identity of the fit.

Each file is written whole or not at all, and states the table, the parameters and the version of
the package. Nothing in it is ever run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib.metadata import version
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from coupledgp.batches import BatchSource
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.gp import container
from coupledgp.gp.protocol import Arrays, Header
from coupledgp.gp.schema import Entries
from coupledgp.ground.devices import parse_device

T = TypeVar("T")
FORMAT_VERSION = 3
# Parameters that change no result.
WITHOUT_EFFECT = ("progress", "keep_rows")


class Checkpoint:
    """A folder of the states of one fit.

    Parameters
    ----------
    folder
        Folder, which is made if it is not there.
    identity
        Values of JSON that tell this fit from others, by name.

    Raises
    ------
    InvalidInputError
        The folder is no path, or an empty text, which would stand for the current folder.
    """

    def __init__(self, folder: str | PathLike[str], identity: dict[str, Any]) -> None:
        if not isinstance(folder, (str, PathLike)) or folder == "":
            raise InvalidInputError(
                f"checkpoint: expected the path of a folder, got {folder!r:.60}"
            )
        self.folder, self.identity = Path(folder), identity
        self.folder.mkdir(parents=True, exist_ok=True)

    def restored(self, name: str, make: Callable[[Entries], T | None]) -> T | None:
        """The object that `make` builds from the saved state of a name; None if none was saved.

        Raises
        ------
        InvalidInputError
            The state is that of another fit; the message names the first difference.
        ModelFileError
            The file is damaged, of another kind or name, or holds what no fit saves.
        """
        path = self._path(name)
        if not path.exists():
            return None
        header, arrays = container.read(path)
        found = header.get("fit")
        if not isinstance(found, dict) or header.get("state") != name:
            raise ModelFileError(f"{path}: expected the {name} of a fit, got another file")
        difference = _difference(self.identity, found)
        if difference:
            raise InvalidInputError(
                f"checkpoint: expected that of this fit in {str(self.folder)!r}, got another: "
                f"{difference}; give another folder, or delete this one to begin anew"
            )
        with container.restoring(path, "checkpoint"):
            return make(Entries(header, arrays))

    def save(self, name: str, header: Header, arrays: Arrays) -> None:
        """Put a state in the place of the one of this name."""
        container.write(self._path(name), {**header, "fit": self.identity, "state": name}, arrays)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.checkpoint"


def identity_of(model: Any, source: BatchSource) -> dict[str, Any]:
    """Identity of a fit: version, parameters, the table and its first row.

    Raises
    ------
    InvalidInputError
        `random_state` is no int: another start would draw other frequencies.
    """
    if model._plain("random_state", model.random_state) is None:
        raise InvalidInputError(
            f"random_state: expected an int beside checkpoint, got {model.random_state!r}"
        )
    parameters = model.get_params(deep=False)
    return {
        "format": FORMAT_VERSION,
        "coupledgp": version("coupledgp"),
        **{f"source {name}": value for name, value in source.identity().items()},
        "rows": source.n_rows,
        "first row": _first_row(source),
        **{
            name: model._plain(name, value)
            for name, value in parameters.items()
            if name not in (*WITHOUT_EFFECT, "device")
        },
        "device": str(parse_device(model.device)),
    }


def _first_row(source: BatchSource) -> str:
    """Digest of the first row of the first batch."""
    for batch in islice(source, 1):
        X = batch.X.iloc[:1] if hasattr(batch.X, "iloc") else batch.X[:1]
        y = batch.y.iloc[:1] if hasattr(batch.y, "iloc") else batch.y[:1]
        shown = X.to_pylist() if hasattr(X, "to_pylist") else getattr(X, "values", X)
        return hashlib.sha256(f"{shown!r} {getattr(y, 'values', y)!r}".encode()).hexdigest()
    return ""


def _difference(wanted: dict[str, Any], found: dict[str, Any]) -> str:
    """The first value in which two identities differ, in words; empty where none does."""
    for name in (*wanted, *found):
        mine, its = wanted.get(name), found.get(name)
        if mine != its:
            return f"{name}: expected {mine!r:.80}, got {its!r:.80}"
    return ""


def key_of(*parts: Any) -> str:
    """A text that is the same for equal numbers and arrays, to the bit."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.tobytes() if hasattr(part, "tobytes") else repr(part).encode()
        digest.update(content + b"\n")
    return digest.hexdigest()
