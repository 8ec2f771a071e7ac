"""Hyperparameters averaged over their posterior instead of taken at its maximum.

With few rows the maximum of the evidence is over-confident. Here the logarithms

    t = (log l, log v, log s)

of free lengthscales, outputscale and noise have independent normal priors; draws of a Student-t law
about the maximum of the posterior, with the inverse of its Hessian there as scale, are weighted by
posterior over proposal (importance sampling; Geweke, 1989). The predictive law is the mixture of
the laws at the draws.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from coupledgp.core.minimise import Stopping
from coupledgp.core.problem import (
    Box,
    EvidenceProblem,
    Hyperparameters,
    VectorObjective,
)
from coupledgp.core.search import Search
from coupledgp.core.starts import SearchSpace
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.ground.codec import stored
from coupledgp.ground.progress import tell
from coupledgp.ground.validation import check_positive
from coupledgp.random import FloatArray, IntArray

# Step of the differences of gradients, in log units: their error is of second order.
HESSIAN_STEP = 0.01
# Least curvature of the proposal: a flat direction is no wider than 1 / sqrt(0.3) log units, about
# twice the standard deviation of the priors.
LEAST_CURVATURE = 0.3
# Degrees of freedom of the proposal: tails heavier than the posterior's keep the weights bounded.
FREEDOM = 5
# Members of smaller weight change no digit of a prediction.
LEAST_WEIGHT = 1e-4
# Effective draws below which the proposal is moved to the weighted draws and used once more.
FEW_EFFECTIVE = 5.0
# Minus log posterior of places where the covariance has no Cholesky factor.
REFUSED = 1e12
# The search for the maximum stays within this many prior standard deviations.
REACH = 6.0


@stored
@dataclass(frozen=True)
class HyperparameterPrior:
    """Independent normal laws of the logarithms, for standardised columns and targets.

    Attributes
    ----------
    lengthscale_sd : float
        Standard deviation of each `log l` about the log of the data-driven lengthscale,
        `sqrt(d)` standard deviations of the column.
    outputscale_sd : float
        Standard deviation of `log v` about zero.
    noise_mean, noise_sd : float
        Mean and standard deviation of `log s`.
    """

    lengthscale_sd: float = 1.0
    outputscale_sd: float = 1.0
    noise_mean: float = -3.0
    noise_sd: float = 1.7

    def __post_init__(self) -> None:
        for name in ("lengthscale_sd", "outputscale_sd", "noise_sd"):
            check_positive(getattr(self, name), name)
        if not np.isfinite(self.noise_mean):
            raise InvalidInputError(f"noise_mean: expected a number, got {self.noise_mean}")


def as_hyperparameter_prior(
    given: HyperparameterPrior | Mapping[str, float] | None,
) -> HyperparameterPrior:
    """The prior that an estimator was given: an object, its values by name, or the default one.

    Raises
    ------
    InvalidInputError
        A name is none of the prior's, or a value is out of range.
    """
    if isinstance(given, HyperparameterPrior):
        return given
    try:
        return HyperparameterPrior(**({} if given is None else given))
    except TypeError as error:
        raise InvalidInputError(f"hyperparameter_prior: {error}") from None


@dataclass(frozen=True)
class Average:
    """Draws of the hyperparameters and their weights.

    Attributes
    ----------
    hyperparameters : tuple of Hyperparameters
        The maximum of the posterior first.
    weights : FloatArray (K,)
        Positive, of sum one.
    n_effective : float
        `1 / sum w^2` over all draws.
    n_evaluations : int
        Evaluations of the evidence.
    """

    hyperparameters: tuple[Hyperparameters, ...]
    weights: FloatArray
    n_effective: float
    n_evaluations: int


def average_hyperparameters(
    problem: EvidenceProblem,
    space: SearchSpace,
    start: Hyperparameters,
    prior: HyperparameterPrior,
    n_draws: int,
    rng: np.random.Generator,
) -> Average:
    """Draw hyperparameters from their posterior, with weights.

    Parameters
    ----------
    problem
        Evidence of standardised targets.
    space
        Hyperparameters that are free; the others keep the values of `start`.
    start
        Maximum of the evidence, one of three starts of the search for the maximum of the posterior.
    prior
        Law of the free logarithms.
    n_draws
        Draws, the maximum included.
    rng
        Source of all draws.

    Raises
    ------
    NumericalError
        The evidence is finite nowhere near the maximum.
    """
    posterior = TablePosterior(problem, space, start, prior)
    tell("maximum of the posterior of the hyperparameters")
    starts = [
        posterior.logarithms(start),
        posterior.mean,
        posterior.mean + posterior.sd * rng.standard_normal(posterior.mean.size),
    ]
    low, high = np.transpose(posterior.limits)
    best = Search(space.minimise).best(
        lambda _: posterior, [np.clip(t, low, high) for t in starts], Stopping(max_iterations=100)
    )
    if best.value >= REFUSED:
        raise NumericalError(
            "hyperparameters: the evidence is finite at none of the places where the search for "
            "the maximum of their posterior ended; keep the noise with "
            "options={'fixed': ('noise',)}"
        )
    mode = best.point
    draws, weights = importance_draws(posterior, mode, n_draws, rng)
    kept = weights >= LEAST_WEIGHT
    kept[0] = True  # the model's own hyperparameters are those of the first member
    weights_kept = np.maximum(weights[kept], np.finfo(float).tiny)
    members = tuple(posterior.hyperparameters(t) for t in draws[kept])
    return Average(
        members, weights_kept / weights_kept.sum(), float(1 / np.sum(weights**2)),
        posterior.n_evaluations,
    )  # fmt: skip


def systematic_draws(chances: FloatArray, n_draws: int) -> tuple[IntArray, IntArray]:
    """Places among chances (m,) that lie in a line, and how often each is drawn.

    The line is cut into `n_draws` parts of equal mass, and from each the middle is taken.
    """
    middles = (np.arange(n_draws) + 0.5) / n_draws
    drawn = np.searchsorted(np.cumsum(chances) / chances.sum(), middles)
    places, counts = np.unique(drawn, return_counts=True)
    return places, counts


def importance_draws(
    posterior: VectorObjective,
    mode: FloatArray,
    n_draws: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Draws (n_draws, q) of a Student-t law about the mode (q,), the mode first, and weights.

    The objective is minus the log posterior density. The weights (n_draws,) have the sum one. If
    few draws carry them, the law is moved to the weighted draws and used once more.
    """
    tell("curvature at the maximum")
    scale = inverse_hessian_root(posterior, mode)
    tell(f"{n_draws} draws of the hyperparameters")
    draws, weights = _weighted(posterior, mode, mode, scale, n_draws, rng)
    if 1 / np.sum(weights**2) < FEW_EFFECTIVE:
        center = weights @ draws
        gaps = (draws - center) * np.sqrt(weights)[:, None]
        wider = np.asarray(np.linalg.cholesky(scale @ scale.T + gaps.T @ gaps), np.float64)
        draws, weights = _weighted(posterior, mode, center, wider, n_draws, rng)
    return draws, weights


