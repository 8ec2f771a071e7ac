"""The application: its commands, and its exit code after an error."""

import os
import shlex
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any

from coupledgp.errors import CoupledGPError, MissingLibraryError
from coupledgp.ground.extras import named_extras
from coupledgp.ground.visible import visible

UNFORESEEN, MENDABLE, INTERRUPTED, ENDED, UNREAD = 1, 2, 130, 143, 141
# Most characters of an error or warning.
LONGEST_LINE = 1200
# Environment variable under which an unforeseen error ends in its traceback.
TRACEBACK = "COUPLEDGP_TRACEBACK"
COMMANDS = ("fit", "predict", "field", "graph", "krige", "forecast", "audit", "demo")
HELP = """Gaussian process regression with coupled random features, from tables, meshes and graphs.

Exit codes: 0 success; 2 a wrong option or file, in one line; 1 an error that nobody foresaw.
"""


def main() -> None:
    """Run the command line and end the process.

    Examples
    --------
    >>> import subprocess, sys
    >>> code = "from coupledgp.cli import main; main()"  # as the command `coupledgp` does
    >>> done = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True)
    >>> done.returncode, done.stdout.split()[0]
    (0, b'coupledgp')
    """
    signal.signal(signal.SIGTERM, _ended)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    code = run()
    if code == UNREAD:  # what is left in the buffer has no reader
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _ended(number: int, frame: Any) -> None:
    raise SystemExit(128 + number)  # temporary files are removed on the way out


def application(wanted: Sequence[str] = COMMANDS) -> Any:
    """The application of typer, with the commands that are wanted."""
    import typer

    app = typer.Typer(
        name="coupledgp",
        help=HELP,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def show_version(value: bool) -> None:
        if value:
            from importlib.metadata import version

            typer.echo(f"coupledgp {version('coupledgp')}")
            raise typer.Exit

    @app.callback(invoke_without_command=True)
    def root(
        context: typer.Context,
        version: Annotated[
            bool,
            typer.Option(
                "--version", callback=show_version, is_eager=True, help="Show the version."
            ),
        ] = False,
    ) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    for name in wanted:  # each imports what it needs
        app.command(name)(getattr(import_module(f"coupledgp.cli.{name}"), name))
    return app


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    The code is 0 after success, 2 after an error that the user can mend (one line on stderr), 1
    after one that nobody foresaw, 130 after an interrupt, 141 where the reader of a pipe has left.

    Parameters
    ----------
    arguments
        Arguments of the command line; None takes those of the process.

    Examples
    --------
    >>> import contextlib, tempfile
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.cli import run
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> model = cgp.ExactGPRegressor(lengthscale=1.0, optimizer=None).fit(X, np.sin(X[:, 0]))
    >>> with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
    ...     cgp.save_model(model, "sine.model")
    ...     np.savetxt("places.csv", [[1.5], [2.5]], header="x0", comments="")
    ...     run(["predict", "sine.model", "places.csv", "-o", "predicted.csv"])
    2 rows with 'mean', 'std', 'extrapolation' written to predicted.csv
    0
    """
    try:
        with named_extras():
            import typer

            from coupledgp.cli.shared import pipes_kept

            given = list(sys.argv[1:] if arguments is None else arguments)
            named = [name for name in given[:1] if name in COMMANDS]
            command = typer.main.get_command(application(named or COMMANDS))
    except MissingLibraryError as error:
        print(f"coupledgp: {error}", file=sys.stderr)
        return MENDABLE
    usage: type[Exception] = typer.BadParameter.__mro__[1]  # click's, wherever typer keeps its copy
    try:
        with _short_warnings(), pipes_kept(), named_extras():
            code = command.main(args=given, prog_name="coupledgp", standalone_mode=False)
            sys.stdout.flush()
            if code == INTERRUPTED:
                raise KeyboardInterrupt
            return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        print("coupledgp: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        return UNREAD
    except (CoupledGPError, OSError, MemoryError, Warning, usage) as error:
        print(f"coupledgp: error: {_message(error)}", file=sys.stderr)
        return MENDABLE
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        text = shlex.join(given)
        said = f"unforeseen {type(error).__name__} in coupledgp {text}: {error}"
        told = f"{said} ({TRACEBACK}=1 shows where; please report it)"
        print(f"coupledgp: error: {_one_line(told)}", file=sys.stderr)
        return UNFORESEEN


def _one_line(text: str) -> str:
    line = visible(" ".join(text.split()))
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} ..."


def _message(error: Exception) -> str:
    if hasattr(error, "format_message"):
        context = getattr(error, "ctx", None)
        path = "coupledgp" if context is None else context.command_path
        text = f"{error.format_message()} ({path} --help lists the options)"
    elif isinstance(error, OSError) and error.filename is not None:
        text = f"{os.fsdecode(error.filename)}: {error.strerror}"
    elif isinstance(error, MemoryError):
        text = f"not enough memory: {error}" if str(error) else "not enough memory"
    else:
        text = str(error) or type(error).__name__
    return _one_line(text)


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Show a warning as one line on stderr, once, without the line of code that gave it."""
    shown = set()

    def show(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
        text = _one_line(str(message))
        if text not in shown:
            shown.add(text)
            print(f"coupledgp: warning: {text}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
