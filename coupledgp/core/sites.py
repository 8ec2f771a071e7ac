"""Sites: normal pseudo-observations in place of observations under a likelihood.

A site of precision W at z is a factor `exp(-W (z - f)^2 / 2)` of the posterior. With q the normal
law of moments m, v of f at an observation, the variational sites are

    W = -2 d/dv E_q log p(y | f) ,      W (z - m) = d/dm E_q log p(y | f)

(Opper and Archambeau 2009). With `h = W z`, moments given sites are `m = (K^-1 + W)^-1 h` and
`v = diag (K^-1 + W)^-1`. Steps from sites to moments to sites are those of the natural gradient
(Khan and Lin 2017), and climb the bound

    sum_i E_q log p(y_i | f_i) - KL(q, prior)    <=    log p(y) .

They are halved until it does not fall, so that separable classes converge, and have the rate of the
secant where one turns back by more than half of the one before. Where a law is not log-concave,
some precisions are raised, and steps do not end at the greatest bound: they are of one half then,
and go on until they move by little.

The bound is stationary in the sites, so that its gradient in what the prior is made of is that of
`log N(z; 0, K + W^-1)`. Where precisions are raised, it is that of the sites' equations as well.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from scipy.linalg import lapack, solve_triangular

from coupledgp.core.problem import Box, RowWeights, VectorObjective
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.likelihoods.base import Likelihood
from coupledgp.linalg.matrices import cholesky, cholesky_solve
from coupledgp.random import FloatArray

# Least precision of all, and of a site over the greatest one; curvatures below zero, over the
# greatest one, that are no rounding.
LEAST_PRECISION, LEAST_RATIO, NEGATIVE = 1e-12, 1e-8, 1e-6
# Nodes of the Gauss-Hermite rule, least variance of the function in it, and values at nodes that
# are in memory at once.
N_NODES, LEAST_VARIANCE, AT_ONCE = 32, 1e-16, 2**22
# Most steps, and halvings of each.
MOST_STEPS, MOST_HALVINGS = 200, 40
# Share of the first precisions that stands for none, and the variance of f for these.
START, START_VARIANCE = 1e-3, 1e-2
# Half the square of a step, in the metric of the posterior, in nats over one plus the bound's size,
# below which it is the last one; and the square of one that is accepted where rounding hides
# whether the bound rises; the same for the last of all steps: 5e-5 standard deviations.
TOLERANCE, ACCEPTED, LAST = 1e-14, 1e-4, 1e-9
# Rate of steps that do not climb, and share of a step by which the next one turns back, beyond
# which it is shortened.
HALF, TURNED = 0.5, 0.5
# Least W K of a site whose variance may be a difference from one over W.
LEAST_GAIN = 1e-6
# Step of logarithms of parameters, and of moments over their scale, in differences.
STEP = 1e-4
# Factor by which hyperparameters may leave the start of a run, as a logarithm.
REACH = float(np.log(1e4))
REMEDY = "check the units of targets, exposures and outputscale"


class Rule(NamedTuple):
    """`E_q log p`, its slope in the mean of q, and minus twice its slope in the variance; (n,)."""

    density: FloatArray
    slope: FloatArray
    curvature: FloatArray


@dataclass(frozen=True, eq=False)
class Observed:
    """Observations of one function at n points, and their law given the function.

    Attributes
    ----------
    likelihood : Likelihood
        Law of an observation given the function.
    y : FloatArray (n,)
        Observations.
    shift : FloatArray (n,)
        Prior mean of the function, with the logarithm of the exposure.
    counts : FloatArray (n,) or None
        How often each observation counts; None: once.
    """

    likelihood: Likelihood
    y: FloatArray
    shift: FloatArray
    counts: FloatArray | None = None

    @classmethod
    def of(
        cls,
        likelihood: Likelihood,
        targets: FloatArray,
        offset: FloatArray,
        weights: RowWeights | None = None,
    ) -> list[Self]:
        """Observations (n, k) of k functions of prior means (k,), with counts and exposures.

        Raises
        ------
        InvalidInputError
            Observations are none of the likelihood's, rows have noise of their own, or there are
            exposures and the likelihood takes none.
        """
        targets = likelihood.check_targets(targets)
        shift, counts = np.zeros(len(targets)), None
        if weights is not None:
            if (weights.noise != 1).any():
                raise InvalidInputError(
                    "noise: expected none of single rows with a likelihood, which states the law "
                    "of an observation itself"
                )
            counts = weights.counts
            if weights.exposure is not None:
                shift = likelihood.log_exposure(weights.exposure)
        pairs = zip(targets.T, offset, strict=True)
        return [cls(likelihood, np.ascontiguousarray(y), shift + b, counts) for y, b in pairs]

    def rule(self, mean: FloatArray, variance: FloatArray) -> Rule:
        """Averages over normal laws of moments (n,) of f less its prior mean, as often as counted.

        They are those of a Gauss-Hermite rule, and slopes and curvatures are the derivatives of the
        averages by it, so that the bound that is computed is stationary to rounding.
        """
        step = max(1, AT_ONCE // N_NODES)
        parts = [
            self._averaged(mean, variance, slice(start, start + step))
            for start in range(0, max(len(mean), 1), step)
        ]
        found = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        return Rule(*(part if self.counts is None else part * self.counts for part in found))

    def _averaged(self, mean: FloatArray, variance: FloatArray, rows: slice) -> Rule:
        nodes, weights = _nodes()
        std = np.sqrt(np.maximum(variance[rows], LEAST_VARIANCE))
        f = (self.shift[rows] + mean[rows])[:, None] + np.multiply.outer(std, nodes)
        y = self.y[rows, None]
        slope = self.likelihood.slope(y, f)
        density = self.likelihood.log_density(y, f)
        return Rule(density @ weights, slope @ weights, -(slope @ (nodes * weights)) / std)

    def equations(self, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Precisions and shifts (n,) of sites that the rule says at moments (n,)."""
        rule = self.rule(mean, variance)
        precision = precisions_of(rule)
        return precision, precision * mean + rule.slope

    def equation_slopes(self, sites: Sites) -> list[list[FloatArray]]:
        """Differences of `equations` over means, and over variances: of both, (n,) each."""
        mean, variance = sites.mean, np.maximum(sites.variance, LEAST_VARIANCE)
        found = []
        for by in ((STEP * np.sqrt(variance), 0.0), (0.0, STEP * variance)):
            up = self.equations(mean + by[0], variance + by[1])
            down = self.equations(mean - by[0], variance - by[1])
            width = 2 * (by[0] + by[1])
            found.append([(a - b) / width for a, b in zip(up, down, strict=True)])
        return found

    def parameter_slopes(
        self, sites: Sites, multipliers: tuple[FloatArray, FloatArray] | None
    ) -> FloatArray:
        """Slopes (l,) of the bound in logarithms of the likelihood's parameters, by differences."""

        def value(logarithms: FloatArray) -> float:
            own = replace(self, likelihood=_with_logarithms(self.likelihood, logarithms))
            rule = own.rule(sites.mean, sites.variance)
            found = float(rule.density.sum())
            if multipliers is not None:
                precision = precisions_of(rule)
                found += float(multipliers[0] @ precision)
                found += float(multipliers[1] @ (precision * sites.mean + rule.slope))
            return found

        at = np.log(list(self.likelihood.parameters.values()))
        steps = STEP * np.eye(len(at))
        return np.array([value(at + step) - value(at - step) for step in steps]) / (2 * STEP)


