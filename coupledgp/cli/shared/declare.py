"""Options of a command as fields of a dataclass, of which the command line is made.

A field is an option or an argument with its help; its type says how its text is read. A command is
then a function of one such value, and a group of options that commands share is a base class.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, get_args, get_type_hints

import typer

from coupledgp.errors import InvalidInputError

MODEL_PANEL, OUTPUT_PANEL, FIELD_PANEL = "Model", "Output", "Field"
TIME_PANEL = "Values over time, with --time-column"


def option(
    help: str,
    *names: str,
    default: Any = None,
    panel: str | None = None,
    metavar: str | None = None,
    shown: bool = True,
) -> Any:
    """Return the field of an option.

    Parameters
    ----------
    help
        Its text on the page of the command.
    names
        Such as `"--target", "-t"`; by default the field's name with two dashes.
    default
        Its value where it is left out.
    panel, metavar
        Heading below which it is listed, and the name of its value there.
    shown
        Whether the default is shown; None never is.
    """
    shown = shown and default is not None and default is not MISSING
    named = {"help": help, "rich_help_panel": panel, "metavar": metavar, "show_default": shown}
    return field(default=default, metadata={"kind": typer.Option, "names": names, "named": named})


def required(help: str, *names: str, panel: str | None = None) -> Any:
    """Return the field of an option that has to be given; see `option`."""
    return option(help, *names, default=MISSING, panel=panel)


def argument(metavar: str, help: str, default: Any = MISSING) -> Any:
    """Return the field of a positional argument; see `option`."""
    named = {"help": help, "metavar": metavar, "show_default": False}
    return field(default=default, metadata={"kind": typer.Argument, "names": (), "named": named})


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a command.

    Attributes
    ----------
    given : frozenset of str
        Names of the fields that were given on the command line.
    """

    given: frozenset[str] = frozenset()

    @classmethod
    def declared(cls) -> list[Field[Any]]:
        """The fields that are options or arguments."""
        return [own for own in fields(cls) if own.metadata]

    @classmethod
    def name_of(cls, name: str) -> str:
        """The option of a field as the command line has it."""
        found = {own.name: own.metadata["names"] for own in cls.declared()}
        names = found.get(name, ())
        return str(names[0]).split("/")[0] if names else f"--{name.replace('_', '-')}"


Kind = TypeVar("Kind", bound=Options)


def command(run: Callable[[Kind], None], kind: type[Kind]) -> Callable[..., None]:
    """Return the function of which the command line makes a command.

    Parameters
    ----------
    run
        The function of the command, which takes its options.
    kind
        Class of the options.
    """
    types, annotated = get_type_hints(kind), cast(Any, Annotated)

    def call(context: typer.Context, **values: Any) -> None:
        sources = {name: context.get_parameter_source(name) for name in values}
        given = {name for name, at in sources.items() if at is not None and at.name != "DEFAULT"}
        run(kind(**values, given=frozenset(given)))

    parameters = [_parameter("context", typer.Context)]
    for own in kind.declared():
        annotation = annotated[types[own.name], _declared(own, types[own.name])]
        parameters.append(_parameter(own.name, annotation, own.default))
    call.__annotations__ = {own.name: own.annotation for own in parameters}
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__doc__ = run.__doc__
    return call


def _parameter(name: str, annotation: Any, default: Any = MISSING) -> inspect.Parameter:
    """A parameter of a function that takes all by name."""
    default = inspect.Parameter.empty if default is MISSING else default
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _declared(own: Field[Any], kind: Any) -> Any:
    """Annotation for typer of a field of a type."""
    names, named = own.metadata["names"], dict(own.metadata["named"])
    if Path in (kind, *get_args(kind)):
        named["parser"] = path
    if kind is bool and not names:
        names = (f"--{own.name.replace('_', '-')}",)  # without a --no- beside it
    return own.metadata["kind"](*names, **named)


def path(text: str | Path) -> Path:
    """Return the path that a text names; an empty one would be the current folder."""
    if text == "":
        raise typer.BadParameter("expected a path, got an empty text")
    return Path(text)


def refuse(options: Options, names: tuple[str, ...], why: str) -> None:
    """Refuse the first of some options that was given, with the reason after its name."""
    for name in names:
        if name in options.given:
            raise InvalidInputError(f"{options.name_of(name)}: {why}")
