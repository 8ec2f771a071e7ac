"""Options of the commands on tables: `coupledgp fit`, `krige` and `predict`."""

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
from coupledgp.cli.shared.options import (
    COMPARISONS,
    SUBSET_ROWS,
    WHOLE_ROWS,
    at_least,
    budget_seconds,
    check_above_zero,
    number_or_auto,
    one_of,
)
from coupledgp.diagnostics.limits import DENSE_ROWS
from coupledgp.errors import InvalidInputError

DEFAULT_HOLDOUT = 0.2
# Number of places of a grid along each column.
N_PLACES = 100


@dataclass(frozen=True, kw_only=True)
class TableOptions(Options):
    """What commands have that fit the rows of a table."""

    data: Path = argument(
        "DATA",
        "CSV{fit:  or Parquet file, or a folder of them}{krige: , JSON or Parquet file, or - for "
        "one on standard input}.",
    )
    ard: bool = option(
        "One lengthscale a {fit: column}{krige: place}, or one for all.", "--ard/--isotropic",
        default=True, panel=MODEL_PANEL, old="--anisotropic=--ard",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class FitOptions(TableOptions):
    """Options of `coupledgp fit`."""

    test: Path | None = option("File with test rows.")
    categorical: list[str] | None = option(
        "Column to read as categories, whatever it holds; may be repeated."
    )
    numeric: list[str] | None = option(
        "Column to read as numbers: a text in it is an error; may be repeated."
    )
    date: list[str] | None = option("Column to read as dates in ISO 8601; may be repeated.")
    weight_column: str | None = option(
        "Column of weights: a row of weight 2 counts as two rows. No input."
    )
    noise_column: str | None = option(
        "Column of known noise variances, in units of the target squared. No input."
    )
    model: str | None = option(
        "auto: an exact GP on few rows, else a mixture of local models, by what predicts "
        "rows that were left out; or exact, additive, trees, local, hybrid (local and features), "
        "features; or sparse-spectrum, which has the options below. \\[default: auto, or "
        "sparse-spectrum if one of those is given]",
        panel=MODEL_PANEL,
    )
    budget: str = option(
        "Most time of one core that a fit of another model than sparse-spectrum may take, by its "
        "forecast: 90s, 10min.",
        default="600s",
        panel=MODEL_PANEL,
        check=budget_seconds,
    )
    kernel: str = option(
        "gaussian, matern-1/2, -3/2, -5/2 or -NU; or an expression such as "
        "'matern(1.5) + additive(2)', which an exact model takes.",
        default="gaussian",
        panel=MODEL_PANEL,
    )
    features: str = option("fourier or laplace.", default="fourier", panel=MODEL_PANEL)
    n_frequencies: str = option(
        "Number of frequencies, or auto: as many as --kl-target takes.",
        default="256",
        panel=MODEL_PANEL,
        check=number_or_auto,
    )
    coupling: str | None = option(
        "Of sampled frequencies: iid, halton, sobol, or DIRECTIONS+NORMS+antithetic with "
        "directions iid, orthogonal, simplex and norms pnc, monotone, stratified, shared-strata; "
        "or auto. \\[default: orthogonal+pnc, unless they are drawn for the posterior]",
        panel=MODEL_PANEL,
    )
    kl_target: float = option(
        "For auto: KL to the exact GP, nats per row.",
        default=0.01,
        panel=MODEL_PANEL,
        check=check_above_zero,
    )
    frequencies: str = option(
        "sampled from the kernel's spectrum, drawn for the posterior, or fitted to the exact one; "
        "auto: posterior where a pilot expects a gain and no coupling is named.",
        default="auto",
        panel=MODEL_PANEL,
    )
    dtype: str = option("float64 or float32 features.", default="float64", panel=MODEL_PANEL)
    device: str = option(
        "Where the model computes: cpu, cuda, cuda:1, or auto (a GPU where there is one). "
        "An exact model of --model auto is on the CPU.",
        default="cpu",
        panel=MODEL_PANEL,
    )
    max_iter: int = option("Most iterations of the optimiser.", default=100, panel=MODEL_PANEL)
    n_restarts: int = option("Starts tried besides the best.", default=1, panel=MODEL_PANEL)
    how: str = option(
        "With the exact GP: dense or stochastic (iterative solves), the whole model; "
        f"subset, both on {SUBSET_ROWS} of the rows; none. auto: dense up to {DENSE_ROWS} "
        f"rows, stochastic up to {WHOLE_ROWS} (minutes; it says so), above them subset; for "
        "another model than sparse-spectrum none, unless there is a --report.",
        "--compare",
        default="auto",
        check=one_of(*COMPARISONS),
    )
    exact_rows: int | None = option(
        "Most training rows the exact GP is given, a random subset; 0 leaves it out. "
        "\\[default: as --compare says]",
        check=at_least(0),
    )
    output: Path | None = option(
        "Save the model.", "--output", "-o", panel=OUTPUT_PANEL, ending=".model"
    )
    include_data: bool = option(
        "Save the training rows with the model, for its exact twin.",
        default=False,
        panel=OUTPUT_PANEL,
    )

    @property
    def seconds(self) -> float:
        """Seconds of the budget."""
        return budget_seconds(self.budget)

    @property
    def share(self) -> float:
        """Share of the rows that is held out."""
        test, holdout = self.test, self.holdout
        if test is not None and holdout is not None:
            raise InvalidInputError("--test, --holdout: expected at most one of them")
        return 0.0 if test is not None else DEFAULT_HOLDOUT if holdout is None else holdout


@dataclass(frozen=True, kw_only=True)
class KrigeOptions(TableOptions):
    """Options of `coupledgp krige`."""

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
    output: Path = required(
        ".nc, .csv, .parquet or .json to write, or -.", "--output", "-o",
        panel=OUTPUT_PANEL, ending=".csv",
    )  # fmt: skip
    save_model: Path | None = option(
        "Also write the model, for predict and report.",
        panel=OUTPUT_PANEL, ending=".model", old="--model",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PredictOptions(Options):
    """Options of `coupledgp predict`."""

    model: Path = argument("MODEL", "File that fit wrote.")
    data: Path = argument("DATA", "CSV or Parquet file, or a folder of them.")
    output: Path = required(
        ".csv, .tsv, .parquet or .json to write, or -.", "--output", "-o", ending=".csv"
    )
    prefix: str = option("Before the names of the added columns.", default="", shown=False)