class TablePosterior(VectorObjective):
    """Minus log evidence and log prior, without its constant, as a function of t (q,), nats.

    Parameters are those of `average_hyperparameters`.
    """

    def __init__(
        self,
        problem: EvidenceProblem,
        space: SearchSpace,
        start: Hyperparameters,
        prior: HyperparameterPrior,
    ) -> None:
        self.problem, self.space, self.kept = problem, space, start
        self.n_lengthscales = 0
        if "lengthscale" in space.free:
            self.n_lengthscales = space.n_lengthscales
        means, sds = [0.0] * self.n_lengthscales, [prior.lengthscale_sd] * self.n_lengthscales
        for name, mean, sd in (
            ("outputscale", 0.0, prior.outputscale_sd), ("noise", prior.noise_mean, prior.noise_sd),
        ):  # fmt: skip
            if name in space.free:
                means.append(mean)
                sds.append(sd)
        self.mean, self.sd = np.array(means), np.array(sds)
        reach = REACH * self.sd
        low, high = (self.mean - reach).tolist(), (self.mean + reach).tolist()
        self.limits = list(zip(low, high, strict=True))
        self.n_evaluations = 0

    def box(self, start: FloatArray) -> Box:
        return self.limits

    def hyperparameters(self, t: FloatArray) -> Hyperparameters:
        """Hyperparameters at logarithms t (q,)."""
        rest = iter(np.exp(t[self.n_lengthscales :]))
        lengthscale = self.kept.lengthscale
        if self.n_lengthscales:
            lengthscale = self.space.lengthscales(t[: self.n_lengthscales])
        free = self.space.free
        outputscale = float(next(rest)) if "outputscale" in free else self.kept.outputscale
        noise = float(next(rest)) if "noise" in free else self.kept.noise
        return Hyperparameters(np.asarray(lengthscale), outputscale, noise)

    def logarithms(self, hyperparameters: Hyperparameters) -> FloatArray:
        """Logarithms t (q,) of hyperparameters."""
        relative = self.space.logarithms(hyperparameters.lengthscale)
        scales = [
            np.log(getattr(hyperparameters, name))
            for name in ("outputscale", "noise")
            if name in self.space.free
        ]
        return np.array([*relative[: self.n_lengthscales], *scales])

    def value_and_gradient(self, variables: FloatArray) -> tuple[float, FloatArray]:
        """The objective and its gradient (q,); a point without a Cholesky factor is refused."""
        self.n_evaluations += 1
        hyper = self.hyperparameters(variables)
        z = (variables - self.mean) / self.sd
        try:
            evidence = self.problem.at(hyper.lengthscale).evaluate(hyper.outputscale, hyper.noise)
        except NumericalError:
            return REFUSED, np.zeros_like(variables)
        gradient = []
        if self.n_lengthscales:
            gradient += list(self.space.gradient(evidence.lengthscale))
        gradient += [
            getattr(evidence, name) for name in ("outputscale", "noise") if name in self.space.free
        ]
        if not np.isfinite(evidence.value):
            return REFUSED, np.zeros_like(variables)
        return 0.5 * float(z @ z) - evidence.value, z / self.sd - np.array(gradient)


