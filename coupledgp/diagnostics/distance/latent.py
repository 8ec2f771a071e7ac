"""Divergence of posteriors of a function that is observed through a likelihood.

The joint law of the function alone is nearly singular, so that its divergence is ruled by
directions of no use to anybody. Two figures are finite and mean something. The first is the
divergence of the laws of `f + e` at p points, with independent normal e of variance

    1 / E_q[-d^2 log p(y | f)]    at each point, q the law of the exact process there,

the noise of one further observation. For normal observations it is the divergence of their joint
laws. The second is the mean of the divergences of the laws of f at single points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from coupledgp.core.latent import LatentGP
from coupledgp.core.normalized_process import NormalizedProcess
from coupledgp.core.process import Points
from coupledgp.diagnostics.distance.divergences import gaussian_kl
from coupledgp.diagnostics.distance.solved import StochasticOptions, solved_law
from coupledgp.diagnostics.sources.own import Functions
from coupledgp.likelihoods.base import Likelihood
from coupledgp.random import FloatArray

# Rows up to which the sites of the exact process are found anew, and up to which algebra is dense.
OWN_SITE_ROWS, DENSE_ROWS = 2000, 5000
# Values of f at each point, and observations of each, for the mean curvature of a log density.
N_VALUES, N_OBSERVATIONS = 32, 128
# Largest count up to which all observations are listed, in place of draws.
MOST_LISTED = 100
# Least curvature: an observation of less says nothing. Step of differences, in deviations of f.
LEAST_CURVATURE, STEP = 1e-12, 3e-5


def latent_distance(exact: Functions, model: Functions) -> dict[str, float]:
    """Divergences of two joint laws of functions (p, k) at the same points.

    `kl` and `reverse_kl` are those with the noise of one further observation, nats per point and
    function; `marginal_kl` the mean of those at single points; `largest_change` the largest
    difference of two mean observations, of a chance for classes.
    """
    noise = 1 / mean_curvature(exact.likelihood, exact.mean, exact.variance)
    forward = backward = 0.0
    for k in range(exact.mean.shape[1]):
        own, other = (
            (law.mean[:, k], law.cov[..., k] + np.diag(noise[:, k])) for law in (exact, model)
        )
        forward += gaussian_kl(*own, *other)
        backward += gaussian_kl(*other, *own)
    means = [exact.likelihood.marginal_moments(law.mean, law.variance)[0] for law in (exact, model)]
    size = exact.mean.size
    return {
        "kl": forward / size,
        "reverse_kl": backward / size,
        "marginal_kl": float(marginal_kl(exact, model).mean()),
        "largest_change": float(np.abs(means[0] - means[1]).max()),
    }


def marginal_kl(p: Functions, q: Functions) -> FloatArray:
    """`KL(p || q)` (p, k) of the laws of functions at single points, nats."""
    ratio = p.variance / q.variance
    return np.asarray(0.5 * (ratio - 1 - np.log(ratio) + np.square(p.mean - q.mean) / q.variance))


def mean_curvature(likelihood: Likelihood, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """`E[-d^2 log p(y | f)]` (p, k) over f of moments (p, k) and observations y given f.

    By Gauss-Hermite nodes of f, and every possible observation of discrete laws of few, or else
    draws. It is the mean of the Fisher information of f.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(N_VALUES)
    std = np.sqrt(variance)[..., None]
    f, step = mean[..., None] + std * nodes, STEP * std
    total = np.zeros_like(f)
    for y, chance in _observations(likelihood, f):
        total += chance * (likelihood.slope(y, f - step) - likelihood.slope(y, f + step))
    total /= 2 * step
    return np.maximum(total @ (weights / weights.sum()), LEAST_CURVATURE)


def _observations(
    likelihood: Likelihood, f: FloatArray
) -> Iterator[tuple[FloatArray, FloatArray | float]]:
    """Observations given values (...) of f, and their chances."""
    rng = np.random.default_rng(0)
    drawn = [likelihood.draw(f, rng) for _ in range(N_OBSERVATIONS)]
    most = max(float(y.max()) for y in drawn) if likelihood.is_discrete else np.inf
    if most >= MOST_LISTED:
        yield from ((y, 1 / N_OBSERVATIONS) for y in drawn)
        return
    for value in range(2 * int(most) + 2):
        y = np.full_like(f, value)
        chance = likelihood.cdf(y, f) - likelihood.cdf(y - 1, f)
        # Values beyond the last possible one have the chance zero, and no log density.
        if chance.max() > 0:
            yield y, chance


def exact_functions(
    process: LatentGP, points: Points, options: StochasticOptions | None = None
) -> tuple[Functions, str]:
    """The functions under the exact kernels of a process, and how they were computed, in words.

    Sites are found anew up to 2000 rows, which takes a Cholesky factor a step; above they are those
    of the model, with one factor up to 5000 rows, and by iterative solves beyond, which
    `options` ask for.
    """
    n = len(process.rows)
    if n <= OWN_SITE_ROWS and options is None:
        return Functions.of(process.exact(), points), "sites of its own"
    if options is None:
        laws = [one.exact().law(points, "covariance", latent=True) for one in process.functions]
        mean = np.concatenate([one.mean for one in laws], axis=1)
        cov = np.concatenate([one.spread for one in laws if one.spread is not None], axis=-1)
        return Functions(mean, cov, process.likelihood), "the sites of the model"
    mean, cov = _by_solves(process.functions, points, options)
    how = "the sites of the model, by iterative solves"
    return Functions(mean, cov, process.likelihood), how


def _by_solves(
    functions: Sequence[NormalizedProcess], points: Points, options: StochasticOptions
) -> tuple[FloatArray, FloatArray]:
    """Means and covariances of functions given their pseudo-observations."""
    means, covariances = [], []
    for function in functions:
        law, _ = solved_law(function.exact_problem(), points, options)
        assert law.cov is not None
        assert law.noise is not None
        means.append(law.mean)
        covariances.append(law.cov - np.eye(len(law.mean))[..., None] * law.noise)
    return np.concatenate(means, axis=1), np.concatenate(covariances, axis=-1)
