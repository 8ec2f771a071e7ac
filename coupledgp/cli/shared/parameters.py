"""Parameters of estimators that have no option of their own, as texts `NAME=VALUE`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from coupledgp.cli.shared.declare import Options
from coupledgp.cli.shared.options import AUTO
from coupledgp.errors import InvalidInputError

WORDS = {"yes": True, "no": False}
# Parameters that the command gives itself.
TRANSFORM = "target_transform"
OWN = ("graph", "operator", "random_state", "progress", "missing")


@contextmanager
def as_options(options: Options) -> Iterator[None]:
    """Name the option, such as `--max-iter`, in errors about a parameter of an estimator."""
    names = {own.name for own in options.declared(options.command)} | options.set_names
    try:
        yield
    except InvalidInputError as error:
        name, mark, text = str(error).partition(": ")
        if not mark or name not in names:
            raise
        raise type(error)(f"{options.spelled(name)}: {text}") from error


def parameters_of(kind: type[Any], options: Options) -> dict[str, Any]:
    """Parameters by name of `--target-transform` and of `--set`, such as `n_neighbors=48`.

    They are read as their default is: a number, a text, True, None. Every parameter of an estimator
    is one of these as soon as the estimator has it.

    Parameters
    ----------
    kind
        Class of the estimator.
    options
        Options of the command, whose names are refused here.

    Raises
    ------
    InvalidInputError
        A text has no name or value, or the estimator has no such parameter, or the command has an
        option for it, or it is given twice.
    """
    known = {own.name: own.default for own in fields(kind)}
    taken = {own.name for own in options.declared(options.command)} - {TRANSFORM} | set(OWN)
    open_ = sorted(known.keys() - taken)
    found: dict[str, Any] = {}
    if TRANSFORM in known and options.target_transform is not None:
        found[TRANSFORM] = options.target_transform
    for text in options.further or ():
        name, mark, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not mark:
            raise InvalidInputError(f"--set: expected NAME=VALUE, got {text!r:.60}")
        if name in taken and name in known and name not in OWN:
            raise InvalidInputError(f"--set: expected {options.name_of(name)} for {name}")
        if name not in open_:
            raise InvalidInputError(
                f"--set: {kind.__name__} takes {', '.join(open_)}, got {name!r:.60}"
            )
        if name in found:
            raise InvalidInputError(f"--set: expected {name} once")
        found[name] = _value(value.strip(), known[name])
    return found


def _value(text: str, default: Any) -> Any:
    """The value that a text is: yes, no, a literal of Python or itself."""
    if isinstance(default, str) and default != AUTO:
        return text
    if text in WORDS:
        return WORDS[text]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
