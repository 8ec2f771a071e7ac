"""Parameters of estimators: declared once, documented once, and inherited by every constructor.

A parameter is a field of a class, as in a dataclass, with the constraint on its values beside it
(`param`); a base class whose fields come after `KW_ONLY` is a group that its subclasses share.
Values for specialists are no parameters of their own but entries of `options=`, which are declared
alike (`option`) and read as attributes. The constructor is the dataclass's own, so that
scikit-learn's `get_params`, `set_params` and `clone` see flat, explicit parameters, and so do type
checkers.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, dataclass_transform

from coupledgp.ground.parameters import param

Kind = TypeVar("Kind", bound=type[Any])
# The sections of a docstring whose entries are inherited, and what begins a section.
INHERITED = ("Parameters", "Attributes")
HEADING = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)


@dataclass_transform(eq_default=False, field_specifiers=(param,))
def estimator(kind: Kind) -> Kind:
    """Make the constructor of an estimator from its fields, and complete its docstring.

    Fields of base classes that are estimators too are inherited; a subclass that states one again
    gives it another default, or a place among the positional parameters. Entries of "Parameters"
    and "Attributes" that the class does not have itself come from its bases.
    """
    made: Any = dataclass(eq=False, repr=False)(kind)
    own = made.__dict__.get("__doc__")
    made.__entries__ = dict(_entries(own or ""))
    if own:
        made.__doc__ = _documented(made, own)
    answer: Kind = made
    return answer


def points_named(name: str, *methods: str) -> Any:
    """Class decorator: inherited methods take their first argument, `X`, under another name.

    A graph is asked for nodes and a surface for places; the name that is common to all estimators
    works too.

    Parameters
    ----------
    name
        The further name.
    methods
        Names of the methods.
    """

    def renamed(kind: Kind) -> Kind:
        for method in methods:
            setattr(kind, method, _renamed(getattr(kind, method), name))
        return kind

    return renamed


def _renamed(method: Any, name: str) -> Any:
    @wraps(method)
    def call(self: Any, *args: Any, **named: Any) -> Any:
        if name in named:
            if args or "X" in named:
                raise TypeError(f"{method.__name__}() got multiple values for argument {name!r}")
            named["X"] = named.pop(name)
        return method(self, *args, **named)

    signature = inspect.signature(method)
    parameters = [
        p.replace(name=name) if p.name == "X" else p for p in signature.parameters.values()
    ]
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call


def _sections(doc: str) -> Iterator[tuple[str, str]]:
    """Headings and bodies of the sections of a docstring; the text before has heading ""."""
    parts = HEADING.split(inspect.cleandoc(doc) + "\n")
    yield "", parts[0]
    yield from zip(parts[1::2], parts[2::2], strict=True)


def _entries(doc: str) -> Iterator[tuple[tuple[str, str], str]]:
    """Entries of the inherited sections: (section, names) with their texts."""
    for heading, body in _sections(doc):
        if heading in INHERITED:
            for entry in re.split(r"\n(?=\S)", body.strip("\n")):
                names, _, text = entry.partition("\n")
                if names.strip():
                    yield (heading, names.strip()), text.rstrip()


def _documented(kind: type[Any], own: str) -> str:
    """The docstring of a class with the entries that it inherits."""
    known = {"Parameters": set(inspect.signature(kind).parameters), "Attributes": set(dir(kind))}
    entries: dict[tuple[str, str], str] = {}
    listed: set[tuple[str, str]] = set()
    for base in kind.__mro__:
        for (section, names), text in base.__dict__.get("__entries__", {}).items():
            wanted = [
                name for name in re.split(r",\s*", names)
                if (section, name) not in listed and (base is kind or name in known[section])
            ]  # fmt: skip
            if wanted:
                entries[section, ", ".join(wanted)] = text
                listed |= {(section, name) for name in wanted}
    lines = []
    sections = dict(_sections(own))
    order = ["", *INHERITED, *(name for name in sections if name and name not in INHERITED)]
    for heading in order:
        body = sections.get(heading, "").strip("\n")
        if heading in INHERITED:
            found = [
                (names, text) for (section, names), text in entries.items() if section == heading
            ]
            if heading == "Parameters":
                places = {name: k for k, name in enumerate(inspect.signature(kind).parameters)}
                found.sort(key=lambda entry: places.get(entry[0].split(",")[0], -1))
            body = "\n".join(f"{names}\n{text}" for names, text in found)
        if body:
            underline = f"{heading}\n{'-' * len(heading)}\n" if heading else ""
            lines.append(underline + body)
    first, _, rest = "\n\n".join(lines).partition("\n")
    return first + "\n" + textwrap.indent(rest, "    ") + "\n    "
