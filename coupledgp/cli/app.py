"""The application: its commands, and its exit code after an error."""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from coupledgp.cli.commands.audit import audit
from coupledgp.cli.commands.demo import DemoOptions, demo
from coupledgp.cli.commands.fit import fit
from coupledgp.cli.commands.interpolate import interpolate
from coupledgp.cli.commands.interpolate_options import (
    ALL,
    AuditOptions,
    InterpolateOptions,
    ReportOptions,
)
from coupledgp.cli.commands.krige import krige
from coupledgp.cli.commands.predict import predict
from coupledgp.cli.commands.report import report
from coupledgp.cli.commands.table_options import FitOptions, KrigeOptions, PredictOptions
from coupledgp.cli.process import ReaderLeftError
from coupledgp.cli.readers.files import pipes_kept
from coupledgp.cli.shared.declare import Options, add
from coupledgp.errors import CoupledGPError
from coupledgp.ground.visible import visible

HELP = """Gaussian process regression with coupled random features.

Fits in time linear in the number of rows, and says how far its posterior is from the exact one.
"""
FIT_HELP = """Fit a Gaussian process to a table, score it, and compare it with the exact one.

Every column but the target is an input; use --drop for those that are not. Text is read as
categories, true/false and yes/no as Booleans, ISO dates as dates, empty cells as missing; it says
how, and predict reads a table in the same way. Without --test, a fifth of the rows is held out for
scoring; --holdout 0 fits all rows and scores none.

--kernel, --features and --coupling also take the names that installed packages add.

The NLPD is that of the model's own density, Gaussian or a mixture. Up to 40 000 rows the exact GP
beside it is that of all rows; above 5000 it takes iterative solves at 128 test rows (240 CPU
seconds for 36 000 rows of 8 columns).

Examples:

  coupledgp fit houses.csv --target price

  coupledgp fit train.parquet -t y --test test.parquet -o y.model

  coupledgp fit houses.csv -t price --kernel matern-3/2 --report houses.html

  coupledgp fit houses.csv -t price --compare subset --json > figures.json
"""
PREDICT_HELP = """Predict each row of a table: columns `mean` and `std` are added to it.

The inputs are found by name, in any order; other columns are kept as they are. The standard
deviation is that of an observation, noise included; --latent leaves the noise out.

Examples:

  coupledgp predict y.model new.csv -o predicted.csv

  coupledgp predict y.model new.parquet -o predicted.parquet --prefix price_
"""
FIELD_HELP = """Predict a field on a mesh from values at some places.

Values are anywhere on the surface: a table of x, y, z and a value, or of vertex or face numbers
from 0. The field is a Gaussian process along the surface and of position, mixed by evidence.

Examples:

  coupledgp field part.stl --values sensors.csv -o law.vtu --report part.html

  coupledgp field part.stl --values sensors.csv --query places.csv -o - | head
"""
GRAPH_HELP = """Predict values on roads, a network or a graph from those at some nodes or places.

GRAPH is a file of roads (GeoPackage, GeoJSON, shapefile), GraphML or GML, or a table of source and
target. With lengths it is a field along the edges, and values may lie anywhere on them; else, or
with --model graph, a kernel on the nodes, as on a mesh.

Example:

  coupledgp graph city.graphml --values speeds.csv --holdout 0.1 -o law.gpkg
"""
FORECAST_HELP = """Predict values over time at the nodes of a graph, of roads or of a mesh.

VALUES has gaps: a long table of node, time and value, a wide one with a column for each node,
NetCDF or Zarr. Each node and time gets mean, std, a 95 % interval and its kind (observed, gap,
forecast, hidden or rejected).

Example:

  coupledgp forecast roads.csv --values speeds.parquet -t mph --ahead 1h -o law.parquet
"""
INTERPOLATE_HELP = """The commands field, graph and forecast in one, with the options of all.

Values are over time with --time-column. On a mesh, and on roads with lengths, it is a field, unless
an option that only graphs have, or --model graph, means a kernel on the nodes.

Example:

  coupledgp interpolate part.stl --signal normal-z --holdout 0.05 -o law.ply --report part.html
"""
KRIGE_HELP = """Krige values at places on a grid, with all rows.

The kernel, its lengthscales and the noise come from the rows: a million of them in two columns take
about a minute. The grid covers the box of the rows. OUT has mean and std of each place.

Examples:

  coupledgp krige wells.csv -t depth --places east,north --grid 500x300 -o depth.nc

  coupledgp krige soil.parquet -t ph --trend linear -o ph.csv --save-model ph.model
"""
REPORT_HELP = """Write one page on how good a saved model's posterior is.

MODEL must hold its training rows (fit --include-data). DATA are test rows with the target, or nodes
and values. --couplings also compares couplings and sizes at the model's hyperparameters. Above 5000
training rows the exact GP's law comes from iterative solves, at 128 test rows unless --max-rows
says otherwise; it says beforehand what that takes.

Without DATA training rows are left out, each as all others predict it, at most 10 000 of them
(--max-rows): alone, or together where inputs, nodes or places are equal, or where they have one
value of --groups, such as a sensor, a day or a category. Nothing is fitted again.

Examples:

  coupledgp report y.model test.csv -o report.html

  coupledgp report y.model test.csv -o report.html --couplings iid,orthogonal --sizes 64,256

  coupledgp report y.model -o left_out.html

  coupledgp report y.model -o by_day.html --groups day --groups-from train.csv
"""
AUDIT_HELP = """Write one page on predictions that any program made.

TRAIN and TEST are tables of the rows that the predictions were made from and at, PREDICTIONS has a
mean and a standard deviation of an observation for each test row, or draws in its columns. The page
says whether they are better than simple ones and whether their intervals are honest; with --kernel
and its hyperparameters in units of the target, or --model, also how far they are from the exact GP.

Examples:

  coupledgp audit --train train.csv --test test.csv -t y --predictions pred.csv -o audit.html

  coupledgp audit --train train.csv --test test.csv -t y --predictions draws.csv --samples --id row
-o audit.html

  coupledgp audit --train train.csv --test predicted.csv -t y --kernel matern-5/2
--lengthscale 0.8,3 --outputscale 1.2 --noise 0.05 -o audit.html
"""
DEMO_HELP = """Compare couplings on embedded data and a mesh: under a minute, nothing is downloaded.

Writes DIR/report.html, a page to look at, posterior-table.html and posterior-mesh.html, the reports
of one model each to send on, and a .json beside each page, the same figures for a program.

Example:

  coupledgp demo --output demo-report
"""
INTERRUPTED, UNREAD = 130, 141
# Most characters of an error or warning.
LONGEST_LINE = 1200
# Environment variable under which an error of which nobody thought ends in its traceback.
TRACEBACK = "COUPLEDGP_TRACEBACK"
# click's error of wrong usage, wherever typer keeps its copy of click.
USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]


