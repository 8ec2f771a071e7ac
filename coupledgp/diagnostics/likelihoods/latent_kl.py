"""Divergence of posteriors of a function that is observed through a likelihood.

The joint law of the function alone is nearly singular, so that its divergence is ruled by
directions of no use to anybody. Two figures are finite and mean something. The first is the
divergence of the laws of `f + e` at p points, with independent normal e of variance

    1 / E_q[-d^2 log p(y | f)]    at each point, q the law of the reference there,

the noise of one further observation. For normal observations it is the divergence of their joint
laws. The second is the mean of the divergences of the laws of f at single points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coupledgp.core.latent import LatentGP
from coupledgp.core.normalized_process import NormalizedProcess
from coupledgp.core.process import GaussianProcess, Points
from coupledgp.diagnostics.limits import DENSE_ROWS
from coupledgp.diagnostics.probes import StochasticOptions, solved_law
from coupledgp.diagnostics.scoring.divergences import gaussian_kl
from coupledgp.diagnostics.scoring.subject import Subject, process_of, some_rows
from coupledgp.errors import InvalidInputError
from coupledgp.ground.progress import tell
from coupledgp.ground.validation import check_choice, wrong
from coupledgp.likelihoods.base import Likelihood
from coupledgp.random import FloatArray

# Rows up to which the sites of the exact process are found anew by default.
OWN_SITE_ROWS = 2000
# Values of f at each point, and observations of each, for the mean curvature of a log density.
N_VALUES, N_OBSERVATIONS = 32, 128
# Largest count up to which all observations are listed, in place of draws.
MOST_LISTED = 100
# Least curvature: an observation of less says nothing. Step of differences, in deviations of f.
LEAST_CURVATURE, STEP = 1e-12, 3e-5
# Where the sites of the reference are from.
SITES = ("auto", "own", "same")


@dataclass(frozen=True, eq=False)
class FunctionLaw:
    """Joint normal law of k functions at p points.

    Attributes
    ----------
    mean : FloatArray (p, k)
    cov : FloatArray (p, p, k)
    """

    mean: FloatArray
    cov: FloatArray

    @classmethod
    def of(cls, process: LatentGP, points: Points) -> FunctionLaw:
        """The law of the functions of a process at points."""
        law = process.law(points, "covariance", latent=True)
        assert law.spread is not None
        return cls(law.mean, law.spread)

    @property
    def variance(self) -> FloatArray:
        """Variances (p, k)."""
        return np.einsum("iik->ik", self.cov)


@dataclass(frozen=True)
class LatentKL:
    """Distance of a posterior from a reference, both through the same likelihood.

    Attributes
    ----------
    kl_per_point, reverse_kl_per_point : float
        `KL(reference || model)` and the reverse of the joint laws of f with the noise of one
        further observation, nats per point and function.
    marginal : float
        Mean `KL(reference || model)` of the laws of f at single points, nats.
    largest_change : float
        Largest difference of the two mean observations at a point; of a chance for classes.
    sites : str
        `"own"`: the sites of the reference are those that the rule finds for it. `"same"`: they are
        the model's.
    n_points : int
        Number p of points.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import latent_kl
    >>> X = np.linspace(0, 6, 24)[:, None]
    >>> labels = np.where(np.sin(X[:, 0]) > 0, "up", "down")
    >>> every = cgp.GPClassifier("matern-3/2", random_state=0).fit(X, labels)
    >>> found = latent_kl(every, X[:8])
    >>> found.n_points, found.sites, round(found.largest_change, 6)
    (8, 'own', 0.0)
    """

    kl_per_point: float
    reverse_kl_per_point: float
    marginal: float
    largest_change: float
    sites: str
    n_points: int

    @classmethod
    def between(
        cls, reference: FunctionLaw, model: FunctionLaw, likelihood: Likelihood, sites: str
    ) -> LatentKL:
        """The figures of two joint laws of functions (p, k) at the same points."""
        noise = 1 / mean_curvature(likelihood, reference.mean, reference.variance)
        forward = backward = 0.0
        for k in range(reference.mean.shape[1]):
            own, other = (
                (law.mean[:, k], law.cov[..., k] + np.diag(noise[:, k]))
                for law in (reference, model)
            )
            forward += gaussian_kl(*own, *other)
            backward += gaussian_kl(*other, *own)
        means = [
            likelihood.marginal_moments(law.mean, law.variance)[0] for law in (reference, model)
        ]
        size = reference.mean.size
        return cls(
            forward / size, backward / size, float(marginal_kl(reference, model).mean()),
            float(np.abs(means[0] - means[1]).max()), sites, len(reference.mean),
        )  # fmt: skip


def marginal_kl(p: FunctionLaw, q: FunctionLaw) -> FloatArray:
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


@dataclass(frozen=True, eq=False)
class ExactReference:
    """The law of the functions under the exact kernel, at given points.

    Attributes
    ----------
    law : FunctionLaw
    sites : str
        `"own"` or `"same"`; see `LatentKL`.
    text : str
        How it was computed, in words.
    """

    law: FunctionLaw
    sites: str
    text: str

    @classmethod
    def of(
        cls,
        process: LatentGP,
        points: Points,
        sites: str = "auto",
        options: StochasticOptions | None = None,
    ) -> ExactReference:
        """The exact process of the same kernels and hyperparameters.

        Parameters
        ----------
        process
            The model's process.
        points
            Points (p, ...).
        sites
            `"own"`: sites are found anew, which takes a Cholesky factor a step. `"same"`: those of
            the model, one factor, or iterative solves above 5000 rows. `"auto"`: own ones up to
            2000 rows.
        options
            Tolerances of iterative solves.

        Raises
        ------
        InvalidInputError
            `sites` is none of the names, or `"own"` with more than 5000 rows.
        """
        check_choice(sites, SITES, "sites")
        n = len(process.rows)
        if sites == "auto":
            sites = "own" if n <= OWN_SITE_ROWS else "same"
        if sites == "own":
            if n > DENSE_ROWS:
                raise InvalidInputError(
                    f"sites: expected 'same' for {n} rows, above {DENSE_ROWS} sites are not found "
                    "anew"
                )
            tell("exact process with sites of its own")
            return cls(FunctionLaw.of(process.exact(), points), sites, "sites of its own")
        if n <= DENSE_ROWS:
            exact = [function.exact() for function in process.functions]
            laws = [one.law(points, "covariance", latent=True) for one in exact]
            means, spreads = [one.mean for one in laws], [one.spread for one in laws]
            law = FunctionLaw(np.concatenate(means, axis=1), _joined(spreads))
            return cls(law, sites, "the sites of the model")
        chosen = StochasticOptions() if options is None else options
        return cls(
            _by_solves(process.functions, points, chosen), sites,
            "the sites of the model, by iterative solves",
        )  # fmt: skip


def _joined(spreads: Sequence[FloatArray | None]) -> FloatArray:
    return np.concatenate([one for one in spreads if one is not None], axis=-1)


def _by_solves(
    functions: Sequence[NormalizedProcess],
    points: Points,
    options: StochasticOptions,
) -> FunctionLaw:
    """Law of functions given their pseudo-observations by conjugate gradients."""
    means, covariances = [], []
    for function in functions:
        problem = function.exact_problem()
        law, _ = solved_law(problem, points, options)
        assert law.noise is not None
        means.append(law.mean)
        covariances.append(law.cov - np.eye(len(law.mean))[..., None] * law.noise)
    return FunctionLaw(np.concatenate(means, axis=1), np.concatenate(covariances, axis=-1))


def latent_kl(
    model: Any,
    X_test: Any,
    reference: Any = None,
    *,
    sites: str = "auto",
    options: StochasticOptions | None = None,
) -> LatentKL:
    """Distance of a posterior under a likelihood from that of the exact kernel.

    Parameters
    ----------
    model
        Fitted classifier, or estimator with a likelihood, or its process.
    X_test
        Test inputs, or points of the process; of more than `options.n_columns` a random part.
    reference
        Another such model, to be compared with; None: the exact process of the same kernels,
        hyperparameters and rows.
    sites
        Where the sites of the exact process are from: `"own"`, `"same"` or `"auto"`; see
        `LatentKL`. Both figures are near each other.
    options
        Number of points, and tolerances of iterative solves above 5000 rows.
    progress
        Called with a line at each step.

    Raises
    ------
    InvalidInputError
        A model has no process with a likelihood, or the two have different numbers of functions.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import latent_kl
    >>> X = np.linspace(0, 6, 24)[:, None]
    >>> labels = np.where(np.sin(X[:, 0]) > 0, "up", "down")
    >>> every = cgp.GPClassifier("matern-3/2", random_state=0).fit(X, labels)
    >>> latent_kl(every, X).kl_per_point < 1e-6  # its own kernel is the exact one
    True
    >>> few = cgp.GPClassifier("matern-3/2", random_state=0).fit(X[::4], labels[::4])
    >>> latent_kl(few, X, reference=every).kl_per_point > 0.001
    True
    """
    chosen = StochasticOptions() if options is None else options
    process = latent_process(model)
    points = Subject.of(model, X_test).points
    rows = some_rows(len(points), chosen.n_columns, chosen.seed)
    points = points[rows]
    own = FunctionLaw.of(process, points)
    if reference is None:
        exact = ExactReference.of(process, points, sites, chosen)
        return LatentKL.between(exact.law, own, process.likelihood, exact.sites)
    other = latent_process(reference)
    law = FunctionLaw.of(other, Subject.of(reference, X_test).points[rows])
    if law.mean.shape != own.mean.shape:
        raise wrong("reference", f"{own.mean.shape[1]} functions", law.mean.shape[1])
    return LatentKL.between(law, own, process.likelihood, "own")


def latent_process(model: Any) -> LatentGP:
    """The process under a likelihood of a model.

    Raises
    ------
    InvalidInputError
        There is none.
    """
    process: GaussianProcess | None = process_of(model)
    if not isinstance(process, LatentGP):
        raise wrong("model", "one whose observations follow a likelihood", type(model))
    return process