def inverse_hessian_root(posterior: VectorObjective, mode: FloatArray) -> FloatArray:
    """A root (q, q) of the inverse Hessian of the negative log posterior at its maximum."""
    size = mode.size
    rows = np.empty((size, size))
    for k in range(size):
        step = np.zeros(size)
        step[k] = HESSIAN_STEP
        above = posterior.value_and_gradient(mode + step)[1]
        below = posterior.value_and_gradient(mode - step)[1]
        rows[k] = posterior.size * (above - below) / (2 * HESSIAN_STEP)
    curvatures, vectors = np.linalg.eigh(0.5 * (rows + rows.T))
    # The symmetric root, since draws may not hang on the signs that rounding gives to vectors.
    root: FloatArray = vectors / np.sqrt(np.maximum(curvatures, LEAST_CURVATURE)) @ vectors.T
    return root


def _weighted(
    posterior: VectorObjective,
    mode: FloatArray,
    center: FloatArray,
    scale: FloatArray,
    n_draws: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Draws (n_draws, q) about a centre, the first the maximum, and their weights (n_draws,)."""
    size = mode.size
    normal = rng.standard_normal((n_draws, size))
    factors = np.sqrt(rng.chisquare(FREEDOM, n_draws) / FREEDOM)
    draws = center + (normal / factors[:, None]) @ scale.T
    draws[0] = mode
    whitened = np.linalg.solve(scale, (draws - center).T)
    log_proposal = -0.5 * (FREEDOM + size) * np.log1p(np.square(whitened).sum(axis=0) / FREEDOM)
    log_posterior = -posterior.size * np.array([posterior.value(t) for t in draws])
    logs = log_posterior - log_proposal
    weights = np.exp(logs - logs.max())
    return draws, weights / weights.sum()
