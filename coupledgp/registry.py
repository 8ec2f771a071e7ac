"""Registries: the names by which objects of one kind are asked for and printed.

Objects are what the package works with; a name stands for one where only text can be written, on
the command line or in a file. Names come from three places: the package's own table, a user's
`register`, and entry points of installed packages, which are looked up when a name is not known
yet and when all names are listed.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import unknown_choice
from coupledgp.ground.visible import warn

Kind = TypeVar("Kind")
# Estimators take "auto" where they take a name.
RESERVED = frozenset({"auto"})


class Vocabulary:
    """The words of one text form: whatever their kind, each word means one thing.

    Parameters
    ----------
    *reserved
        Words of the form itself, which no object can be registered under.
    """

    def __init__(self, *reserved: str) -> None:
        self.reserved = RESERVED | set(reserved)
        self.registries: list[Registry[Any]] = []

    def check_free(self, name: Any) -> None:
        """Refuse a name that is no word or means something already."""
        if not (isinstance(name, str) and name and not set(name) & set("+ \t\n")):
            raise InvalidInputError(f"name: expected a word without '+' or spaces, got {name!r}")
        if name in self.reserved:
            raise InvalidInputError(f"name: {name!r} is taken: it has a meaning of its own")
        for registry in self.registries:
            if name in registry.known:
                raise InvalidInputError(f"name: {name!r} is taken by {registry.known[name]!r}")


class Registry(Mapping[str, Kind], Generic[Kind]):
    """Named objects of one kind; a mapping from names to objects.

    Looking up a name that is not known asks the entry points of that name, and going through the
    names loads all entry points of the group. One that cannot be loaded gives a warning.

    Parameters
    ----------
    kind
        The base class of the objects.
    group
        Group of entry points by which installed packages add objects.
    objects
        The package's own objects by name.
    vocabulary
        The words of the text form in which the names stand; one of the registry's own if left out.
    patterns
        Functions that make an object of a text of some form, or return None for other texts, under
        the form's name in messages. `str` of such an object must be the text.
    """

    def __init__(
        self,
        kind: type[Any],
        group: str,
        objects: Mapping[str, Kind],
        *,
        vocabulary: Vocabulary | None = None,
        patterns: Mapping[str, Callable[[str], Kind | None]] | None = None,
    ) -> None:
        self.kind = kind
        self.group = group
        self.known: dict[str, Kind] = dict(objects)
        self.patterns = dict(patterns or {})
        self.vocabulary = Vocabulary() if vocabulary is None else vocabulary
        self.vocabulary.registries.append(self)
        self._tried: set[EntryPoint] = set()

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
        if not (replace and name in self.known):
            self.vocabulary.check_free(name)
            if any(make(name) is not None for make in self.patterns.values()):
                raise InvalidInputError(f"name: {name!r} is taken: the text stands for an object")
        self.known[name] = self._checked(made, name)

    def unregister(self, name: str) -> None:
        """Forget a name; an entry point of that name is not loaded again."""
        if self.known.pop(name, None) is None:
            raise InvalidInputError(unknown_choice(name, self.known, "name"))

    def parse(self, value: Any, name: str) -> Kind:
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
            return value
        if not isinstance(value, str):
            got = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
            raise InvalidInputError(
                f"{name}: expected a name such as {next(iter(self.known))!r} or {self.expected}, "
                f"got {got}"
            )
        found = self.find(value)
        if found is None:
            raise InvalidInputError(unknown_choice(value, self.choices(), name))
        return found

    def find(self, text: str) -> Kind | None:
        """The object that a text names, entry points included; None if there is none."""
        if text not in self.known:
            for make in self.patterns.values():
                made = make(text)
                if made is not None:
                    return made
            for point in entry_points(group=self.group, name=text):
                self._load(point)
        return self.known.get(text)

    def available(self) -> list[str]:
        """Names of all objects, those of installed packages included."""
        for point in entry_points(group=self.group):
            self._load(point)
        return list(self.known)

    def choices(self) -> list[str]:
        """Texts that `parse` accepts: names, and forms of text."""
        return [*self.available(), *self.patterns]

    def text_of(self, value: Kind) -> str | None:
        """The text from which `parse` makes an equal object, for files; None if there is none."""
        name = self._name_of(value)
        if name is not None:
            return name
        text = str(value)
        if any(self._same(make(text), value) for make in self.patterns.values()):
            return text
        self.available()  # which loads what installed packages add
        return self._name_of(value)

    def _name_of(self, value: Kind) -> str | None:
        return next((name for name, known in self.known.items() if self._same(known, value)), None)

    def describe(self, value: Kind) -> str:
        """A short text to print: the name of the registered object of the same class.

        Parameters that differ from those of the registered object follow. Without such an object
        the text is `str(value)`.
        """
        text = self.text_of(value)
        if text is not None:
            return text
        for name, known in self.known.items():
            changes = _differences(value, known) if type(known) is type(value) else []
            if changes:
                return f"{name}({', '.join(changes)})"
        return str(value)

    def accepts(self, value: object) -> bool:
        """Whether a value is an object of this kind."""
        return isinstance(value, self.kind)

    @property
    def expected(self) -> str:
        """Description of the objects of this kind for error messages."""
        return f"a {self.kind.__name__}"

    def _same(self, known: Any, value: Any) -> bool:
        """Whether two objects are equal or, without an equality of their own, alike."""
        if _equal(known, value):
            return True
        own_equality = getattr(type(known), "__eq__", None) is not object.__eq__
        if own_equality or type(known) is not type(value) or not isinstance(value, self.kind):
            return False
        mine, its = vars(known), vars(value)
        return mine.keys() == its.keys() and all(_equal(mine[name], its[name]) for name in mine)

    def _checked(self, given: Any, name: str) -> Kind:
        """The object itself, or the one that a class or function makes."""
        made = given if self.accepts(given) or not callable(given) else given()
        if not self.accepts(made):
            raise InvalidInputError(f"{name}: expected {self.expected}, got {made!r}")
        return made

    def _load(self, point: EntryPoint) -> None:
        """Register the object of an entry point, once; give a warning if that fails."""
        if point in self._tried:
            return
        self._tried.add(point)
        try:
            # The module that is loaded here may register its objects itself.
            loaded = self._checked(point.load(), point.name)
            if not self._same(self.known.get(point.name), loaded):
                self.register(point.name, loaded)
        except Exception as error:  # whatever another package's code raises
            warn(
                f"entry point {point.name!r} of {point.dist.name if point.dist else 'a package'} "
                f"({self.group}: {point.value}) is left out: {type(error).__name__}: {error}"
            )

    def __getitem__(self, name: str) -> Kind:
        found = self.find(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.available())

    def __len__(self) -> int:
        return len(self.available())

    # Registries are compared by identity, not by their content.
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class Roster(list[Kind]):
    """Objects that bear names of their own, in the order in which a report goes through them.

    Parameters
    ----------
    attribute
        The attribute that holds the name, as messages call it.
    objects
        The package's own objects.
    share
        Whether two objects cannot stand beside each other under one name; they never can if left
        out.
    """

    def __init__(
        self,
        attribute: str,
        objects: Iterable[Kind] = (),
        share: Callable[[Kind, Kind], bool] = lambda one, other: True,
    ) -> None:
        super().__init__(objects)
        self.attribute, self.share = attribute, share

    def names(self) -> list[str]:
        """Names of the objects, in order."""
        return [getattr(one, self.attribute) for one in self]

    def enter(self, made: Kind, *, replace: bool = False, place: int | None = None) -> None:
        """Add an object before a place, at the end if left out.

        Parameters
        ----------
        made
            The object.
        replace
            Put it in the place of the object that has the name, if there is one.
        place
            Place of a name that is new.

        Raises
        ------
        InvalidInputError
            The name is taken.
        """
        name = getattr(made, self.attribute)
        rivals = [k for k, one in enumerate(self.names()) if one == name]
        rivals = [k for k in rivals if self.share(self[k], made)]
        if rivals and not replace:
            raise InvalidInputError(
                f"{self.attribute}: {name!r} is taken; replace=True puts this one in its place"
            )
        place = rivals[0] if rivals else len(self) if place is None else place
        kept = [one for k, one in enumerate(self) if k not in rivals]
        self[:] = [*kept[:place], made, *kept[place:]]

    def leave(self, name: str) -> None:
        """Take all objects of a name out; it is an error if there is none."""
        if name not in self.names():
            raise InvalidInputError(unknown_choice(name, self.names(), self.attribute))
        self[:] = [one for one in self if getattr(one, self.attribute) != name]


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


def _differences(value: Any, known: Any) -> list[str]:
    """Fields of a dataclass that are not those of another object of its class, as texts."""
    names = [field.name for field in fields(value) if field.init] if is_dataclass(value) else []
    return [
        f"{name}={reprlib.repr(getattr(value, name))}"
        for name in names
        if not _equal(getattr(value, name), getattr(known, name))
    ]
