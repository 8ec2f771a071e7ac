"""Options of a command as fields of a dataclass, of which the command line is made.

A field is an option or an argument with its help; its type says how its text is read. A command is
then a function of one such value, and a group of options that commands share is a base class.

Parameters of estimators that have no option of their own, as texts `NAME=VALUE`.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, get_args, get_type_hints

import typer
from typer.core import TyperCommand

from coupledgp.cli.shared.evaluate import DASH, STDIN, notice, spoken, standard_output
from coupledgp.cli.shared.options import AUTO, Check, at_least, check_level, check_page, check_share
from coupledgp.errors import InvalidInputError
from coupledgp.ground.output import find_clash

MODEL_PANEL, OUTPUT_PANEL = "Model", "Output"
GRAPH_PANEL, FIELD_PANEL = "Kernel on nodes", "Field: meshes, roads with lengths"
TIME_PANEL = "Values over time"
PANEL = "rich_help_panel"
# Headings under which a command shows what only one of its models has, if not under that model's.
SHOWN = {
    ("graph", GRAPH_PANEL): MODEL_PANEL, ("forecast", GRAPH_PANEL): MODEL_PANEL,
    ("forecast", FIELD_PANEL): None,
}  # fmt: skip
# Text that is for some commands alone.
ONLY = re.compile(r"\{([a-z ]+): ([^}]*)\}")
ON_PLACES = "field graph forecast"
SEEDED = f"fit krige report audit demo {ON_PLACES}"


def option(
    help: str,
    *names: str,
    default: Any = None,
    panel: str | None = None,
    metavar: str | None = None,
    shown: bool = True,
    of: str = "",
    old: str = "",
    ending: str | None = None,
    check: Check | None = None,
    needed: str = "",
) -> Any:
    """Return the field of an option.

    Parameters
    ----------
    help
        Its text on the page of the command. `{graph forecast: ...}` is for these commands alone.
    names
        Such as `"--target", "-t"`; by default the field's name with two dashes.
    default
        Its value where it is left out.
    panel, metavar
        Heading below which it is listed, and the name of its value there.
    shown
        Whether the default is shown; None never is.
    of
        Commands that have it, of those that share its class; all by default.
    old
        Spellings of earlier releases, which work with a notice. `--observed=--no-latent` names the
        spelling of today, if it is not the first of `names`.
    ending
        Of an output: ending of what it writes to standard output, if it is `-`. Every other path is
        a file that is read, or a folder with `""`.
    check
        Function of a value and the option's name that refuses wrong ones, for `Options.check`.
    needed
        Commands that refuse to go without it.
    """
    said = default
    if isinstance(default, bool):
        halves = "".join(names[:1]).split("/")
        said = halves[not default][2:] if len(halves) == 2 else None
    if shown and said not in (None, MISSING, ""):
        help = f"{help} \\[default: {said}]"
    named = {"help": help, PANEL: panel, "metavar": metavar, "show_default": False}
    metadata = {"kind": typer.Option, "names": names, "named": named}
    more = {"of": frozenset(of.split()), "old": old.split(), "ending": ending, "check": check,
            "needed": needed.split()}  # fmt: skip
    return field(default=default, metadata=metadata | more)


def required(help: str, *names: str, **more: Any) -> Any:
    """Return the field of an option that has to be given; see `option`."""
    return option(help, *names, default=MISSING, **more)


def argument(metavar: str, help: str, default: Any = MISSING) -> Any:
    """Return the field of a positional argument; see `option`."""
    named = {"help": help, "metavar": metavar, "show_default": False}
    metadata = option("").metadata | {"kind": typer.Argument, "named": named}
    return field(default=default, metadata=metadata)


Part = TypeVar("Part")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a command. Those that several commands have are here, with their names.

    Attributes
    ----------
    given : frozenset of str
        Names of the fields that were given on the command line.
    command : str
        Name of the command, or of several whose options it has.
    """

    given: frozenset[str] = frozenset()
    command: str = ""
    target: str = option(
        "Column {fit audit: to predict.}{krige: of values. \\[default: the only other of numbers]}"
        "{report: to predict. \\[default: the only one that is no input]}",
        "--target", "-t", default="", of="fit krige report audit", needed="fit audit",
    )  # fmt: skip
    drop: list[str] | None = option("Column that is no input; may be repeated.", of="fit audit")
    node_column: str | None = option(
        "Column of nodes{predict: , for a model of a graph or a field}. \\[default: node]",
        of=f"predict report {ON_PLACES}",
    )
    holdout: float | None = option(
        "Share of the {fit: rows held out for scoring, where no --test is given. \\[default: 0.2]}"
        "{field graph: values hidden for scoring. \\[default: 0]}",
        of="fit field graph", check=check_share, old="--hide",
    )  # fmt: skip
    seed: int = option(
        "Of draws, the split and subsamples.", default=0, of=SEEDED, check=at_least(0)
    )
    likelihood: str = option(
        "student-t, poisson, negative-binomial. \\[default: gaussian; "
        "classes of texts]",
        default="gaussian", shown=False, panel=MODEL_PANEL, of="fit krige field graph",
    )  # fmt: skip
    exposure: str | None = option(
        "Column of exposures of counts, such as hours. No input.",
        panel=MODEL_PANEL, of="fit predict",
    )  # fmt: skip
    target_transform: str | None = option(
        "log, box-cox, yeo-johnson, logit, or auto (by evidence).",
        panel=MODEL_PANEL, of=f"fit krige {ON_PLACES}",
    )  # fmt: skip
    further: list[str] | None = option(
        "Other parameters of the model, as solver=dense.", "--set",
        panel=MODEL_PANEL, metavar="NAME=VALUE", of=f"fit krige {ON_PLACES}",
    )  # fmt: skip
    report: Path | None = option(
        "Write an HTML page.",
        panel=OUTPUT_PANEL,
        of=f"fit {ON_PLACES}",
        ending=".html",
        check=check_page,
    )
    latent: bool = option(
        "Noise left out of std{krige: , by default where it is normal}.", "--latent/--no-latent",
        default=False, shown=False, panel=OUTPUT_PANEL, of="predict krige field graph",
        old="--observed=--no-latent",
    )  # fmt: skip
    level: float | None = option(
        "Also the ends of the interval that holds an observation with this probability{predict: , "
        "such as 0.95. A classifier adds chances of its classes}.",
        panel=OUTPUT_PANEL, of="predict krige", check=check_level, old="--interval",
    )  # fmt: skip
    format: str | None = option(
        "Of --output -: csv, tsv, parquet, json, ...", panel=OUTPUT_PANEL,
        of=f"predict krige {ON_PLACES}",
    )  # fmt: skip
    as_json: bool = option("Print JSON, no tables.", "--json", default=False, panel=OUTPUT_PANEL)
    spoken: bool | None = option(
        "Print each step, or no more than asked for.", "--progress/--quiet", " /-q",
        panel=OUTPUT_PANEL,
    )  # fmt: skip

    @classmethod
    def declared(cls, commands: str = "") -> list[Field[Any]]:
        """The fields that are options or arguments, of some commands or of all."""
        found, wanted = [own for own in fields(cls) if own.metadata], set(commands.split())
        depth = {name: k for k, kind in reversed([*enumerate(cls.__mro__)])
                 for name in inspect.get_annotations(kind)}  # fmt: skip
        # Those of the command precede what others have too.
        found.sort(key=lambda own: (own.name not in ("target", "drop"), depth[own.name]))
        return [own for own in found if not wanted or not own.metadata["of"]
                or wanted & own.metadata["of"]]  # fmt: skip

    @property
    def outputs(self) -> dict[str, Path | None]:
        """Files to write by the names of their fields, None where they are not asked for."""
        named = [own.name for own in self.declared() if own.metadata["ending"]]
        named.sort(key=lambda name: name != "output")
        return {name: getattr(self, name) for name in named}

    @property
    def inputs(self) -> list[Path]:
        """Files to read, as far as they are given."""
        read = [getattr(self, own.name) for own in self.declared()
                if own.metadata["ending"] is None]  # fmt: skip
        lists = [value if isinstance(value, list) else [value] for value in read]
        return [path for paths in lists for path in paths if isinstance(path, Path)]

    def part(self, kind: Callable[..., Part], **more: Any) -> Part:
        """The options that a reader takes, by the names of the fields of its own class."""
        named = [one.name for one in fields(cast(Any, kind)) if one.name not in more]
        return kind(**{name: getattr(self, name) for name in named}, **more)

    @contextmanager
    def named_in_errors(self) -> Iterator[None]:
        """Name the option or argument of a path in errors of the system about it."""
        try:
            yield
        except OSError as error:
            name = None if error.filename is None else os.fsdecode(error.filename)
            for own in self.declared(self.command):
                value, metavar = getattr(self, own.name), own.metadata["named"]["metavar"]
                if name in [str(one) for one in (value if isinstance(value, list) else [value])]:
                    is_argument = own.metadata["kind"] is typer.Argument
                    said = (metavar or "").strip("[]") if is_argument else self.name_of(own.name)
                    raise type(error)(error.errno, error.strerror, f"{said}: {name}") from error
            raise

    def check(self) -> None:
        """Refuse numbers and words that no option takes, and an output that is another file.

        Raises
        ------
        InvalidInputError
            The message names the option.
        """
        if "target" in self.given and not self.target:
            raise InvalidInputError("--target: expected the name of a column, got an empty text")
        wanted = {self.name_of(name): path for name, path in self.outputs.items() if path}
        clash = find_clash(wanted, self.inputs)
        if clash is not None:
            raise InvalidInputError(
                f"{clash}: expected a path of its own, got {str(wanted[clash])!r}"
            )
        for own in self.declared(self.command):
            if own.metadata["check"] and getattr(self, own.name) is not None:
                own.metadata["check"](getattr(self, own.name), self.name_of(own.name))

    @property
    def set_names(self) -> set[str]:
        """Names of the parameters that `--set` gives."""
        return {text.partition("=")[0].strip().replace("-", "_") for text in self.further or ()}

    @classmethod
    def of_panel(cls, panel: str) -> tuple[str, ...]:
        """Names of the options below a heading."""
        return tuple(
            own.name for own in cls.declared() if own.metadata["named"].get(PANEL) == panel
        )

    @classmethod
    def name_of(cls, name: str) -> str:
        """The option of a field as the command line has it."""
        found = {own.name: own.metadata["names"] for own in cls.declared()}
        names = found.get(name, ())
        return str(names[0]).split("/")[0] if names else f"--{name.replace('_', '-')}"

    def spelled(self, name: str) -> str:
        """The option of a field or a parameter, as it was given or would be."""
        return f"--set {name}" if name in self.set_names else self.name_of(name)

    @classmethod
    def renamed(cls, commands: str = "") -> dict[str, str]:
        """Spellings of earlier releases of some commands or of all, with those of today."""
        found = {}
        for own in cls.declared(commands):
            for text in own.metadata["old"]:
                old, _, new = text.partition("=")
                found[old] = new or cls.name_of(own.name)
        return found


