"""Sensitivity of a posterior to powers of its prior and of its likelihood.

Hyperparameters t of a stationary kernel have the posterior `p(t | y) ~ p(t) p(y | t)`. Draws of it
are given the weights of `p(t)^a p(y | t)` or of `p(t) p(y | t)^a`, a power a close to one. How far
the law of a quantity moves is its cumulative Jensen-Shannon distance; over `log2 a` it is the
sensitivity (Kallioinen, Paananen, Bürkner and Vehtari, 2024, Statistics and Computing 34). It is
the mean over a = 1 / (1 + delta) and 1 + delta, delta = .01, as in priorsense and ArviZ, where a
sensitivity above .05 is notable. Draws are those of importance sampling about the maximum
(`coupledgp.search.averaging`), with weights of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from coupledgp.diagnostics.scoring.subject import Subject, own_process
from coupledgp.diagnostics.studies.tables import frame_of
from coupledgp.diagnostics.verdicts.verdict import SIGNS, Colour
from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.gp.columns import spread_lengthscale
from coupledgp.gp.exact import ExactGP, StationaryPrior
from coupledgp.gp.protocol import Data
from coupledgp.gp.transformed import untransformed
from coupledgp.gp.units import Units
from coupledgp.ground.notebook import Card, Notebook, NotebookTable, Shown
from coupledgp.ground.progress import Progress, reporter
from coupledgp.ground.validation import check_positive_int
from coupledgp.inference.dense.evidence import ExactEvidence
from coupledgp.inference.dense.system import ExactProblem
from coupledgp.inference.evidence.problem import Hyperparameters
from coupledgp.random import FloatArray
from coupledgp.search.averaging import (
    REFUSED,
    HyperparameterPrior,
    TablePosterior,
    as_hyperparameter_prior,
    importance_draws,
)
from coupledgp.search.minimise import Stopping
from coupledgp.search.search import Search
from coupledgp.search.space import SearchSpace

if TYPE_CHECKING:
    import pandas as pd

# Powers are 1 / (1 + DELTA) and 1 + DELTA; from NOTABLE on a sensitivity is told.
DELTA, NOTABLE = 0.01, 0.05
# Most training rows, each draw taking a Cholesky factor of their covariance, and fewest draws.
MOST_ROWS, FEWEST_DRAWS = 1500, 20
# Effective draws below which sensitivities are those of a few draws.
FEW_EFFECTIVE = 20.0
# Weight of a draw, over the largest, that is left out.
LEAST_WEIGHT = 1e-8

Quantity = Callable[[ExactGP], float]


@dataclass(frozen=True)
class QuantitySensitivity:
    """How much a quantity moves with powers of the prior and of the likelihood.

    Attributes
    ----------
    name : str
    mean, std : float
        Posterior mean and standard deviation.
    prior, likelihood : float
        Sensitivities, distances for a power twice as large.
    """

    name: str
    mean: float
    std: float
    prior: float
    likelihood: float

    @property
    def diagnosis(self) -> str:
        """`"prior-data conflict"`, `"strong prior or weak likelihood"` or `""`, as in ArviZ."""
        if self.prior < NOTABLE:
            return ""
        if self.likelihood >= NOTABLE:
            return "prior-data conflict"
        return "strong prior or weak likelihood"


@dataclass(frozen=True)
class PowerSensitivity(Shown):
    """Sensitivity of each quantity; `power_sensitivity` makes it.

    Attributes
    ----------
    quantities : tuple of QuantitySensitivity
    n_draws : int
        Draws of the hyperparameters.
    n_effective : float
        Effective number of these, `1 / sum w^2`.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import power_sensitivity
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=30)
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.5, noise=0.02)
    >>> found = power_sensitivity(model.fit(X, y), n_draws=40)
    >>> found.n_draws, 1 <= found.n_effective <= 40
    (40, True)
    >>> found.table()[0]
    ['quantity', 'mean', 'std', 'prior', 'likelihood', 'diagnosis']
    """

    quantities: tuple[QuantitySensitivity, ...]
    n_draws: int
    n_effective: float

    def __getitem__(self, name: str) -> QuantitySensitivity:
        """Return the sensitivity of a quantity."""
        return {one.name: one for one in self.quantities}[name]

    def verdict(self) -> str:
        """Which quantities hang on the prior, in a sentence each."""
        told = [one for one in self.quantities if one.diagnosis]
        if self.n_effective < FEW_EFFECTIVE:
            return (
                f"Not judged: {self.n_effective:.2g} effective of {self.n_draws} draws are too "
                "few; take more, or a prior that is nearer to the data."
            )
        if not told:
            largest = max(self.quantities, key=lambda one: one.prior)
            return (
                f"No quantity hangs on the prior of the hyperparameters: the largest sensitivity "
                f"is {largest.prior:.2g}, of {largest.name}."
            )
        return " ".join(
            f"The prior of the hyperparameters moves {one.name}: {one.diagnosis} (sensitivity to "
            f"the prior {one.prior:.2g}, to the likelihood {one.likelihood:.2g})."
            for one in sorted(told, key=lambda one: -one.prior)
        )

    def __str__(self) -> str:
        return self.verdict()

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """Names of columns, and a row for each quantity."""
        columns = ["quantity", "mean", "std", "prior", "likelihood", "diagnosis"]
        rows = [[o.name, o.mean, o.std, o.prior, o.likelihood, o.diagnosis]
                for o in self.quantities]  # fmt: skip
        return columns, rows

    def to_frame(self) -> pd.DataFrame:
        """Return the table as a pandas data frame, which needs pandas."""
        return frame_of(self.table())

    def to_dict(self) -> dict[str, Any]:
        """Return the figures and the verdict as plain values."""
        return asdict(self) | {"verdict": self.verdict()}

    def notebook(self) -> Notebook:
        """The sentence as a card, and the table."""
        told = any(one.diagnosis for one in self.quantities)
        colour: Colour = "amber" if told else "green"
        colour = "grey" if self.n_effective < FEW_EFFECTIVE else colour
        card = Card(
            "Do conclusions hang on the prior?", self.verdict(), colour, " ".join(SIGNS[colour])
        )
        columns, rows = self.table()
        table = NotebookTable("Sensitivity to powers of prior and likelihood", columns, rows)
        return Notebook(title="Power scaling", cards=(card,), tables=(table,))


def power_sensitivity(
    model: Any,
    X: Any = None,
    *,
    quantities: Mapping[str, Quantity] | None = None,
    prior: HyperparameterPrior | Mapping[str, float] | None = None,
    n_draws: int = 400,
    random_state: int = 0,
    progress: bool | None = None,
) -> PowerSensitivity:
    """Measure how much conclusions hang on the prior of the hyperparameters.

    Quantities are the logarithms of the lengthscales, of the outputscale and of the noise; with
    points also the mean prediction over them and the mean standard deviation of f. The time is
    that of `2 n_draws` exact fits of given hyperparameters, and of one search.

    Parameters
    ----------
    model
        Fitted estimator or process of this package with a stationary kernel and Gaussian noise, at
        most 1500 training rows. Features are replaced by the exact kernel.
    X
        Points (p, ...) of the predictions; None: hyperparameters alone.
    quantities
        Further quantities by name: functions of an exact process, `coupledgp.gp.exact.ExactGP`, to
        a number, such as a prediction of interest.
    prior
        Law of the logarithms of the hyperparameters, as `hyperparameter_prior` of an estimator.
        None: the default of averages over hyperparameters.
    n_draws
        Draws of the hyperparameters, 20 or more.
    random_state
        Seed of the draws.
    progress
        Show progress on stderr; None does so on a terminal.

    Raises
    ------
    InvalidInputError
        The model has no stationary kernel of a table, targets do not vary, a quantity is no finite
        number, or an argument is invalid.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import power_sensitivity
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=30)
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.5, noise=0.02)
    >>> found = power_sensitivity(model.fit(X, y), n_draws=40)
    >>> [one.name for one in found.quantities]
    ['log lengthscale', 'log outputscale', 'log noise']
    >>> found["log lengthscale"].likelihood > found["log lengthscale"].prior
    True
    """
    check_positive_int(n_draws, "n_draws", minimum=FEWEST_DRAWS)
    seed = check_positive_int(random_state, "random_state", minimum=0)
    law = as_hyperparameter_prior(prior)
    process = untransformed(own_process(model, "ArviZ's psense takes draws of any model"))
    problem = _problem(process)
    named = dict(quantities or {})
    if X is not None:
        points = Subject.of(model, X).points
        named = {
            "mean prediction": lambda one: float(one.law(points, "mean").mean.mean()),
            "mean standard deviation": lambda one: _mean_deviation(one, points),
        } | named  # fmt: skip
    units, data = Units(problem.offset, problem.scale), process.data
    with reporter("power scaling", progress) as report:
        posterior, draws, weights = _draws(problem, data, law, n_draws, seed, report)
        # Draws of hardly any weight move no sum, and may lie where no process can be computed.
        kept = weights > LEAST_WEIGHT * weights.max()
        draws, weights = draws[kept], weights[kept] / weights[kept].sum()
        z = (draws - posterior.mean) / posterior.sd
        log_prior = -0.5 * np.square(z).sum(axis=1)
        log_likelihood = np.array([-posterior.value(t) for t in draws]) - log_prior
        values = dict(zip(_names(posterior, problem.X.shape[1]), draws.T, strict=True))
        drawn = np.empty((len(draws), len(named)))
        for k, t in enumerate(draws if named else ()):
            report(f"draw {k + 1} of {len(draws)}")
            prior_of = StationaryPrior(problem.spectrum, posterior.hyperparameters(t))
            given = prior_of.given(data, units, False, False)
            drawn[k] = [_number(name, one(given)) for name, one in named.items()]
    values |= dict(zip(named, drawn.T, strict=True))
    found = tuple(_quantity(name, x, weights, log_prior, log_likelihood)
                  for name, x in values.items())  # fmt: skip
    return PowerSensitivity(found, n_draws, float(1 / np.square(weights).sum()))


def _quantity(
    name: str,
    x: FloatArray,
    weights: FloatArray,
    log_prior: FloatArray,
    log_likelihood: FloatArray,
) -> QuantitySensitivity:
    """Moments and sensitivities of values (n,) with weights (n,)."""
    mean = float(weights @ x)
    std = float(np.sqrt(weights @ np.square(x - mean)))
    both = [sensitivity_of(x, weights, logs) for logs in (log_prior, log_likelihood)]
    return QuantitySensitivity(name, mean, std, *both)


def cumulative_distance(x: FloatArray, p: FloatArray, q: FloatArray) -> float:
    """Cumulative Jensen-Shannon distance of two laws on the same values.

    With distribution functions P and Q it is the root of

        sum_P,Q int P log2(2 P / (P + Q)) + (Q - P) / (2 log 2) dx  over  int P + Q dx,

    the larger one of x and of -x (Nguyen and Vreeken, 2015). It is between zero and one.

    Parameters
    ----------
    x
        Values (n,).
    p, q
        Weights (n,) of both laws, each of sum one.
    """
    if not np.ptp(x) > 0:
        return 0.0
    return max(_one_sided(x, p, q), _one_sided(-x, p, q))


def _one_sided(x: FloatArray, p: FloatArray, q: FloatArray) -> float:
    order = np.argsort(x, kind="stable")
    width = np.diff(x[order])
    P, Q = np.cumsum(p[order])[:-1], np.cumsum(q[order])[:-1]
    bound = float(width @ (P + Q))
    if not bound > 0:
        return 0.0
    total = sum(
        float(
            width @ (_xlog2(a, a / np.maximum(0.5 * (a + b), 1e-300)) + (b - a) / (2 * np.log(2)))
        )
        for a, b in ((P, Q), (Q, P))
    )
    return float(np.sqrt(max(total, 0.0) / bound))


def _xlog2(x: FloatArray, ratio: FloatArray) -> FloatArray:
    return np.where(x > 0, x * np.log2(np.where(x > 0, ratio, 1.0)), 0.0)


def sensitivity_of(x: FloatArray, weights: FloatArray, logs: FloatArray) -> float:
    """Mean distance of the law of x (n,) from those of powers of a density, per doubling."""
    total = 0.0
    for power in (1 / (1 + DELTA), 1 + DELTA):
        tilt = (power - 1) * (logs - logs.max())
        scaled = weights * np.exp(tilt - tilt.max())
        total += cumulative_distance(x, weights, scaled / scaled.sum())
    return float(total / (2 * np.log2(1 + DELTA)))


def _problem(process: Any) -> ExactProblem:
    """The exact problem of a process of one stationary kernel."""
    problem = None
    if process.is_gaussian and len(process.data) <= MOST_ROWS:
        try:
            problem = process.exact_problem()
        except CoupledGPError:
            problem = None
    if not isinstance(problem, ExactProblem):
        raise InvalidInputError(
            "model: expected Gaussian noise, one stationary kernel of a table and at most "
            f"{MOST_ROWS} training rows, got {type(process).__name__} of {len(process.data)} rows"
        )
    if not np.ptp(problem.targets) > 0:
        raise InvalidInputError("model: expected targets that vary")
    return problem


def _draws(
    problem: ExactProblem,
    data: Data,
    law: HyperparameterPrior,
    n_draws: int,
    seed: int,
    report: Progress,
) -> tuple[TablePosterior, FloatArray, FloatArray]:
    """The posterior of the hyperparameters, draws (n, q) of it and their weights (n,)."""
    ard = problem.lengthscale.size > 1 and np.ptp(problem.lengthscale) > 0
    base = spread_lengthscale(problem.X, True)
    start = Hyperparameters(problem.lengthscale, problem.outputscale, problem.noise)
    space = SearchSpace(base, ard=bool(ard), outputscale=start.outputscale, noise=start.noise)
    evidence = ExactEvidence(problem.spectrum, problem.X, problem.targets, data.weights)
    posterior = TablePosterior(evidence, space, start, law)
    low, high = np.transpose(posterior.limits)
    starts = [np.clip(t, low, high) for t in (posterior.logarithms(start), posterior.mean)]
    report("maximum of the posterior")
    best = Search(space.minimise).best(lambda _: posterior, starts, Stopping(max_iterations=100))
    if best.value >= REFUSED:
        raise InvalidInputError("model: expected an evidence that is finite near its maximum")
    rng = np.random.default_rng([seed, 67])
    draws, weights = importance_draws(posterior, best.point, n_draws, rng, report)
    return posterior, draws, weights


def _names(posterior: TablePosterior, n_columns: int) -> list[str]:
    """Names of the logarithms."""
    if posterior.n_lengthscales == 1:
        lengths = ["log lengthscale"]
    else:
        lengths = [f"log lengthscale {k + 1}" for k in range(n_columns)]
    return [*lengths, "log outputscale", "log noise"]


def _mean_deviation(process: ExactGP, points: FloatArray) -> float:
    spread = process.law(points, "variance", latent=True).spread
    assert spread is not None
    return float(np.sqrt(np.maximum(spread, 0.0)).mean())


def _number(name: str, value: Any) -> float:
    if np.ndim(value) or not np.isfinite(value):
        raise InvalidInputError(
            f"quantities[{name!r}]: expected a finite number, got {value!r:.80}"
        )
    return float(value)
