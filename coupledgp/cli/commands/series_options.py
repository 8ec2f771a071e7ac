"""Options of `coupledgp interpolate` for values over time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from coupledgp.cli.options import path
from coupledgp.errors import InvalidInputError

TIME_PANEL = "Values over time, with --time-column"

TimeColumn = Annotated[
    str | None,
    typer.Option(
        help="Column of times (timestamps or numbers) of --values; of NetCDF and Zarr the "
        "dimension. Predicts over time.",
        rich_help_panel=TIME_PANEL, show_default=False,
    ),
]  # fmt: skip
Zone = Annotated[
    str | None,
    typer.Option(help="Time zone of times without one, and of what is written: Europe/Paris.",
                 rich_help_panel=TIME_PANEL, show_default=False),
]  # fmt: skip
Resolution = Annotated[
    str | None,
    typer.Option(help="Round times to this duration, such as 5min, and average what meets.",
                 rich_help_panel=TIME_PANEL, show_default=False),
]  # fmt: skip
Forecast = Annotated[
    str | None,
    typer.Option(help="Also predict the steps of this duration after the last time: 1h.",
                 rich_help_panel=TIME_PANEL, show_default=False),
]  # fmt: skip
Times = Annotated[
    str | None,
    typer.Option(help="Predict at FIRST:LAST:STEP instead of the times of the values.",
                 rich_help_panel=TIME_PANEL, show_default=False),
]  # fmt: skip
LeaveOneSensorOut = Annotated[
    Path | None,
    typer.Option(help="Write the scores of every sensor as the others predict it: .csv, .parquet.",
                 rich_help_panel=TIME_PANEL, show_default=False, parser=path),
]  # fmt: skip
Periods = Annotated[
    str | None,
    typer.Option(help="Periods of cycles, such as 1D,7D; they take 14 cycles of data at least.",
                 rich_help_panel=TIME_PANEL, show_default=False),
]  # fmt: skip
TimeKernel = Annotated[
    str,
    typer.Option(help="matern-1/2, matern-3/2, or auto, by evidence.", rich_help_panel=TIME_PANEL),
]
OutlierChoice = Annotated[
    str | None,
    typer.Option(
        help="reject: leave out values more than 4 standard deviations from their law given the "
        "others; student-t: weights.",
        rich_help_panel=TIME_PANEL, show_default=False,
    ),
]  # fmt: skip
SensorNoise = Annotated[
    str, typer.Option(help="shared, or own noise of each sensor.", rich_help_panel=TIME_PANEL)
]
SaveModel = Annotated[
    Path | None,
    typer.Option(help="Write the fitted model, which --update goes on with.",
                 rich_help_panel=TIME_PANEL, show_default=False, parser=path),
]  # fmt: skip
Update = Annotated[
    Path | None,
    typer.Option(
        help="A model that --save-model wrote: rows later than its last time are added, "
        "hyperparameters are kept.",
        rich_help_panel=TIME_PANEL, show_default=False, parser=path,
    ),
]  # fmt: skip
Window = Annotated[
    str | None,
    typer.Option(help="Duration of the past that --update keeps, such as 2D.",
                 rich_help_panel=TIME_PANEL, show_default=False),
]  # fmt: skip

# Options that need --time-column.
OVER_TIME = (
    "zone", "resolution", "forecast", "times", "leave_one_sensor_out", "periods", "time_kernel",
    "outliers", "sensor_noise", "save_model", "update", "window",
)  # fmt: skip
# Other options that go with it.
SHARED = (
    "graph", "output", "values", "node_column", "value_column", "nodes", "weight", "length",
    "undirected", "keep_isolated", "positions", "model", "kernel", "layer", "crs", "max_edge",
    "seed", "latent", "report", "as_json", "time_column",
)  # fmt: skip
# What an update takes from the model file.
KEPT = (
    "kernel", "time_kernel", "periods", "outliers", "sensor_noise", "window", "seed", "model",
    "resolution",
)  # fmt: skip
NAMES = {"as_json": "--json"}


def option_name(name: str) -> str:
    """The option of a parameter."""
    return NAMES.get(name, f"--{name.replace('_', '-')}")


def is_given(context: typer.Context, name: str) -> bool:
    """Whether an option was given on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def check_together(context: typer.Context) -> bool:
    """Whether values are over time; refuse options that do not go with that.

    Raises
    ------
    InvalidInputError
        An option needs `--time-column`, or does not go with it or with `--update`.
    """
    options: Mapping[str, Any] = context.params
    over_time = options["time_column"] is not None
    for name in options:
        if not is_given(context, name):
            continue
        if not over_time and name in OVER_TIME:
            raise InvalidInputError(f"{option_name(name)}: expected --time-column beside it")
        if over_time and name not in (*SHARED, *OVER_TIME):
            raise InvalidInputError(
                f"{option_name(name)}: expected no --time-column beside it, as it is not for "
                "values over time"
            )
        if options["update"] is not None and name in KEPT:
            raise InvalidInputError(
                f"{option_name(name)}: expected no --update beside it, as the model file has it"
            )
    return over_time


def one_value_column(given: list[str] | None) -> str | None:
    """The column of values without times, of which there is one."""
    if given is not None and len(given) > 1:
        raise InvalidInputError(
            f"--value-column: expected one, or --time-column beside several, got {len(given)}"
        )
    return given[0] if given else None
