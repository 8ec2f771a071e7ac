"""Options of `coupledgp fit`."""

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
from coupledgp.cli.shared.options import SUBSET_ROWS, WHOLE_ROWS, budget_seconds
from coupledgp.diagnostics.limits import DENSE_ROWS
from coupledgp.errors import InvalidInputError

DEFAULT_HOLDOUT = 0.2


@dataclass(frozen=True, kw_only=True)
class FitOptions(Options):
    """Options of `coupledgp fit`."""

    data: Path = argument("DATA", "CSV or Parquet file, or a folder of them.")
    target: str = required("Column to predict.", "--target", "-t")
    test: Path | None = option("File with test rows.")
    holdout: float | None = option(
        f"Share of the rows held out for scoring, if no --test is given. "
        f"\\[default: {DEFAULT_HOLDOUT}]"
    )
    drop: list[str] | None = option("Column to leave out; may be repeated.")
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
    )
    coupling: str = option(
        "iid, halton, sobol, or DIRECTIONS+NORMS+antithetic with directions iid, "
        "orthogonal, simplex and norms pnc, monotone, stratified, shared-strata; or auto.",
        default="orthogonal+pnc",
        panel=MODEL_PANEL,
    )
    kl_target: float = option(
        "For auto: KL to the exact GP, nats per row.", default=0.01, panel=MODEL_PANEL
    )
    frequencies: str = option(
        "sampled from the kernel's spectrum, or fitted to the objective.",
        default="sampled",
        panel=MODEL_PANEL,
    )
    objective: str = option(
        "Of fitted frequencies: evidence, for prediction, or posterior-kl, for closeness "
        "to the exact GP.",
        default="evidence",
        panel=MODEL_PANEL,
    )
    ard: bool = option(
        "One lengthscale a column, or one for all.",
        "--ard/--isotropic",
        default=True,
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
    )
    exact_rows: int | None = option(
        "Most training rows the exact GP is given, a random subset; 0 leaves it out. "
        "\\[default: as --compare says]"
    )
    stream: bool | None = option(
        "Read the file in batches, in memory that does not grow with its rows, and fit "
        "sparse-spectrum; or read it whole. \\[default: in batches where it is a folder, or a "
        "quarter of the free memory does not hold it]",
        "--stream/--in-memory",
    )
    checkpoint: Path | None = option(
        "Folder from which a fit in batches that was killed goes on; delete it after use."
    )
    output: Path | None = option(
        "Save the model.", "--output", "-o", panel=OUTPUT_PANEL, ending=".model"
    )
    include_data: bool = option(
        "Save the training rows with the model, for its exact twin.",
        default=False,
        panel=OUTPUT_PANEL,
    )
    report: Path | None = option("Write an HTML page.", panel=OUTPUT_PANEL, ending=".html")

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
        share = DEFAULT_HOLDOUT if holdout is None else holdout
        if not 0 <= share < 1:
            raise InvalidInputError(f"--holdout: expected a share from 0 to below 1, got {share:g}")
        return 0.0 if test is not None else share