@cache
def _nodes() -> tuple[FloatArray, FloatArray]:
    """Nodes (q,) and weights (q,) of averages over a standard normal variable."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(N_NODES)
    return nodes, weights / weights.sum()


class Moments(NamedTuple):
    """Mean and variance (n,) of f at the rows given sites, and `log |I + W^1/2 K W^1/2|`."""

    mean: FloatArray
    variance: FloatArray
    log_determinant: float


class RowsPrior(ABC):
    """A prior `f ~ N(0, K)` at n rows.

    Attributes
    ----------
    value_error : float
        Fall of the bound that may be an error of arithmetic, over one plus its size.
    """

    value_error: ClassVar[float] = 1e-13

    @abstractmethod
    def posterior(self, precision: FloatArray, shift: FloatArray) -> Moments:
        """Moments given sites of precisions W (n,), above zero, and `h = W z` (n,).

        Raises
        ------
        NumericalError
            A matrix is not positive definite to working precision.
        """


class DenseRows(RowsPrior):
    """A prior by its covariance K (n, n): O(n^3) time.

    `m = K (h - W^1/2 B^-1 W^1/2 K h)` with `B = I + W^1/2 K W^1/2` (Rasmussen and Williams 2006,
    algorithm 3.1).
    """

    def __init__(self, covariance: FloatArray) -> None:
        self.covariance = covariance

    def posterior(self, precision: FloatArray, shift: FloatArray) -> Moments:
        own, root = self.covariance, np.sqrt(precision)
        factor = self._factor(root)
        mean = own @ (shift - root * cholesky_solve(root * (own @ shift), factor))
        # `v = (1 - diag B^-1) / W`, a third of the time of `diag (K - K W^1/2 B^-1 W^1/2 K)`, which
        # is for sites that say next to nothing.
        inverse, _ = lapack.dtrtri(factor.T, lower=0)
        variance = (1.0 - np.einsum("ij,ij->i", inverse, inverse)) / precision
        few = precision * own.diagonal() < LEAST_GAIN
        if few.any():
            part = inverse.T @ (root[:, None] * own[:, few])
            variance[few] = own.diagonal()[few] - np.einsum("ij,ij->j", part, part)
        return Moments(mean, np.maximum(variance, 0.0), _log_determinant(factor))

    def _factor(self, root: FloatArray) -> FloatArray:
        matrix = root[:, None] * self.covariance
        matrix *= root
        matrix.flat[:: len(matrix) + 1] += 1.0
        found: FloatArray = cholesky(matrix, "I + W^1/2 K W^1/2")
        return found

    def cotangent(self, sites: Sites) -> FloatArray:
        """Slope (n, n) of minus the bound in K: `(C^-1 - alpha alpha') / 2`, `C = K + W^-1`."""
        return 0.5 * (self._inverse(sites) - np.multiply.outer(sites.alpha, sites.alpha))

    def _inverse(self, sites: Sites) -> FloatArray:
        """`(K + W^-1)^-1` (n, n)."""
        root = np.sqrt(sites.precision)
        inverse, _ = lapack.dpotri(self._factor(root).T, lower=0)
        inverse = np.triu(inverse) + np.triu(inverse, 1).T
        inverse *= root
        inverse *= root[:, None]
        return inverse

    def raised_cotangent(
        self, observed: Observed, sites: Sites
    ) -> tuple[FloatArray, tuple[FloatArray, FloatArray]]:
        """Slope (n, n) of minus the bound in K, and multipliers (n,) of the sites' equations.

        With S the covariance of the posterior, moments move by `dm = S (dh - m dW)` and
        `dv = -(S o S) dW`; the equations `W = w(m, v)` and `h = w m + g(m, v)` of slopes g, made
        linear, decide how sites move. All of it backwards: one system of 2 n equations.
        """
        own, (precision, shift, mean) = self.covariance, (sites.precision, sites.shift, sites.mean)
        inverse = self._inverse(sites)
        covariance = own - own @ inverse @ own
        square = np.square(covariance)
        (w_m, h_m), (w_v, h_v) = observed.equation_slopes(sites)
        of_variance = 0.5 * (precision - sites.rule.curvature)
        mixed = mean[:, None] * covariance
        matrix = np.block(
            [
                [mixed * w_m + square * w_v, mixed * h_m + square * h_v],
                [-covariance * w_m, -covariance * h_m],
            ]
        )
        matrix.flat[:: len(matrix) + 1] += 1.0
        right = np.append(-square @ of_variance, np.zeros(len(mean)))
        of_precision, of_shift = np.split(np.linalg.solve(matrix, right), 2)
        mean_bar = 0.5 * shift + of_precision * w_m + of_shift * h_m
        variance_bar = of_variance + of_precision * w_v + of_shift * h_v
        gain = -precision[:, None] * covariance  # I - W S
        gain.flat[:: len(gain) + 1] += 1.0
        product = np.multiply.outer(gain @ mean_bar, sites.alpha)
        cotangent = 0.5 * (inverse - product - product.T) - (gain * variance_bar) @ gain.T
        return cotangent, (of_precision, of_shift)


class FeatureRows(RowsPrior):
    """A prior by features, `K = s Phi Phi'`: O(n M^2) time, and no matrix (n, n).

    Parameters
    ----------
    chunks
        Makes the rows of Phi (n, M), some at a time; it is called more than once. One chunk holds
        all features in memory, a stream none of them.
    scale
        s, the outputscale.
    """

    def __init__(self, chunks: Callable[[], Iterable[FloatArray]], scale: float = 1.0) -> None:
        self.chunks, self.root = chunks, math.sqrt(scale)

    def posterior(self, precision: FloatArray, shift: FloatArray) -> Moments:
        """Means `Phi A^-1 Phi' h` and variances `phi' A^-1 phi`, `A = I + Phi' W Phi`."""
        factor, right = self.factor(precision, shift)
        weights, means, variances = cholesky_solve(right, factor), [], []
        for _, features in self._parts():
            means.append(features @ weights)
            part = solve_triangular(factor, features.T, lower=True, check_finite=False)
            variances.append(np.einsum("ij,ij->j", part, part))
        mean, variance = np.concatenate(means), np.concatenate(variances)
        return Moments(mean, variance, _log_determinant(factor))

    def factor(self, precision: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Lower Cholesky factor (M, M) of A, and `Phi' h` (M,)."""
        matrix = right = np.zeros(())
        for rows, features in self._parts():
            matrix = matrix + (features * precision[rows, None]).T @ features
            right = right + shift[rows] @ features
        matrix.flat[:: len(matrix) + 1] += 1.0
        return cholesky(matrix, "I + Phi' W Phi"), right

    def _parts(self) -> Iterable[tuple[slice, FloatArray]]:
        """Places of rows, and their features in double precision and units of the prior."""
        start = 0
        for chunk in self.chunks():
            yield slice(start, start + len(chunk)), np.asarray(chunk, np.float64) * self.root
            start += len(chunk)

    def cotangent(self, sites: Sites) -> FloatArray:
        """Slope (n, M) of minus the bound in the features: `W Phi A^-1 - alpha alpha' Phi`."""
        factor, _ = self.factor(sites.precision, sites.shift)
        features = np.concatenate([part for _, part in self._parts()])
        inverse: FloatArray = cholesky_solve(features.T, factor).T
        alpha = sites.alpha
        return sites.precision[:, None] * inverse - np.multiply.outer(alpha, alpha @ features)


