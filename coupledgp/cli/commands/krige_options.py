"""Options of `coupledgp krige`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from coupledgp.cli.shared.declare import (
    MODEL_PANEL,
    OUTPUT_PANEL,
    Options,
    argument,
    option,
    required,
)

# Number of places of a grid along each column.
N_PLACES = 100


@dataclass(frozen=True, kw_only=True)
class KrigeOptions(Options):
    """Options of `coupledgp krige`."""

    data: Path = argument("DATA", "CSV, JSON or Parquet file, or - for one on standard input.")
    target: str | None = option(
        "Column of values. \\[default: the only other of numbers]", "--target", "-t"
    )
    places: str | None = option(
        "One to three columns that are places, as east,north. \\[default: by their names]"
    )
    grid: str | None = option(
        f"Number of places along each column, as 500x300. \\[default: {N_PLACES} each]"
    )
    geographic: str = option(
        "latitude,longitude in degrees; auto by their names, or none.", default="auto"
    )
    kernel: str = option("auto, gaussian or matern-NU.", default="auto", panel=MODEL_PANEL)
    trend: str = option("constant, or linear in places.", default="constant", panel=MODEL_PANEL)
    ard: bool = option(
        "One lengthscale a place, or one for all.", "--ard/--isotropic",
        default=True, panel=MODEL_PANEL, old="--anisotropic=--ard",
    )  # fmt: skip
    output: Path = required(
        ".nc, .csv, .parquet or .json to write, or -.", "--output", "-o",
        panel=OUTPUT_PANEL, ending=".csv",
    )  # fmt: skip
    level: float | None = option(
        "Also the ends of the interval that holds an observation with this probability.",
        panel=OUTPUT_PANEL,
    )  # fmt: skip
    save_model: Path | None = option(
        "Also write the model, for predict and report.",
        panel=OUTPUT_PANEL, ending=".model", old="--model",
    )  # fmt: skip
