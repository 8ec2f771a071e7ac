"""The prior of a function of sites and times, and its exact process by a Cholesky factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.gp.additive import AdditiveProblem
from coupledgp.gp.dense_prior import DensePrior
from coupledgp.gp.exact import ExactGP
from coupledgp.gp.protocol import Arrays, Data, Header, Points
from coupledgp.gp.units import Units
from coupledgp.inference.space_time.filters import Term
from coupledgp.inference.space_time.gaps import time_covariance
from coupledgp.inference.space_time.sites import Sites
from coupledgp.likelihoods.base import Likelihood, NoiseLaw
from coupledgp.likelihoods.gaussian import Gaussian
from coupledgp.random import FloatArray, IntArray


@dataclass(frozen=True)
class SpaceTimeHyperparameters:
    """Fitted hyperparameters, variances in normalised units.

    Attributes
    ----------
    terms : tuple of Term
        Terms of the function: where each lives, its time kernel and its variance.
    outputscale : float
        Sum of the variances of the terms.
    noise : float
        Variance of the noise of a sensor of scale one.
    """

    terms: tuple[Term, ...]
    noise: float

    @property
    def outputscale(self) -> float:
        """Sum of the variances of the terms."""
        return float(sum(term.variance for term in self.terms))


@dataclass(frozen=True, eq=False)
class SensorScales:
    """Relative variances of noise and own terms of sensors; one at all other sites.

    Attributes
    ----------
    sensors : IntArray (p,)
        Sites of sensors, rising.
    values : FloatArray (p,)
        Relative variances D.
    """

    sensors: IntArray
    values: FloatArray

    def at(self, sites: IntArray) -> FloatArray:
        """Relative variances (a,) at sites."""
        if not self.sensors.size:
            return np.ones(sites.size)
        places = np.minimum(np.searchsorted(self.sensors, sites), self.sensors.size - 1)
        return np.where(self.sensors[places] == sites, self.values[places], 1.0)


@dataclass(frozen=True, eq=False)
class SpaceTimePrior(DensePrior):
    """`f = sum_c f_c`, `cov f_c = v_c B_c(i, j) k_c(t - t')`, B_c a kernel of sites or own scales.

    Points are rows (site, time).

    Attributes
    ----------
    sites : Sites
        Covariances between sites.
    hyperparameters : SpaceTimeHyperparameters
        Terms and noise.
    scales : SensorScales
        Relative variances of noise and own terms of sensors.
    likelihood : NoiseLaw
        Law of observations given f, made of the noise variance.
    """

    sites: Sites
    hyperparameters: SpaceTimeHyperparameters
    scales: SensorScales
    likelihood: NoiseLaw = Gaussian

    @property
    def process_class(self) -> type[ExactGP]:
        return ExactGraphTimeGP

    def covariance(self, a: Points, b: Points) -> FloatArray:
        """Prior covariance (n, p) of f between rows a (n, 2) and b (p, 2) of site and time."""
        first, of_a = np.unique(sites_of_points(a), return_inverse=True)
        second, of_b = np.unique(sites_of_points(b), return_inverse=True)
        lags = a[:, 1][:, None] - b[:, 1]
        terms = self.hyperparameters.terms
        between = self.sites.cross(first, second)
        found = between[of_a[:, None], of_b] * time_covariance(terms, "graph", lags)
        same = first[of_a][:, None] == second[of_b]
        own = self.scales.at(first)[of_a][:, None] * time_covariance(terms, "node", lags)
        return np.asarray(found + np.where(same, own, 0.0))

    def variance(self, points: Points) -> FloatArray:
        sites, places = np.unique(sites_of_points(points), return_inverse=True)
        terms = self.hyperparameters.terms
        graph = sum(term.variance for term in terms if term.where == "graph")
        node = sum(term.variance for term in terms if term.where == "node")
        found = graph * self.sites.diagonal(sites) + node * self.scales.at(sites)
        return np.asarray(found[places])

    def problem(self, data: Data, units: Units) -> AdditiveProblem:
        return AdditiveProblem.of(self, data, units)


def sites_of_points(points: Points) -> IntArray:
    """Numbers (n,) of the sites of points (n, 2)."""
    return points[:, 0].astype(np.int64)


def noise_at(points: Points, noise: float, scales: SensorScales) -> Gaussian:
    """Noise of observations at points (n, 2), of each sensor by its own scale."""
    relative = scales.at(sites_of_points(points))[:, None]
    return Gaussian(noise * relative)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False, repr=False)
class ExactGraphTimeGP(ExactGP):
    """A function of sites and times given observations, by a Cholesky factor of their covariance.

    Points are rows (site, time).
    """

    @property
    def space_time_prior(self) -> SpaceTimePrior:
        """The prior of a function of sites and times."""
        prior = self.dense_prior
        assert isinstance(prior, SpaceTimePrior)
        return prior

    @property
    def hyperparameters(self) -> Any:
        return self.space_time_prior.hyperparameters

    def likelihood_at(self, points: Points) -> Likelihood:
        """Law of observations at points (p, 2) given f, with noise by the scale of each sensor."""
        return noise_at(points, self.noise.variance, self.space_time_prior.scales)

    def state(self) -> tuple[Header, Arrays]:
        """Refuse: the process that it is the twin of is stored instead."""
        raise InvalidInputError(
            "model: expected a process that is stored, got the exact twin of one; save the model "
            "and call exact() after it is loaded"
        )