# Mean and variance (n,) of f at the observations, and the log evidence.
GivenMoments: TypeAlias = tuple[FloatArray, FloatArray, float]


class GivenRows(RowsPrior):
    """The prior of a process, by what it says given pseudo-observations.

    Parameters
    ----------
    given
        From pseudo-observations z (n,) of f less its prior mean and their precisions W (n,) to mean
        and variance (n,) of f at their points, and the log evidence `log N(z; 0, K + W^-1)`.
    """

    def __init__(self, given: Callable[[FloatArray, FloatArray], GivenMoments]) -> None:
        self.given = given

    def posterior(self, precision: FloatArray, shift: FloatArray) -> Moments:
        """Moments of the process, and `log |B|` by its evidence.

        `log |B| = -2 log N(z; 0, K + W^-1) - z' W (z - m) + log |W| - n log(2 pi)`.
        """
        targets = shift / precision
        mean, variance, evidence = self.given(targets, precision)
        constant = float(np.log(precision / (2 * math.pi)).sum())
        return Moments(mean, variance, constant - 2 * evidence - float(shift @ (targets - mean)))


def _log_determinant(factor: FloatArray) -> float:
    return 2.0 * float(np.log(factor.diagonal()).sum())


@dataclass(frozen=True, eq=False)
class Sites:
    """Sites of n observations, the moments of f given them, and what the rule says there.

    Attributes
    ----------
    precision, shift : FloatArray (n,)
        Precisions W of the pseudo-observations, and `h = W z`.
    moments : Moments
        Moments of f less its prior mean.
    rule : Rule
        The rule at the moments.
    n_steps : int
        Steps that were taken.
    """

    precision: FloatArray
    shift: FloatArray
    moments: Moments
    rule: Rule
    n_steps: int = 0

    @classmethod
    def at(
        cls, prior: RowsPrior, observed: Observed, precision: FloatArray, shift: FloatArray
    ) -> Self:
        """Sites of a prior."""
        moments = prior.posterior(precision, shift)
        return cls(precision, shift, moments, observed.rule(moments.mean, moments.variance))

    @property
    def mean(self) -> FloatArray:
        """Mean (n,) of f less its prior mean."""
        return self.moments.mean

    @property
    def variance(self) -> FloatArray:
        """Variance (n,) of f."""
        return self.moments.variance

    @property
    def targets(self) -> FloatArray:
        """Pseudo-observations z (n,) of f less its prior mean."""
        return self.shift / self.precision

    @property
    def alpha(self) -> FloatArray:
        """`K^-1 m` (n,)."""
        return self.shift - self.precision * self.mean

    @property
    def evidence(self) -> float:
        """The bound of the log evidence, nats."""
        penalty = self.precision @ self.variance - self.alpha @ self.mean
        return float(self.rule.density.sum() + 0.5 * (penalty - self.moments.log_determinant))

    @property
    def is_raised(self) -> bool:
        """Whether some precisions of the rule's are raised, since its curvatures are negative."""
        curvature = self.rule.curvature
        return bool((curvature < -NEGATIVE * np.abs(curvature).max(initial=LEAST_PRECISION)).any())

    def proposed(self) -> tuple[FloatArray, FloatArray]:
        """Precisions and shifts of the rule at the moments."""
        precision = precisions_of(self.rule)
        return precision, precision * self.mean + self.rule.slope

    def product(self, one: _Way, other: _Way) -> float:
        """Inner product of steps, by variances of f at the observations."""
        first, second = (a * b for a, b in zip(one, other, strict=True))
        return float(first @ self.variance + 0.5 * second @ np.square(self.variance))

    def distance(self, other: Sites) -> float:
        """Half the square of the way to other sites, in the metric of the posterior."""
        by = other.mean - self.mean
        change = (other.precision - self.precision) * self.variance
        found = (other.alpha - self.alpha) @ by + other.precision @ np.square(by)
        return 0.5 * abs(float(found + 0.5 * change @ change))


