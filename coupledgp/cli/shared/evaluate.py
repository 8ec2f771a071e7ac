"""Scores on test rows and the distance from the exact GP, as `coupledgp fit` reports them.

What commands say beside their result, and results on standard output.

Notices and steps of the work go to stderr. The result of an output `-` is written to a file that is
copied to standard output at the end, so that every format works, and nothing else is printed there.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from coupledgp.cli.readers.files import STDIN, own_folder
from coupledgp.cli.readers.kinds import Beside
from coupledgp.cli.readers.notices import QUIET, SAID, announce, notice
from coupledgp.cli.shared.options import (
    COMPARISONS,
    MAX_SOLVED_ROWS,
    MAX_TEST_ROWS,
    SUBSET_ROWS,
    WHOLE_ROWS,
)
from coupledgp.diagnostics import PosteriorReport, compare, coverage, nlpd, rmse
from coupledgp.diagnostics.likelihoods.reporting import is_observed
from coupledgp.diagnostics.limits import DENSE_ROWS
from coupledgp.diagnostics.scoring.scores import LEVELS
from coupledgp.errors import ExtrapolationWarning, InvalidInputError
from coupledgp.gp.dense_prior import MATRICES_AT_ONCE, check_dense_size
from coupledgp.gp.latent import LatentGP
from coupledgp.gp.protocol import GaussianProcess, Points
from coupledgp.gp.transformed import TransformedGP
from coupledgp.ground.progress import Progress, silent, watched
from coupledgp.ground.validation import check_choice
from coupledgp.models.grids import Extrapolations
from coupledgp.random import FloatArray

# CPU seconds that the solves of kin40k took, its number of training rows, and the share of the time
# that does not depend on the number of test points, which was 128.
MEASURED_SECONDS, MEASURED_ROWS, FIXED_SHARE = 240.0, 36_000, 0.5
# Rows predicted at once: the exact GP needs a matrix of this many rows times its training rows.
BATCH_ROWS = 8192


@dataclass(frozen=True)
class Rows:
    """Rows of a data set.

    Attributes
    ----------
    X : pyarrow.Table
        Inputs, n rows of d columns: float64, Booleans, text and timestamps.
    y : FloatArray (n,)
        Targets, or texts of classes.
    weights : Mapping of str to FloatArray (n,)
        Weights or noise variances of the rows, if any, by the name of the argument of a fit.
    beside : Mapping of str to NDArray (n,)
        Columns that are no inputs, along which residuals are looked at.
    """

    X: pa.Table
    y: FloatArray
    weights: Mapping[str, FloatArray] = field(default_factory=dict)
    beside: Beside = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def is_labelled(self) -> bool:
        """Whether targets are classes."""
        return self.y.dtype.kind == "U"

    def take(self, indices: FloatArray) -> Rows:
        """The rows at indices (m,)."""
        weights = {name: values[indices] for name, values in self.weights.items()}
        beside = {name: values[indices] for name, values in self.beside.items()}
        return Rows(self.X.take(pa.array(indices)), self.y[indices], weights, beside)

    def sample(self, n: int, rng: np.random.Generator) -> Rows:
        """At most n rows, drawn without replacement, in their order."""
        if len(self) <= n:
            return self
        return self.take(np.sort(rng.choice(len(self), n, replace=False)))


@dataclass(frozen=True)
class Plan:
    """Settings of a comparison with the exact GP.

    Attributes
    ----------
    n_rows : int
        Number of training rows that both are given: all, or those of a random subset.
    method : str
        Method of `compare`, `"dense"` or `"stochastic"`.
    max_points : int
        Largest number of test points.
    """

    n_rows: int
    method: str
    max_points: int

    def check_size(self) -> None:
        """Refuse a dense exact GP that memory cannot hold."""
        if self.method == "dense":
            check_dense_size(self.n_rows, MATRICES_AT_ONCE)


def solve_seconds(n_rows: int, n_points: int) -> float:
    """Expected CPU seconds of a comparison by solves, which grow with n_rows^2 and n_points."""
    share = FIXED_SHARE + (1 - FIXED_SHARE) * n_points / MAX_SOLVED_ROWS
    return MEASURED_SECONDS * share * (n_rows / MEASURED_ROWS) ** 2


def announce_solves(n_rows: int, n_points: int, hint: str) -> None:
    """Say the expected time of a comparison by solves, if it is long."""
    announce(
        f"comparing with the exact GP of {n_rows} rows at {n_points} points by iterative solves",
        solve_seconds(n_rows, n_points), f", some times that if the noise is small; {hint}",
    )  # fmt: skip


def plan_comparison(how: str, n_rows: int, exact_rows: int | None) -> Plan | None:
    """Return the settings of the comparison that the options ask for; None for no comparison.

    Parameters
    ----------
    how
        One of `COMPARISONS`. `"auto"`: the whole model, by dense algebra for few rows and by
        solves for more; above 40 000 rows a subset.
    n_rows
        Number of training rows.
    exact_rows
        Largest number of rows that the exact GP is given; None: all, or `SUBSET_ROWS` if `how` or
        the number of rows asks for a subset.
    """
    check_choice(how, COMPARISONS, "--compare")
    if how == "none" or exact_rows == 0:
        return None
    if exact_rows is None:
        whole = how in ("dense", "stochastic") or (how == "auto" and n_rows <= WHOLE_ROWS)
        exact_rows = n_rows if whole else SUBSET_ROWS
    kept = min(exact_rows, n_rows)
    solved = how == "stochastic" or (how != "dense" and kept > DENSE_ROWS)
    if solved:
        return Plan(kept, "stochastic", MAX_SOLVED_ROWS)
    return Plan(kept, "dense", MAX_TEST_ROWS)


@dataclass(frozen=True)
class ExactComparison:
    """A posterior report with its numbers of rows.

    Attributes
    ----------
    report : PosteriorReport
        Figures of the comparison.
    n_train, n_test : int
        Number of rows given to both processes, and of points at which they are compared.
    at_training_inputs : bool
        Whether these points are training inputs, for want of test rows.
    """

    report: PosteriorReport
    n_train: int
    n_test: int
    at_training_inputs: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return {
            "n_train": self.n_train,
            "n_test": self.n_test,
            "at_training_inputs": self.at_training_inputs,
            **self.report.to_dict(),
        }


class Stopwatch:
    """Seconds that the parts of the work took, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Time the body under a name."""
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start


def split(rows: Rows, share: float, seed: int) -> tuple[Rows, Rows]:
    """Split rows into training rows, at least one, and a random share of test rows."""
    n_test = min(round(share * len(rows)), len(rows) - 1)
    order = np.random.default_rng(seed).permutation(len(rows))
    return rows.take(np.sort(order[n_test:])), rows.take(np.sort(order[:n_test]))


def predict_in_batches(
    model: Any, X: Any, latent: bool = False, exposure: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation (p,) or (p, k) at p rows, a few thousand at a time.

    It warns of no extrapolation: who asks for the law of a whole table does so once.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExtrapolationWarning)
        parts = [
            model.predict(
                X[start : start + BATCH_ROWS],
                return_std=True,
                latent=latent,
                **at_exposure(exposure, start),
            )
            for start in range(0, len(X), BATCH_ROWS)
        ]
    if not parts:
        return np.zeros(0), np.zeros(0)
    means, stds = zip(*parts, strict=True)
    return np.concatenate(means), np.concatenate(stds)


def at_exposure(exposure: FloatArray | None, start: int) -> dict[str, FloatArray]:
    """The argument `exposure` of predictions of a batch; none where there are no exposures."""
    return {} if exposure is None else {"exposure": exposure[start : start + BATCH_ROWS]}


def extrapolations_in_batches(model: Any, X: Any, mean: FloatArray) -> Extrapolations | None:
    """Which of p rows of means (p,) or (p, k) are extrapolations; None where it is not known."""
    if not hasattr(model, "extrapolations"):  # a model of a graph or a field
        return None
    found = Extrapolations(np.zeros(0))
    for start in range(0, len(X), BATCH_ROWS):
        rows = slice(start, start + BATCH_ROWS)
        more = model.extrapolations(model.points(X[rows]), mean[rows].reshape(len(mean[rows]), -1))
        if more is None:
            return None
        found = found.followed_by(more)
    return found


def intervals_in_batches(
    model: Any, X: Any, level: float, exposure: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Ends (p,) or (p, k) of the central interval at p rows, as `predict_in_batches`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExtrapolationWarning)
        parts = [
            model.predict_interval(
                X[start : start + BATCH_ROWS], level, **at_exposure(exposure, start)
            )
            for start in range(0, len(X), BATCH_ROWS)
        ]
    if not parts:
        return np.zeros(0), np.zeros(0)
    lower, upper = zip(*parts, strict=True)
    return np.concatenate(lower), np.concatenate(upper)


def figures(y: FloatArray, mean: FloatArray, std: FloatArray | None) -> dict[str, Any]:
    """RMSE and R2 of means (p,) and, with std (p,), NLPD and coverage of normal laws."""
    error, spread = rmse(y, mean), float(np.std(y))
    return {
        "rmse": error,
        "r2": 1 - (error / spread) ** 2 if spread > 0 else None,
        "nlpd": None if std is None else nlpd(y, mean, std),
        "coverage": None if std is None else coverage(y, mean, std),
    }


def scores(
    process: GaussianProcess,
    points: Points,
    y: FloatArray,
    kind: str = "test",
    exposure: FloatArray | None = None,
) -> dict[str, Any] | None:
    """Scores of a process at all points (p, ...) with targets (p,); None without any.

    The NLPD and the intervals are those of the process' own law, a mixture's where it is one.

    Parameters
    ----------
    process, points, y
        The process, the points and their targets.
    kind
        `"test"`: rows of a table, of which a few thousand are predicted at once. `"hidden"`: nodes
        or places, which share solves and are predicted together.
    exposure
        Exposures (p,) of the targets, for a process of counts.
    """
    if not len(points):
        return None
    at_once = BATCH_ROWS if kind == "test" else len(points)
    starts = range(0, len(points), at_once)
    rows = [slice(k, k + at_once) for k in starts]
    parts = [_scored(_at(process, exposure, own), points[own], y[own]) for own in rows]
    mean, std, densities, lower, upper = (np.concatenate(part) for part in zip(*parts, strict=True))
    found = {f"n_{kind}": len(y), **figures(y, mean, std), "density": "gaussian"}
    if not process.is_gaussian:
        inside = ((lower <= y[:, None]) & (y[:, None] <= upper)).mean(axis=0)
        found["density"] = "transformed" if isinstance(process, TransformedGP) else "mixture"
        if isinstance(process, LatentGP):
            found["density"] = "likelihood"
        found["nlpd"] = -float(np.mean(densities))
        found["coverage"] = dict(zip(LEVELS, inside.tolist(), strict=True))
    return found


def _at(process: GaussianProcess, exposure: FloatArray | None, rows: slice) -> GaussianProcess:
    """The process at the exposures of some rows, if it has any."""
    if exposure is None or not isinstance(process, LatentGP):
        return process
    return process.at_exposure(exposure[rows])


def _scored(process: GaussianProcess, points: Points, y: FloatArray) -> tuple[FloatArray, ...]:
    """Means and standard deviations (p,) and, of no normal law, log densities (p,) and ends (p, l).

    The ends are those of intervals of the levels in `LEVELS`.
    """
    mean, variance = process.law(points, "variance")
    assert variance is not None
    densities, ends = np.zeros(len(y)), np.zeros((len(y), 2 * len(LEVELS)))
    if not process.is_gaussian:
        tails = 0.5 * (1 - np.array(LEVELS))
        densities = process.log_density(points, y[:, None])
        ends = process.quantiles(points, np.concatenate([tails, 1 - tails]))[:, 0]
    return mean[:, 0], np.sqrt(variance[:, 0]), densities, *np.hsplit(ends, 2)


def seen_by(model: Any, beside: Beside) -> Beside | None:
    """Columns along which a report on a model looks at residuals: none under a likelihood."""
    return None if is_observed(model) else beside or None


def beside_exact(model: Any, train: Rows, test: Rows, plan: Plan, seed: int) -> ExactComparison:
    """Compare a model with the exact GP at its hyperparameters.

    If the plan has fewer rows than there are training rows, both are given the same random subset.
    Without test rows they are compared at training inputs.
    """
    rng = np.random.default_rng([seed, 1])
    kept = train.sample(plan.n_rows, rng)
    local = model if kept is train else model.conditioned_on(kept.X, kept.y, **kept.weights)
    points = (test if len(test) else train).sample(plan.max_points, rng)
    if plan.method == "stochastic":
        announce_solves(len(kept), len(points), "--compare subset is quicker, none leaves it out")
    y = points.y if len(test) else None
    report = compare(local, points.X, y, method=plan.method, metadata=seen_by(local, points.beside))
    return ExactComparison(report, len(kept), len(points), not len(test))


__all__ = ["DASH", "STDIN", "notice", "spoken", "standard_output"]
# The path that stands for standard input or output.
DASH = "-"
# Seconds between two lines on the steps of the work.
PAUSE = 1.0
# What a forecast of ten seconds or more says.
LONG = re.compile(r"about ([1-9]\d+ s|[\d.]+ (min|h))\b")


@contextmanager
def spoken(options: Any) -> Iterator[None]:
    """Show steps line by line in the body, or with `--quiet` nothing but JSON.

    By default long forecasts are said, and steps are shown on a terminal.
    """
    with ExitStack() as stack:
        stack.callback(SAID.clear)
        if options.spoken:
            stack.enter_context(watched(_lines()))
        elif options.spoken is not None:
            token = QUIET.set(True)
            stack.callback(QUIET.reset, token)
            stack.enter_context(watched(silent))
            if not getattr(options, "as_json", False):
                stack.enter_context(_unprinted())
        elif not sys.stderr.isatty():
            stack.enter_context(watched(_forecast))
        yield


def _forecast(message: str) -> None:
    """Say how long the work takes, if it is long."""
    if LONG.search(message):
        notice(message)


def _lines() -> Progress:
    """A function that prints at most a step a second."""
    last = [-PAUSE]

    def say(message: str) -> None:
        now = time.monotonic()
        if now - last[0] >= PAUSE:
            last[0] = now
            print(f"coupledgp: {message}", file=sys.stderr, flush=True)

    return say


@contextmanager
def _unprinted() -> Iterator[None]:
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        yield


@contextmanager
def standard_output(options: Any) -> Iterator[Any]:
    """Yield the options with a file in place of an output `-`, and copy it when the body is done.

    Raises
    ------
    InvalidInputError
        Two outputs are standard output, JSON is asked for beside one, or a format without one.
    """
    outputs = {own.name: own.metadata["ending"] for own in options.declared()
               if own.metadata["ending"] and str(getattr(options, own.name)) == DASH}  # fmt: skip
    given = getattr(options, "format", None)
    if not outputs:
        if given is not None:
            raise InvalidInputError(
                "--format: expected --output - beside it; the ending of a path names the format"
            )
        yield options
        return
    named = [options.name_of(name) for name in outputs]
    if len(named) > 1 or getattr(options, "as_json", False):
        raise InvalidInputError(
            f"{', '.join(named)}: expected standard output once, and no --json beside it"
        )
    ((name, ending),) = outputs.items()
    if given is not None and name == "output":
        ending = f".{given.lstrip('.')}"
    path = own_folder() / f"output{ending}"
    try:
        with _unprinted():
            yield replace(options, **{name: path})
    except InvalidInputError as error:  # the file has a name that nobody gave
        text = str(error).replace("--output: expected a path ending in", "--format: expected")
        raise type(error)(text.replace(repr(str(path)), repr(given or DASH))) from error
    with path.open("rb") as file:
        sys.stdout.flush()
        shutil.copyfileobj(file, sys.stdout.buffer)
