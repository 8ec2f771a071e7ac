"""Names of objects of one kind, and the texts that two such names make up.

A name stands for an object where only text can be written, on the command line or in a file. Names
come from the package's own table, a user's `register`, and entry points of installed packages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import unknown_choice, wrong
from coupledgp.ground.visible import warn

Kind = TypeVar("Kind")
First = TypeVar("First")
Second = TypeVar("Second")


class Registry(dict[str, Kind]):
    """Objects of one kind by name.

    Parameters
    ----------
    kind
        The base class of the objects.
    group
        Group of entry points by which installed packages add objects. They are loaded when a name
        is not known, and when all names are listed; one that cannot be loaded gives a warning.
    objects
        The package's own objects by name.
    taken
        Words that no object can be registered under: those of the text form in which the names
        stand, which registries of one form share. Estimators take "auto" where they take a name.
    patterns
        Functions that make an object of a text of some form, or return None for other texts, under
        the form's name in messages. `str` of such an object must be the text.
    accepts, expected
        Whether a value is an object of the registry, and what these are in messages; instances of
        the kind if left out.
    """

    def __init__(
        self,
        kind: type[Any],
        group: str,
        objects: Mapping[str, Kind],
        *,
        taken: set[str] | None = None,
        patterns: Mapping[str, Callable[[str], Kind | None]] | None = None,
        accepts: Callable[[Any], bool] | None = None,
        expected: str = "",
    ) -> None:
        super().__init__(objects)
        self.kind, self.group, self.patterns = kind, group, patterns or {}
        self.accepts = accepts or (lambda value: isinstance(value, kind))
        self.expected = expected or f"a {kind.__name__}"
        self.taken = set() if taken is None else taken
        self.taken |= {"auto", *objects}

    def register(
        self, name: str, made: Kind | Callable[[], Kind], *, replace: bool = False
    ) -> None:
        """Make an object known under a name.

        Parameters
        ----------
        name
            A word without '+' and white space.
        made
            The object, or its class or a function that makes it, called once and at once: objects
            are immutable.
        replace
            Put it in the place of the object of this kind that has the name, if there is one.

        Raises
        ------
        InvalidInputError
            The name is no such word, or is taken; the object is of another kind.
        """
        if not (isinstance(name, str) and name and not set(name) & set("+ \t\n")):
            raise wrong("name", "a word without '+' or spaces", name)
        taken = name in self.taken or any(make(name) for make in self.patterns.values())
        if taken and not (replace and name in self):
            raise InvalidInputError(f"name: {name!r} is taken")
        one: Any = made if self.accepts(made) or not callable(made) else made()
        if not self.accepts(one):
            raise wrong(name, f"{self.expected}", one)
        self[name] = one
        self.taken.add(name)

    def parse(self, value: Any, name: str = "name") -> Kind:
        """Return the object a text names, or the object itself.

        Parameters
        ----------
        value
            Text or object.
        name
            Name of the argument in error messages.

        Raises
        ------
        InvalidInputError
            The text names nothing; the choices and the nearest of them are listed.
        """
        if self.accepts(value):
            found: Kind = value
            return found
        if not isinstance(value, str):
            got = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
            example = next(iter(self))
            raise InvalidInputError(
                f"{name}: expected a name such as {example!r} or {self.expected}, got {got}"
            )
        named = self.find(value)
        if named is None:
            raise InvalidInputError(unknown_choice(value, self.choices(), name))
        return named

    def find(self, text: str) -> Kind | None:
        """The object that a text names, entry points included; None if there is none."""
        if text not in self:
            for make in self.patterns.values():
                made = make(text)
                if made is not None:
                    return made
            self._load(text)
        return self.get(text)

    def available(self) -> list[str]:
        """Names of all objects, those of installed packages included."""
        self._load()
        return list(self)

    def choices(self) -> list[str]:
        """Texts that `parse` accepts: names, and forms of text."""
        return [*self.available(), *self.patterns]

    def text_of(self, value: Kind) -> str | None:
        """The text from which `parse` makes an equal object, for files; None if there is none."""
        text = str(value)
        if any(self._same(make(text), value) for make in self.patterns.values()):
            return text
        for names in (self.keys, self.available):  # the second loads what packages add
            for name in names():
                if self._same(self[name], value):
                    return name
        return None

    def describe(self, value: Kind) -> str:
        """The text of an object, or `str(value)`, to print."""
        return self.text_of(value) or str(value)

    def _load(self, name: str | None = None) -> None:
        """Register the objects of entry points; give a warning where that fails."""
        points = entry_points(group=self.group)
        for point in points if name is None else points.select(name=name):
            try:
                made = point.load()  # which may register it itself
                if point.name not in self:
                    self.register(point.name, made)
            except Exception as error:  # whatever another package's code raises
                package = point.dist.name if point.dist else "a package"
                warn(
                    f"entry point {point.name!r} of {package} ({self.group}: {point.value}) is "
                    f"left out: {type(error).__name__}: {error}"
                )

    def _same(self, known: Any, value: Any) -> bool:
        """Whether two objects are equal or, without an equality of their own, alike."""
        plain = getattr(type(known), "__eq__", None) is object.__eq__
        plain = plain and isinstance(value, self.kind)
        if not plain or type(known) is not type(value):
            return _equal(known, value)
        mine, its = vars(known), vars(value)
        return mine.keys() == its.keys() and all(_equal(mine[name], its[name]) for name in mine)


def _equal(known: Any, value: Any) -> bool:
    """Whether two values are one, or of one class and equal."""
    if known is value or type(known) is not type(value):
        return known is value
    if isinstance(known, np.ndarray):
        return np.array_equal(known, value)
    try:
        return bool(known == value)
    except ValueError:  # of arrays in a dataclass, which compare entry by entry
        return False


@dataclass(frozen=True)
class TextForm(Generic[First, Second]):
    """The text `first[+second][+ending]`, made of the registered names of two parts.

    Parameters
    ----------
    first, second
        Registries of the parts.
    plain
        Name of the second part that a text without one stands for.
    form
        Description of the form for messages.
    ending
        A word that may stand at the end.
    """

    first: Registry[First]
    second: Registry[Second]
    plain: str
    form: str
    ending: str = ""

    def parse(self, text: str, name: str) -> tuple[First, Second, bool]:
        """Both parts, and whether the text has the ending; `name` is for error messages."""
        head, *rest = text.split("+")
        first = self.first.parse(head, name)
        ended = bool(self.ending) and rest[-1:] == [self.ending]
        words = "+".join(rest[:-1] if ended else rest) if len(rest) > ended else self.plain
        second = self.second.find(words)
        if second is None:
            choices = [*self.second.choices(), *filter(None, [self.ending])]
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
        heads, tails = self.first.available(), self.second.available()
        return [self._join(one, other, end) for one in heads for other in tails for end in endings]

    def _join(self, head: str, tail: str, ended: bool) -> str:
        parts = [head, "" if tail == self.plain else tail, self.ending if ended else ""]
        return "+".join(filter(None, parts))


def check_text(value: Any, kind: type, example: str, name: str) -> str:
    """Return a value that should be a text, where an object of `kind` would do too."""
    if not isinstance(value, str):
        raise wrong(name, f"a text such as {example!r} or a {kind.__name__}", type(value))
    return value


def add(
    objects: MutableMapping[str, Kind], name: str, made: Kind, argument: str, replace: bool
) -> None:
    """Enter an object under a name that is free, or replace the one that has it."""
    if name in objects and not replace:
        raise InvalidInputError(
            f"{argument}: {name!r} is taken; replace=True puts this one in its place"
        )
    objects[name] = made


def remove(objects: MutableMapping[str, Kind], name: str, argument: str) -> None:
    """Take the object of a name out; it is an error if there is none."""
    if objects.pop(name, None) is None:
        raise InvalidInputError(unknown_choice(name, objects, argument))