# Residuals (n,) of slopes, and changes (n,) of precisions.
_Way: TypeAlias = tuple[FloatArray, FloatArray]


def precisions_of(rule: Rule) -> FloatArray:
    """Precisions (n,) of sites.

    Where the law is not log-concave, they are sizes of the curvatures: about that of a parabola
    below the log density, in the tails of Student's law. All of them are at least `LEAST_RATIO` of
    the greatest one.
    """
    found = np.abs(rule.curvature)
    return np.maximum(found, LEAST_RATIO * found.max(initial=LEAST_PRECISION))


def find_sites(prior: RowsPrior, observed: Observed, start: Sites | None = None) -> Sites:
    """Find the variational sites of observations.

    Parameters
    ----------
    prior
        The prior of the function less its mean.
    observed
        Observations and their law.
    start
        Sites where the steps start; None: nearly none.

    Raises
    ------
    NumericalError
        The steps do not converge, or a matrix is not positive definite to working precision.
    """
    nothing = np.zeros(len(observed.y))
    if start is None:
        first = precisions_of(observed.rule(nothing, nothing + START_VARIANCE))
        now = Sites.at(prior, observed, START * first, nothing)
    else:
        now = Sites.at(prior, observed, start.precision, start.shift)
    rate, most, last = 1.0, HALF, math.inf
    before: _Way | None = None
    for step in range(1, MOST_STEPS + 1):
        climbs, proposed = not now.is_raised, now.proposed()
        way = now.rule.slope - now.alpha, proposed[0] - now.precision
        rate = _next_rate(now, way, before, rate) if climbs else min(rate, most)
        new, rate = _taken(prior, observed, now, proposed, rate, climbs)
        before, moved = way, now.distance(new) / rate**2
        size = 1 + abs(new.evidence)
        hidden = abs(new.evidence - now.evidence) <= prior.value_error * size
        # Steps that do not come nearer to each other are too long.
        most = 0.5 * most if moved > last else most
        now, last = new, moved
        accepted = TOLERANCE if step < MOST_STEPS else LAST
        if moved <= accepted * size or (hidden and moved <= ACCEPTED):
            if not now.is_raised:  # one whole step more makes sites and moments consistent
                now = Sites.at(prior, observed, *now.proposed())
            return replace(now, n_steps=step)
    raise NumericalError(
        f"likelihood: sites of {observed.likelihood} do not converge in {MOST_STEPS} steps, the "
        f"last of which moved by {math.sqrt(last):.1g} standard deviations: {REMEDY}"
    )


