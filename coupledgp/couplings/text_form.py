"""The text form of couplings that are made of two parts, `first[+second][+ending]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import unknown_choice
from coupledgp.registry import Registry

First = TypeVar("First")
Second = TypeVar("Second")


@dataclass(frozen=True)
class TextForm(Generic[First, Second]):
    """Text made of the registered names of two parts, which it writes and parses.

    Parameters
    ----------
    first, second
        Registries of the parts.
    plain
        Name of the second part that a text without one stands for.
    form
        Description of the form for messages.
    ending
        A word that may stand at the end; None if there is none.
    """

    first: Registry[First]
    second: Registry[Second]
    plain: str
    form: str
    ending: str | None = None

    def parse(self, text: str, name: str) -> tuple[First, Second, bool]:
        """Both parts, and whether the text has the ending; `name` is for error messages."""
        head, *rest = text.split("+")
        first = self.first.parse(head, name)
        ended = self.ending is not None and rest[-1:] == [self.ending]
        named = rest[:-1] if ended else rest
        words = "+".join(named) if named else self.plain
        second = self.second.find(words)
        if second is None:
            choices = [*self.second.choices(), *([self.ending] if self.ending else [])]
            message = unknown_choice(words, choices, f"{name}: after {head!r}")
            raise InvalidInputError(f"{message}; the form is {self.form}")
        return first, second, ended

    def describe(self, first: First, second: Second, ended: bool = False) -> str:
        """A text to show, also of parts without a name."""
        return self._join(self.first.describe(first), self.second.describe(second), ended)

    def text_of(self, first: First, second: Second, ended: bool = False) -> str | None:
        """The text that `parse` makes equal parts of; None if there is none."""
        head, tail = self.first.text_of(first), self.second.text_of(second)
        return None if head is None or tail is None else self._join(head, tail, ended)

    def available(self) -> list[str]:
        """Every text that the names now known make up."""
        endings = (False, True) if self.ending else (False,)
        return [
            self._join(head, tail, ended)
            for head in self.first.available()
            for tail in self.second.available()
            for ended in endings
        ]

    def _join(self, head: str, tail: str, ended: bool) -> str:
        parts = [head, tail if tail != self.plain else "", self.ending if ended else ""]
        return "+".join(part for part in parts if part)


def check_text(value: Any, kind: type, example: str, name: str) -> str:
    """Return a value that should be a text, where an object of `kind` would do too."""
    if not isinstance(value, str):
        raise InvalidInputError(
            f"{name}: expected a text such as {example!r} or a {kind.__name__}, "
            f"got {type(value).__name__}"
        )
    return value