def _paragraphs(text: str) -> str:
    """Join the lines of each paragraph, whose line breaks typer would otherwise keep."""
    return "\n\n".join(" ".join(part.split("\n")) for part in text.strip().split("\n\n"))


app = typer.Typer(
    name="coupledgp",
    help=_paragraphs(HELP),
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS: tuple[tuple[str, Any, type[Options], str], ...] = (
    ("fit", fit, FitOptions, FIT_HELP),
    ("predict", predict, PredictOptions, PREDICT_HELP),
    ("field", interpolate, InterpolateOptions, FIELD_HELP),
    ("graph", interpolate, InterpolateOptions, GRAPH_HELP),
    ("forecast", interpolate, InterpolateOptions, FORECAST_HELP),
    ("krige", krige, KrigeOptions, KRIGE_HELP),
    ("report", report, ReportOptions, REPORT_HELP),
    ("audit", audit, AuditOptions, AUDIT_HELP),
    ("demo", demo, DemoOptions, DEMO_HELP),
)
for _name, _run, _kind, _help in COMMANDS:
    add(app, _name, _run, _kind, _paragraphs(_help))
add(app, "interpolate", interpolate, InterpolateOptions, _paragraphs(INTERPOLATE_HELP), ALL)


def _show_version(value: bool) -> None:
    if value:
        from importlib.metadata import version  # slow to import

        typer.echo(f"coupledgp {version('coupledgp')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _application(
    context: typer.Context,
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    The code is 0 after success, 2 after any error that the user can do something about (one line on
    stderr), 130 after an interrupt, and 141 where the reader of a pipe has left.

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
    2 rows with 'mean', 'std' and 'extrapolation' written to predicted.csv
    0
    """
    application = typer.main.get_command(app)
    try:
        with _short_warnings(), pipes_kept():
            given = None if arguments is None else list(arguments)
            code = application.main(args=given, prog_name="coupledgp", standalone_mode=False)
            sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except ReaderLeftError:
        return UNREAD
    except _mendable_errors() as error:
        print(f"coupledgp: error: {_message(error)}", file=sys.stderr)
        return 2
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        print(f"coupledgp: error: {_unforeseen(error, arguments)}", file=sys.stderr)
        return 2
    if code == INTERRUPTED:  # typer itself returns this code after some interrupts
        print("coupledgp: interrupted", file=sys.stderr)
    return code if isinstance(code, int) else 0


def _unforeseen(error: Exception, arguments: Sequence[str] | None) -> str:
    """One line on an unforeseen error, with the command that led to it."""
    given = shlex.join(sys.argv[1:] if arguments is None else arguments)
    return _one_line(
        f"unforeseen {type(error).__name__} in coupledgp {given}: {error} "
        f"({TRACEBACK}=1 shows where; please report it)"
    )


def _one_line(text: str) -> str:
    line = visible(" ".join(text.split()))
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} ..."


def _mendable_errors() -> tuple[type[Exception], ...]:
    """Classes of errors that the user can correct; pyarrow's are among them if it is loaded.

    A warning is one where Python was asked to make errors of warnings.
    """
    errors = (CoupledGPError, OSError, MemoryError, USAGE_ERROR, Warning)
    pyarrow = sys.modules.get("pyarrow")
    return errors if pyarrow is None else (*errors, pyarrow.ArrowException)


def _message(error: Exception) -> str:
    if isinstance(error, USAGE_ERROR):
        context = getattr(error, "ctx", None)
        path = "coupledgp" if context is None else context.command_path
        text = f"{error.format_message()} ({path} --help lists the options)"  # type: ignore[attr-defined]
    elif isinstance(error, OSError) and error.filename is not None:
        text = f"{os.fsdecode(error.filename)}: {error.strerror}"
    elif isinstance(error, MemoryError):
        text = f"not enough memory: {error}" if str(error) else "not enough memory"
    elif isinstance(error, Warning):
        text = f"{error} (a {type(error).__name__}, and PYTHONWARNINGS or -W makes errors of them)"
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
