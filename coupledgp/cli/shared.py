"""What all commands share: pipes, whole outputs, notices, and errors that name an option."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import coupledgp as cgp
from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.ground import parameters
from coupledgp.ground.progress import Progress, silent, watched
from coupledgp.ground.validation import json_values, wrong
from coupledgp.random import FloatArray, IntArray

DASH = "-"
# Seconds between two lines of progress, and the times that are announced where nobody watches.
PAUSE = 1.0
LONG = re.compile(r"about ([1-9]\d+ s|[\d.]+ (min|h))\b")
WORDS = {"yes": True, "no": False, "true": True, "false": False, "none": None}
# Rows predicted at once: an exact model needs a matrix of them and its training rows.
BATCH_ROWS = 8192
# Names of the columns of a law, and of chances of classes.
LAW, CHANCE = ("mean", "std", "lower", "upper"), "chance_"
QUIET: ContextVar[bool] = ContextVar("quiet", default=False)
_said: set[str] = set()
_pipes: dict[str, Path] = {}
_folders: list[str] = []


def notice(text: str) -> None:
    """Print a line on stderr, once a command, unless `--quiet` asks for silence."""
    if not QUIET.get() and text not in _said:
        _said.add(text)
        print(f"coupledgp: {text}", file=sys.stderr, flush=True)


@contextmanager
def spoken(shown: bool | None) -> Iterator[None]:
    """Show each step as a line, or nothing; None: steps on a terminal, else long forecasts."""
    token = QUIET.set(shown is False)
    watch: dict[bool | None, Progress] = {True: _lines(), False: silent, None: _forecast}
    try:
        if shown is None and sys.stderr.isatty():
            yield
        else:
            with watched(watch[shown]):
                yield
    finally:
        QUIET.reset(token)


def _forecast(message: str) -> None:
    if LONG.search(message):
        notice(message)


def _lines() -> Progress:
    last = [-PAUSE]

    def say(message: str) -> None:
        if time.monotonic() - last[0] >= PAUSE:
            last[0] = time.monotonic()
            print(f"coupledgp: {message}", file=sys.stderr, flush=True)

    return say


@contextmanager
def pipes_kept() -> Iterator[None]:
    """Forget notices, and remove copies of pipes, at the end of a command."""
    try:
        yield
    finally:
        _said.clear()
        _pipes.clear()
        while _folders:
            shutil.rmtree(_folders.pop(), ignore_errors=True)


def on_disk(path: Path) -> Path:
    """The file itself, or one with the content of a pipe or of standard input, which is `-`."""
    name = str(path)
    if name in _pipes:
        return _pipes[name]
    if name != DASH and not stat.S_ISFIFO(path.stat().st_mode):
        return path
    _folders.append(tempfile.mkdtemp(prefix="coupledgp-"))
    copy = Path(_folders[-1]) / (f"input{path.suffix}")
    copy.write_bytes(sys.stdin.buffer.read() if name == DASH else path.read_bytes())
    _pipes[name] = copy
    return copy


def check_paths(
    inputs: Mapping[str, Path | None],
    outputs: Mapping[str, tuple[Path | None, Sequence[str]]],
    as_json: bool = False,
) -> None:
    """Refuse files that are not there, or cannot be written, before any work.

    Parameters
    ----------
    inputs
        Paths by the name of their option.
    outputs
        Paths with the endings that they may have, none for any, by the name of their option.
    as_json
        Whether JSON goes to standard output.

    Raises
    ------
    InvalidInputError
        An ending is none of the format's, or an output is an input or another output.
    OSError
        There is no such file or folder, or it may not be read or written.
    """
    taken: list[Path] = []
    for option, path in inputs.items():
        if path is None or str(path) == DASH:
            continue
        try:
            if not path.is_dir() and not stat.S_ISFIFO(path.stat().st_mode):
                path.open("rb").close()
        except (OSError, ValueError) as error:
            text = getattr(error, "strerror", None) or str(error)
            raise InvalidInputError(f"{option}: {path}: {text}") from None
        taken.append(path)
    dashes = [option for option, (path, _) in outputs.items() if str(path) == DASH]
    if len(dashes) > 1 or (dashes and as_json):
        raise InvalidInputError(
            f"{', '.join(dashes)}: expected standard output once, and no --json beside it"
        )
    for option, (path, endings) in outputs.items():
        if path is None or str(path) == DASH:
            continue
        if endings and path.suffix.lower() not in endings:
            known = ", ".join(endings)
            text = f"{option}: expected a path ending in {known}, got {str(path)!r}"
            raise InvalidInputError(text)
        if not path.parent.is_dir():
            raise InvalidInputError(f"{option}: {path}: no folder {path.parent}")
        if path.is_dir() and path.suffix != ".zarr":
            raise InvalidInputError(f"{option}: {path}: expected a file, got a folder")
        if any(os.path.realpath(path) == os.path.realpath(other) for other in taken):
            raise InvalidInputError(f"{option}: {path}: expected a path of its own")
        taken.append(path)


@contextmanager
def whole(path: Path, ending: str = "") -> Iterator[Path]:
    """A temporary path whose file or folder takes the place of `path` if the body succeeds.

    `ending` is that of the temporary file where `path` is `-`, standard output.
    """
    if str(path) == DASH or (path.exists() and not path.is_file() and not path.is_dir()):
        with tempfile.TemporaryDirectory(prefix="coupledgp-") as folder:
            temporary = Path(folder) / f"output{ending or path.suffix}"
            yield temporary
            sys.stdout.flush()
            with temporary.open("rb") as file:
                if str(path) == DASH:
                    shutil.copyfileobj(file, sys.stdout.buffer)
                else:
                    path.write_bytes(file.read())
        return
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".coupledgp-{os.getpid()}-{target.name}")
    try:
        yield temporary
        if target.is_dir():
            shutil.rmtree(target)
        elif target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(temporary)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def files(*outputs: Path | None, format: str = "csv") -> Iterator[list[Path | None]]:
    """Temporary paths of the outputs that are given, see `whole`, for the others None."""
    with ExitStack() as stack:
        yield [
            None if path is None else stack.enter_context(whole(path, f".{format}"))
            for path in outputs
        ]


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def answer(result: Mapping[str, Any], text: str, as_json: bool, *outputs: Path | None) -> None:
    """Print a result as JSON, or its text unless standard output has a file."""
    if as_json:
        print(json.dumps(json_values(dict(result)), indent=2, default=_plain))
    elif not QUIET.get() and DASH not in map(str, outputs):
        print(text)


@contextmanager
def about(*paths: Path | None, options: Mapping[str, str] | None = None) -> Iterator[None]:
    """Name the option, or the files, in errors of the body that name neither.

    `options` are names of options by those of the arguments that they stand for.
    """
    try:
        yield
    except CoupledGPError as error:
        text = str(error)
        for name, copy in _pipes.items():
            text = text.replace(str(copy), name)
        argument, mark, rest = text.partition(": ")
        if mark and options and argument in options:
            text = f"{options[argument]}: {rest}"
        names = [str(path) for path in paths if path is not None]
        if names and not text.startswith("--") and not any(name in text for name in names):
            text = f"{', '.join(names)}: {text}"
        raise type(error)(text) from error


def options_of(kind: type[Any], taken: Sequence[str] = ()) -> dict[str, str]:
    """Options of the command by the parameters of an estimator: its own, or `--set NAME`."""
    names = [*inspect.signature(kind).parameters, *parameters.options_of(kind)]
    return {
        name: f"--{name.replace('_', '-')}" if name in taken else f"--set {name}" for name in names
    }


def parameters_of(
    kind: type[Any], texts: Sequence[str] | None, taken: Sequence[str]
) -> dict[str, Any]:
    """Parameters of an estimator by name, from texts `NAME=VALUE` of `--set`.

    Parameters
    ----------
    kind
        The estimator's class.
    texts
        Values are read as literals of Python, `yes`, `no` or `none`, or as they stand.
    taken
        Parameters that the command gives itself.

    Raises
    ------
    InvalidInputError
        A text has no name or value, or the estimator has no such parameter to set.
    """
    known = [name for name in inspect.signature(kind).parameters if name not in (*taken, "options")]
    known += parameters.options_of(kind)
    found: dict[str, Any] = {}
    for text in texts or ():
        name, mark, value = text.partition("=")
        name, value = name.strip().replace("-", "_"), value.strip()
        if not mark or not name:
            raise wrong("--set", "NAME=VALUE", text)
        if name not in known:
            raise InvalidInputError(
                f"--set: {kind.__name__} takes {', '.join(sorted(known))}, got {name!r:.60}"
            )
        found[name] = _value(value)
    return parameters.folded(kind, found)


def _value(text: str) -> Any:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def checked(kind: Callable[..., Any], names: Mapping[str, str], /, **parameters: Any) -> Any:
    """An unfitted estimator whose parameters are valid; errors name the option."""
    with about(options=names):
        model = kind(**parameters)
        model.check_parameters()
    return model


def check_share(share: float, option: str = "--holdout") -> None:
    """Refuse a share of rows or places that leaves none."""
    if not 0 <= share < 1:
        raise InvalidInputError(f"{option}: expected a share from 0 to below 1, got {share:g}")


def check_level(level: float) -> None:
    """Refuse a number that is no probability of an interval."""
    if not 0 < level < 1:
        raise InvalidInputError(f"--level: expected a probability in (0, 1), got {level:g}")


def heading(**further: Any) -> dict[str, Any]:
    """The first entries of every JSON, and those of a command."""
    return {"coupledgp": version("coupledgp"), **further}


def described(model: Any) -> dict[str, Any]:
    """What a fitted model is: its class, its parameters and its explanation, as plain values."""
    kept, given = (bool, int, float, str, type(None)), model.get_params(deep=False)
    parameters = {k: one if isinstance(one, kept) else repr(one) for k, one in given.items()}
    explained = model.explain().splitlines()
    return {"kind": type(model).__name__, "parameters": parameters, "explanation": explained}


def law_columns(
    model: Any, points: Any, level: float | None, latent: bool, exposure: FloatArray | None = None
) -> dict[str, Any]:
    """Columns (p,) of the predictive law by name.

    Of a classifier the class of greatest chance and the chances of all; else `mean` and `std`, and
    with a level `lower` and `upper`, which do not go below zero where targets are counts.
    """
    size = len(points)
    if not size:
        raise InvalidInputError("data: expected at least one row to predict, got none")
    parts = [_law(model, points, slice(k, k + BATCH_ROWS), level, latent, exposure)
             for k in range(0, size, BATCH_ROWS)]  # fmt: skip
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if "lower" in found and are_counts(getattr(model, "y_train_", ())):
        found["lower"] = np.maximum(found["lower"], 0.0)
    return found


def _law(
    model: Any, points: Any, rows: slice, level: float | None, latent: bool, exposure: Any
) -> dict[str, Any]:
    some = points.iloc[rows] if hasattr(points, "iloc") else points[rows]
    if hasattr(model, "classes_"):
        chances = model.predict_proba(some)
        names = (f"{CHANCE}{label}" for label in model.classes_)
        found = {"class": model.classes_[chances.argmax(axis=1)]}
        return found | dict(zip(names, chances.T, strict=True))
    own = {} if exposure is None else {"exposure": exposure[rows]}
    mean, std = model.predict(some, return_std=True, latent=latent, **own)
    if level is None:
        return {"mean": mean, "std": std}
    if latent:
        raise InvalidInputError("--level: expected no --latent beside it, intervals have the noise")
    ends = model.predict_interval(some, level, **own)
    return {"mean": mean, "std": std, "lower": ends[0], "upper": ends[1]}


def are_counts(y: Any) -> bool:
    """Whether targets are whole numbers from zero, of more than two kinds."""
    values = np.asarray(y, dtype=np.float64)
    values = values[np.isfinite(values)]
    whole = values.size and (values >= 0).all() and (values == np.floor(values)).all()
    return bool(whole and np.unique(values).size > 2)


def with_columns(
    frame: pd.DataFrame, added: dict[str, Any], path: Path, prefix: str = ""
) -> pd.DataFrame:
    """The rows of a file with columns more, none of which it has."""
    taken = [f"{prefix}{name}" for name in added if f"{prefix}{name}" in frame.columns]
    if taken:
        raise InvalidInputError(
            f"{path}: has a column {taken[0]!r} already; --prefix gives the new ones others"
        )
    return frame.assign(**{f"{prefix}{name}": values for name, values in added.items()})


def hidden_rows(groups: Any, share: float | None, seed: int) -> IntArray:
    """Numbers of a random share of rows; rows of one group go together, one group stays."""
    distinct, code = np.unique(groups, axis=0, return_inverse=True)
    n = len(distinct)
    count = min(round((share or 0.0) * n), n - 1)
    chosen = np.random.default_rng(seed).permutation(n)[:count]
    return np.flatnonzero(np.isin(code.reshape(-1), chosen))


def exact_of(how: str, most: int | None = None, seed: int = 0) -> Any:
    """The argument `exact` of reports for `--compare`: by solves, at most `most` of them."""
    if how != "stochastic":
        return how
    options = cgp.diagnostics.StochasticOptions(seed=seed)
    return options if most is None else replace(options, n_columns=most)


def judged(model: Any, points: Any, y: Any, **further: Any) -> Any:
    """The report at held-out points, or, without them, of leaving each observation out.

    None, with a notice of the reason, where neither is possible.
    """
    try:
        if not len(y):
            return cgp.cross_validate(model)
        return cgp.report(model, points, y, **further)
    except InvalidInputError as error:
        notice(f"not judged: {error}")
        return None


def told(report: Any, head: Sequence[str], closing: Sequence[str]) -> str:
    """The lines of a result around its report's own text."""
    return "\n".join([*head, *([] if report is None else [str(report)]), *closing])