def _next_rate(now: Sites, way: _Way, before: _Way | None, rate: float) -> float:
    """Rate of the next step: twice the last, at most one, but less where a step turns back.

    With d the whole step and d' the one before, of which the share `rate` was taken,
    `r = <d, d'> / <d', d'>` would be zero at the rate `rate / (1 - r)` if steps were linear.
    """
    if before is not None:
        turned = now.product(way, before) / now.product(before, before)
        if turned < -TURNED:
            return rate / (1 - turned)
    return min(2 * rate, 1.0)


def _taken(
    prior: RowsPrior,
    observed: Observed,
    now: Sites,
    proposed: tuple[FloatArray, FloatArray],
    rate: float,
    climbs: bool,
) -> tuple[Sites, float]:
    """The sites after a step, and its rate: halved until the bound does not fall."""
    nearest = math.inf
    for _ in range(MOST_HALVINGS):
        precision = now.precision + rate * (proposed[0] - now.precision)
        shift = now.shift + rate * (proposed[1] - now.shift)
        new = Sites.at(prior, observed, precision, shift)
        least = now.evidence - prior.value_error * (1 + abs(now.evidence))
        if math.isfinite(new.evidence) and (not climbs or new.evidence >= least):
            return new, rate
        nearest = min(nearest, now.distance(new) / rate**2)
        rate *= 0.5
    if nearest <= ACCEPTED and math.isfinite(now.evidence):  # rounding hides whether it rises
        return now, 1.0
    raise NumericalError(
        f"likelihood: no step from the sites of {observed.likelihood} raises the evidence, the "
        f"last of {rate:.1g} of a whole one: {REMEDY}"
    )


