"""What a sparse variational process of another package gains with more inducing points.

With m inducing points Z, `Q = K_xz K_zz^-1 K_zx` and noise s the best variational law has the bound

    log N(y; mu, Q + s I) - tr(K - Q) / (2 s)                     (Titsias, 2009, AISTATS)

on the log evidence, and a law at test rows in closed form. The points of the model are kept, and
more are added from the training rows. Their number is doubled for as long as that gains. For each
number the bound is maximised over a factor on the lengthscales, the variance and the noise.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from coupledgp.diagnostics.foreign.kernel import StatedKernel
from coupledgp.diagnostics.foreign.table import ForeignTable
from coupledgp.diagnostics.scoring.figures import Alternative
from coupledgp.diagnostics.scoring.scores import paired_difference, point_nlpd
from coupledgp.diagnostics.scoring.subject import some_rows
from coupledgp.linalg.matrices import solve_lower
from coupledgp.random import FloatArray
from coupledgp.tables.exact_process import StationaryPrior

# Training rows of a refit, of more a random part, and most inducing points that are tried.
MOST_ROWS, MOST_POINTS = 2000, 256
# Nats per point that a further doubling gains at least, and evaluations of a bound.
MATTERS, MOST_EVALUATIONS = 0.01, 60
# Jitter of the inducing points' covariance, over the variance, and largest log of a factor.
JITTER, FURTHEST = 1e-6, 4.0


class InducingLaw(NamedTuple):
    """The best variational law of some inducing points.

    Attributes
    ----------
    bound : float
        Lower bound on the log evidence, nats.
    below : FloatArray (m, m)
        Cholesky factor of `K_zz`, with jitter.
    inner : FloatArray (m, m)
        Cholesky factor of `I + A A' / s` with `A = below^-1 K_zx`.
    weights : FloatArray (m,)
        `inner^-1 A (y - mu) / s`.
    """

    bound: float
    below: FloatArray
    inner: FloatArray
    weights: FloatArray

    @classmethod
    def of(cls, prior: StationaryPrior, Z: FloatArray, X: FloatArray, y: FloatArray) -> InducingLaw:
        """The law of rows (n, d) and targets (n,), less their mean, given points (m, d).

        Raises
        ------
        numpy.linalg.LinAlgError
            A covariance is not positive definite.
        """
        s, v = prior.noise, prior.hyperparameters.outputscale
        below = _root(prior.covariance(Z, Z) + JITTER * v * np.eye(len(Z)))
        A = solve_lower(below, prior.covariance(Z, X))
        inner = _root(np.eye(len(Z)) + A @ A.T / s)
        weights = solve_lower(inner, A @ y) / s
        n = len(y)
        bound = -0.5 * (n * np.log(2 * np.pi * s) + float(y @ y) / s)
        bound += 0.5 * float(weights @ weights)
        bound -= float(np.log(inner.diagonal()).sum())
        bound -= 0.5 * (n * v - float(np.square(A).sum())) / s
        return cls(float(bound), below, inner, weights)

    def at(
        self, prior: StationaryPrior, Z: FloatArray, points: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Means, less that of y, and variances of observations (p,) at rows (p, d)."""
        cross = solve_lower(self.below, prior.covariance(Z, points))
        known = solve_lower(self.inner, cross)
        variance = prior.variance(points) - np.square(cross).sum(axis=0)
        return known.T @ self.weights, variance + np.square(known).sum(axis=0) + prior.noise


def refits(
    Z: FloatArray, stated: StatedKernel, train: ForeignTable, test: ForeignTable, losses: FloatArray
) -> tuple[Alternative, ...]:
    """The process fitted anew with more inducing points, beside one of m points (m, d).

    `losses` (p,) are the model's negative log densities at the test rows. There is none where the
    kernel is no stationary one; else the number with the greatest gain of those that were tried.
    """
    if not isinstance(stated.prior, StationaryPrior):
        return ()
    chosen = some_rows(len(train.y), MOST_ROWS, [0, 43])
    X, points = stated.inputs(train.X[chosen]), stated.inputs(test.X)
    y, targets = train.y[chosen] - stated.mean, test.y - stated.mean
    order, start = np.random.default_rng([0, 47]).permutation(len(X)), time.perf_counter()
    best: Alternative | None = None
    n = 2 * len(Z)
    while n <= min(MOST_POINTS, len(X) + len(Z)):
        inducing = np.vstack([Z, X[order[: n - len(Z)]]])
        prior = fitted(stated.prior, inducing, X, y)
        try:
            mean, variance = InducingLaw.of(prior, inducing, X, y).at(prior, inducing, points)
        except np.linalg.LinAlgError:
            break
        own = point_nlpd(targets, mean, np.sqrt(variance))
        gap = paired_difference(losses, own)
        one = Alternative(
            f"the same with {n} inducing points",
            f"Take {n} inducing points in place of {len(Z)}, and fit it again.",
            gap.mean, gap.standard_error, float(np.sqrt(np.mean(np.square(targets - mean)))),
            float(own.mean()), time.perf_counter() - start,
        )  # fmt: skip
        if best is not None and one.gain < best.gain + MATTERS:
            break
        best, n = one, 2 * n
    return () if best is None else (best,)


def fitted(prior: StationaryPrior, Z: FloatArray, X: FloatArray, y: FloatArray) -> StationaryPrior:
    """The prior of the greatest bound, by factors on lengthscales, variance and noise."""
    hyper = prior.hyperparameters

    def changed(logs: FloatArray) -> StationaryPrior:
        length, variance, noise = np.exp(logs)
        other = replace(
            hyper, lengthscale=length * hyper.lengthscale, noise=noise * hyper.noise,
            outputscale=variance * hyper.outputscale,
        )  # fmt: skip
        return replace(prior, hyperparameters=other)

    def loss(logs: FloatArray) -> float:
        try:
            return -InducingLaw.of(changed(logs), Z, X, y).bound
        except np.linalg.LinAlgError:
            return 1e300

    found = minimize(
        loss, np.zeros(3), method="L-BFGS-B", bounds=[(-FURTHEST, FURTHEST)] * 3,
        options={"maxfun": MOST_EVALUATIONS},
    )  # fmt: skip
    return changed(np.asarray(found.x))


def _root(matrix: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