Kind = TypeVar("Kind", bound=Options)


def add(
    app: typer.Typer, name: str, run: Callable[[Kind], None], kind: type[Kind], help: str,
    commands: str = "",
) -> None:  # fmt: skip
    """Add a command to an application, a hidden one with the options of several `commands`.

    See `command` for the other parameters.
    """
    renamed = kind.renamed(commands or name)

    class Command(TyperCommand):
        """A command that knows the spellings of earlier releases."""

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            return super().parse_args(ctx, list(_spelled(args, renamed, bool(commands))))

    made = command(run, kind, commands or name)
    app.command(name, help=help, cls=Command, hidden=bool(commands))(made)


def _spelled(args: list[str], renamed: dict[str, str], quiet: bool) -> Iterator[str]:
    """Words of a command line with the spellings of today, and a notice of each other one.

    `--n-walks 8` that is called `--set n_walks` today becomes `--set n_walks=8`.
    """
    words = iter(args)
    for word in words:
        name, mark, value = word.partition("=")
        if name not in renamed:
            yield word
            continue
        if not (quiet or {"--quiet", "-q"} & set(args)):
            notice(f"{name} is called {renamed[name]} now; the old name will go")
        new, folded, parameter = renamed[name].partition(" ")
        if folded:
            yield new
            yield f"{parameter}={value if mark else next(words, '')}"
        else:
            yield f"{new}{mark}{value}"