# From variables to the prior at the rows, and from slopes of the value in its covariance, or in its
# features, to those in the variables.
Pull: TypeAlias = Callable[[FloatArray], FloatArray]
PriorAt: TypeAlias = Callable[[FloatArray], tuple[DenseRows | FeatureRows, Pull]]


class SiteObjective(VectorObjective):
    """Minus the bound of the log evidence of several functions together.

    Variables (q,) are those of the prior, then the logarithms of the likelihood's parameters.

    Parameters
    ----------
    prior
        The prior of the functions less their means at variables (n_variables,).
    n_variables
        Number of variables of the prior.
    observed
        Observations of each function, and their law with the parameters where a search starts.
    """

    def __init__(self, prior: PriorAt, n_variables: int, observed: Sequence[Observed]) -> None:
        self.prior, self.n_variables, self.observed = prior, n_variables, observed
        self._last: list[Sites | None] = [None] * len(observed)

    @property
    def likelihood(self) -> Likelihood:
        """The law with the parameters where a search starts."""
        return self.observed[0].likelihood

    def likelihood_of(self, variables: FloatArray) -> Likelihood:
        """The likelihood of variables (q,)."""
        return _with_logarithms(self.likelihood, variables[self.n_variables :])

    def box(self, start: FloatArray) -> Box:
        """Box of the variables in a run, which are logarithms."""
        return [(value - REACH, value + REACH) for value in start]

    def value_and_gradient(self, variables: FloatArray) -> tuple[float, FloatArray]:
        """The objective at variables (q,), and its gradient (q,).

        Raises
        ------
        NumericalError
            Sites of a function do not converge.
        """
        prior, pull = self.prior(variables[: self.n_variables])
        law = self.likelihood_of(variables)
        value, gradient = 0.0, np.zeros(len(variables))
        for place, one in enumerate(self.observed):
            own = replace(one, likelihood=law)
            sites = self._last[place] = self._sites(prior, own, self._last[place])
            value -= sites.evidence
            multipliers = None
            if sites.is_raised:
                if not isinstance(prior, DenseRows):
                    raise NumericalError(f"likelihood: {law} needs the covariance of the rows")
                cotangent, multipliers = prior.raised_cotangent(own, sites)
            else:
                cotangent = prior.cotangent(sites)
            gradient[: self.n_variables] += pull(cotangent)
            gradient[self.n_variables :] -= own.parameter_slopes(sites, multipliers)
        return value, gradient

    @staticmethod
    def _sites(prior: RowsPrior, observed: Observed, last: Sites | None) -> Sites:
        """The sites, from the last ones if steps from there converge."""
        if last is not None:
            try:
                return find_sites(prior, observed, last)
            except NumericalError:
                pass
        return find_sites(prior, observed)


def _with_logarithms(likelihood: Likelihood, logarithms: FloatArray) -> Likelihood:
    values = np.exp(logarithms).tolist()
    return likelihood.with_parameters(dict(zip(likelihood.parameters, values, strict=True)))
