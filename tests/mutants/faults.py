"""The list of faults: what each changes, which promise it breaks, which tests fail for it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAULTS = Path(__file__).with_name("faults")


class StaleFaultError(Exception):
    """A fault whose source text is not, or not only once, in its file."""


@dataclass(frozen=True)
class Fault:
    """One small fault.

    Parameters
    ----------
    name
        Its name: the area, a slash, and what is wrong.
    file
        The file that it changes, relative to the repository.
    old, new
        The text to replace, which is in the file exactly once, and what replaces it.
    tests
        The tests of which at least one fails for it, as pytest writes them.
    promise
        The promise that it breaks, as one sentence.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    promise: str

    def applied(self, text: str) -> str:
        """The source text with this fault in it.

        Raises
        ------
        StaleFaultError
            If the text to replace is not in the source exactly once.
        """
        found = text.count(self.old)
        if found != 1 or self.old == self.new:
            where = f"{self.name}: {self.file} has its source text {found} times, expected once"
            raise StaleFaultError(f"{where}: {self.old!r}")
        return text.replace(self.old, self.new)


def faults_of(path: Path) -> list[Fault]:
    """The faults of one file, in its order; the file's name is their area."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))
    return [
        Fault(
            name=f"{path.stem}/{name}",
            tests=tuple(entry.pop("tests")),
            **{key: _text(value) for key, value in entry.items()},
        )
        for name, entry in entries.items()
    ]


def all_faults(folder: Path = FAULTS) -> list[Fault]:
    """The faults of every file of a folder, by area."""
    return [fault for path in sorted(folder.glob("*.toml")) for fault in faults_of(path)]


def _text(value: str) -> str:
    """A text without the line break that ends a block of several lines."""
    return value.removesuffix("\n")