def command(
    run: Callable[[Kind], None], kind: type[Kind], commands: str = ""
) -> Callable[..., None]:
    """Return the function of which the command line makes a command.

    Parameters
    ----------
    run
        The function of the command, which takes its options.
    kind
        Class of the options.
    commands
        Name of the command, or of several, whose options are declared.
    """
    types, annotated = get_type_hints(kind), cast(Any, Annotated)

    def call(context: typer.Context, **values: Any) -> None:
        sources = {key: context.get_parameter_source(key) for key in values}
        given = {key for key, at in sources.items() if at is not None and at.name != "DEFAULT"}
        options = kind(**values, given=frozenset(given), command=commands)
        with standard_output(options) as found, spoken(options), options.named_in_errors():
            found.check()
            run(found)

    parameters = [_parameter("context", typer.Context)]
    for own in kind.declared(commands):
        annotation = annotated[types[own.name], _declared(own, types[own.name], commands)]
        needed = {*commands.split()} & {*own.metadata["needed"]}
        parameters.append(_parameter(own.name, annotation, MISSING if needed else own.default))
    call.__annotations__ = {own.name: own.annotation for own in parameters}
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__doc__ = run.__doc__
    return call


def _parameter(name: str, annotation: Any, default: Any = MISSING) -> inspect.Parameter:
    """A parameter of a function that takes all by name."""
    default = inspect.Parameter.empty if default is MISSING else default
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _declared(own: Field[Any], kind: Any, commands: str) -> Any:
    """Annotation for typer of a field of a type."""
    names, named = own.metadata["names"], dict(own.metadata["named"])
    named["help"] = ONLY.sub(
        lambda part: part[2] if {*part[1].split()} & {*commands.split()} else "", named["help"]
    )
    if (commands, named.get(PANEL)) in SHOWN:
        named[PANEL] = SHOWN[commands, named[PANEL]]
    if list[str] in get_args(kind) or list[Path] in get_args(kind):
        named["metavar"] = named["metavar"] or "<str>, ..."
    if Path in (kind, *get_args(kind)) or list[Path] in get_args(kind):
        named["parser"] = output_path if own.metadata["ending"] else path
    if kind is bool and not names:
        names = (f"--{own.name.replace('_', '-')}",)  # without a --no- beside it
    return own.metadata["kind"](*names, **named)


def output_path(text: str | Path) -> Path:
    """Return the path that a text names; an empty one would be the current folder."""
    if text == "":
        raise typer.BadParameter("expected a path, got an empty text")
    return Path(text)


def path(text: str | Path) -> Path:
    """Return the path of a file to read, which `-` on standard input is."""
    return STDIN if str(text) == DASH else output_path(text)


def refuse(options: Options, names: tuple[str, ...], why: str) -> None:
    """Refuse the first of some options or parameters that was given, with the reason after it."""
    for name in names:
        if name in options.given | options.set_names:
            raise InvalidInputError(f"{options.spelled(name)}: {why}")


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
