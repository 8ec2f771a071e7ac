"""A space-time model as matrices over all sensors and times, with which tests compare."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from coupledgp.inference.space_time.filters import Term
from coupledgp.inference.space_time.gaps import GapSystem, time_covariance
from coupledgp.inference.space_time.imputation import SpaceTimeData, gap_system
from coupledgp.inference.space_time.posterior import SpaceTimePosterior
from coupledgp.inference.space_time.whittle import SpaceTimeParameters
from coupledgp.kernels.time import Constant, Matern12, Matern32
from coupledgp.random import FloatArray

FOUR_TERMS = (
    Term("graph", Matern12(8.0), 1.0),
    Term("graph", Constant(), 0.5),
    Term("node", Matern32(4.0), 0.3),
    Term("node", Constant(), 0.2),
)


class PlainSites:
    """Covariances between sites that are the entries of a matrix."""

    def __init__(self, gram: FloatArray) -> None:
        self.matrix = gram

    def gram(self, sites):
        return self.matrix[np.ix_(sites, sites)]

    def cross(self, a, b):
        return self.matrix[np.ix_(a, b)]

    def diagonal(self, a):
        return np.diag(self.matrix)[a]

    def product(self, out, into, V):
        return self.cross(out, into) @ V


def gram_of_places(n_sites, seed=0, reach=1.0):
    """Covariance (N, N) of sites at random places of a plane."""
    places = np.random.default_rng(seed).normal(size=(n_sites, 2))
    distances = np.linalg.norm(places[:, None] - places, axis=2)
    return np.exp(-distances / reach)


def gaps_of(p, n, seed=1, share=0.3):
    """Cells (p, n) that are observed: scattered and long gaps, a dark sensor, dark times."""
    observed = np.random.default_rng(seed).random((p, n)) > share
    observed[3] = False
    observed[:, n // 2 : n // 2 + 3] = False
    observed[5, n // 2 + 5 : n // 2 + 12] = False
    return observed


@dataclass(frozen=True, eq=False)
class Dense:
    """Sensors at the first p of N sites."""

    gram: FloatArray
    terms: tuple[Term, ...]
    noise: float
    roots: FloatArray
    times: FloatArray
    observed: FloatArray
    extra: FloatArray | None = None
    seed: int = 2
    values: FloatArray = field(default=None)

    def __post_init__(self):
        if self.values is None:
            rng = np.random.default_rng(self.seed)
            drawn = np.linalg.cholesky(self.system) @ rng.standard_normal(len(self.system))
            values = np.where(self.observed, drawn.reshape(self.shape), 0.0)
            object.__setattr__(self, "values", values)

    @property
    def shape(self):
        return self.roots.size, self.times.size

    def covariance(self, a, s, b, t):
        """Covariance of f at sites a and times s with that at sites b and times t."""
        lags = np.asarray(s)[:, None] - np.asarray(t)
        scales = np.ones(len(self.gram))
        scales[: self.roots.size] = self.roots**2
        same = np.equal.outer(a, b) * scales[a][:, None]
        return np.kron(self.gram[np.ix_(a, b)], time_covariance(self.terms, "graph", lags)) + (
            np.kron(same, time_covariance(self.terms, "node", lags))
        )

    @cached_property
    def sensors(self):
        return np.arange(self.roots.size)

    @cached_property
    def system(self):
        """Covariance (p n, p n) of observations of all cells."""
        noise = np.repeat(self.noise * self.roots**2, self.times.size)
        if self.extra is not None:
            noise = noise + self.extra.reshape(-1)
        f = self.covariance(self.sensors, self.times, self.sensors, self.times)
        return f + np.diag(noise)

    @cached_property
    def there(self):
        return np.flatnonzero(self.observed)

    @cached_property
    def inverse(self):
        """Inverse covariance of the observations."""
        return np.linalg.inv(self.system[np.ix_(self.there, self.there)])

    @cached_property
    def alpha(self):
        out = np.zeros(self.observed.size)
        out[self.there] = self.inverse @ self.values.reshape(-1)[self.there]
        return out.reshape(self.shape)

    def law(self, sites, times):
        """Mean (a, b) and covariance of f at sites and times."""
        cross = self.covariance(sites, times, self.sensors, self.times)[:, self.there]
        mean = cross @ self.alpha.reshape(-1)[self.there]
        prior = self.covariance(sites, times, sites, times)
        return mean.reshape(len(sites), len(times)), prior - cross @ self.inverse @ cross.T

    def mean(self, sites, times):
        return self.law(sites, times)[0]

    def variance(self, sites, times):
        return self.law(sites, times)[1].diagonal().reshape(len(sites), len(times))

    @property
    def log_determinant(self):
        return -np.linalg.slogdet(self.inverse)[1]

    @property
    def log_evidence(self):
        y = self.values.reshape(-1)[self.there]
        quad = y @ self.inverse @ y
        return -0.5 * (quad + self.log_determinant + y.size * np.log(2 * np.pi))

    def filled(self):
        """The same model with all cells of times at which some sensor reports, of equal noise."""
        seen = np.repeat(self.observed.any(axis=0)[None], len(self.observed), axis=0)
        return replace(self, observed=seen, extra=None, values=np.zeros(self.shape))

    @property
    def data(self):
        return SpaceTimeData(self.values, self.observed, self.times)

    @property
    def parameters(self):
        return SpaceTimeParameters(np.zeros(0), self.terms, self.noise, self.roots)

    def gaps(self) -> GapSystem:
        p = self.roots.size
        return gap_system(self.data, self.gram[:p, :p], self.parameters, self.extra)

    def posterior(self, n_draws=2, seed=0) -> SpaceTimePosterior:
        sites = PlainSites(self.gram)
        return SpaceTimePosterior.given(
            sites, self.sensors, self.gaps(), self.values, n_draws, seed
        )


def made(
    p=9, n=40, n_sites=14, own=True, irregular=False, weights=False, terms=FOUR_TERMS, **other
):
    """A model with four terms, 40 % gaps, a dark sensor and dark times."""
    rng = np.random.default_rng(11)
    roots = np.exp(0.3 * rng.normal(size=p)) if own else np.ones(p)
    times = np.cumsum(rng.uniform(0.5, 1.5, n)) if irregular else np.arange(n, dtype=float)
    settings = {"gram": gram_of_places(n_sites), "terms": terms, "noise": 0.1, "roots": roots,
                "times": times, **other}  # fmt: skip
    if "observed" not in settings:
        settings["observed"] = gaps_of(p, n)
    if weights:
        extra = np.where(rng.random((p, n)) < 0.3, rng.uniform(0.05, 2.0, (p, n)), 0.0)
        settings["extra"] = extra * settings["observed"]
    return Dense(**settings)
