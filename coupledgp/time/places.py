"""Nodes without a sensor, each step alone, from the kernel of the graph.

    y_x(t) = mu + w_x'(y_S(t) - mu) + e ,   w_x = (K_SS + r I)^-1 K_Sx ,
    var e = v (K_xx + r - w_x'K_Sx) exp(phi'(1, z, z^2)) ,

z the predicted level in standard deviations. The kernel and r have the greatest likelihood of the
moments of the sensors (p, p), phi is that of a gamma regression on errors of sensors left out,
`(A^-1 (y - mu))_i / (A^-1)_ii` with variances `1 / (A^-1)_ii`, A = v (K_SS + r I).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from coupledgp.graphs.observations import informative_rows
from coupledgp.ground.codec import stored
from coupledgp.random import FloatArray, IntArray
from coupledgp.time.recursion import neighbour_means
from coupledgp.time.sites import GraphSites, Sites
from coupledgp.time.spread import FACTORS, LEVELS, gamma_coefficients

# Shares of what sensors have alone, in units of the kernel's mean variance at the sensors.
NUGGETS = np.geomspace(1e-3, 30.0, 24)
# Neighbours by the kernel where the graph joins too few sensors, and the share that is too few.
N_NEIGHBOURS, LEAST_JOINED = 6, 0.5
# Most sensors, and most values of sensors left out, of which numbers are found.
MOST_SENSORS, MOST_VALUES = 600, 200_000


class FittedKernel(NamedTuple):
    """Sites at fitted parameters, v and r."""

    sites: Sites
    variance: float
    nugget: float


def kernel_of(sites: Sites, sensors: IntArray, M: FloatArray) -> FittedKernel:
    """The kernel of the greatest likelihood of moments M (p, p) under `v (K + r I)`."""
    if sensors.size > MOST_SENSORS:
        some = np.linspace(0, sensors.size - 1, MOST_SENSORS).astype(np.int64)
        sensors, M = sensors[some], M[np.ix_(some, some)]

    def profiled(point: FloatArray) -> tuple[float, float, float]:
        gram = sites.with_theta(point).gram(sensors)
        values, vectors = np.linalg.eigh(gram)
        squares = ((M @ vectors) * vectors).sum(axis=0)
        nuggets = NUGGETS * max(float(values.mean()), 1e-300)
        d = np.maximum(values, 0.0)[None] + nuggets[:, None]
        v = (squares / d).mean(axis=1)
        loss = np.log(d).sum(axis=1) + len(M) * np.log(np.maximum(v, 1e-300))
        k = int(np.argmin(loss))
        return float(loss[k]), float(v[k]), float(nuggets[k])

    starts = sites.starts()
    losses = [profiled(point)[0] for point in starts]
    theta = starts[int(np.argmin(losses))]
    if theta.size:
        found = minimize(
            lambda point: profiled(point)[0], theta, method="Nelder-Mead", bounds=sites.bounds(),
            options={"maxfev": 40 * theta.size, "xatol": 0.05, "fatol": 0.1},
        )  # fmt: skip
        theta = found.x if found.fun <= min(losses) else theta
    _, v, r = profiled(theta)
    return FittedKernel(sites.with_theta(theta), v, r)


def correlations_of(sites: Sites, sensors: IntArray) -> FloatArray:
    """Correlations (p, p) of the sensors under the kernel."""
    gram = sites.gram(sensors)
    roots = np.sqrt(np.maximum(gram.diagonal(), 1e-300))
    found = gram / np.outer(roots, roots)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def neighbours_of(sites: Sites, sensors: IntArray) -> FloatArray:
    """Weights (p, p) of neighbours: by edges between sensors, or by the kernel if these are few."""
    if isinstance(sites, GraphSites):
        adjacency = sites.domain.adjacency[sensors][:, sensors].toarray()
        np.fill_diagonal(adjacency, 0.0)
        if (adjacency.sum(axis=1) > 0).mean() >= LEAST_JOINED:
            return neighbour_means(adjacency)
    weights = np.abs(correlations_of(sites, sensors))
    np.fill_diagonal(weights, 0.0)
    if len(weights) > N_NEIGHBOURS:
        least = -np.partition(-weights, N_NEIGHBOURS - 1, axis=1)[
            :, N_NEIGHBOURS - 1 : N_NEIGHBOURS
        ]
        weights = np.where(weights >= least, weights, 0.0)
    return neighbour_means(weights)


@stored
@dataclass(frozen=True, eq=False)
class Places:
    """The law of nodes without a sensor.

    Attributes
    ----------
    sites : Sites
        The kernel at its fitted parameters.
    sensors : IntArray (p,)
    mean : FloatArray (c,)
        mu of each component of the domain; of one without a sensor that of all.
    variance, nugget : float
        v and r.
    coefficients : FloatArray (3,)
        phi.
    scale : float
        Standard deviation of which z counts.
    lasting : tuple of float
        Share of a residual that lasts, and the correlation of one step of the rest.
    """

    sites: Sites
    sensors: IntArray
    mean: FloatArray
    variance: float
    nugget: float
    coefficients: FloatArray
    scale: float
    lasting: tuple[float, float]

    @cached_property
    def inverse(self) -> FloatArray:
        """`(K_SS + r I)^-1` (p, p)."""
        gram = self.sites.gram(self.sensors) + self.nugget * np.eye(self.sensors.size)
        return np.asarray(np.linalg.inv(gram))

    def means_of(self, sites: IntArray) -> FloatArray:
        """Mu (m, 1) of nodes."""
        return np.asarray(self.mean[self.sites.components()[sites]][:, None])

    def predicted(self, sites: IntArray, W: FloatArray, Y: FloatArray) -> FloatArray:
        """Means (m, b) at nodes of weights W (m, p) for values (p, b) of the sensors."""
        return self.means_of(sites) + W @ (Y - self.means_of(self.sensors))

    def weights(self, sites: IntArray) -> tuple[FloatArray, FloatArray]:
        """W (m, p) of nodes, and the variances (m,) that the sensors leave."""
        cross = self.sites.cross(sites, self.sensors)
        W = cross @ self.inverse
        rest = self.sites.diagonal(sites) + self.nugget - (W * cross).sum(axis=1)
        return W, self.variance * np.maximum(rest, 1e-12)

    def left_covariance(self, sites: IntArray, W: FloatArray) -> FloatArray:
        """Covariance (m, m) that the sensors leave between distinct nodes of weights W (m, p)."""
        found = self.sites.gram(sites) + self.nugget * np.eye(sites.size)
        found = found - W @ self.sites.cross(sites, self.sensors).T
        return np.asarray(self.variance * (found + found.T) / 2)

    def factors(self, sites: IntArray, mean: FloatArray) -> FloatArray:
        """Factors (m, b) of variances at predicted means (m, b) of nodes."""
        z = np.clip((mean - self.means_of(sites)) / self.scale, *LEVELS)
        F = np.stack([np.ones(z.shape), z, z**2], axis=-1)
        return np.exp(np.clip(F @ self.coefficients, *FACTORS))

    def left_out(self, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means and variances (p, n) of the values (p, n) of each sensor from the others'."""
        alone = self.inverse.diagonal()[:, None]
        mean = Y - (self.inverse @ (Y - self.means_of(self.sensors))) / alone
        return mean, self.variance / alone * self.factors(self.sensors, mean)

    def residual_correlation(self, steps: FloatArray) -> FloatArray:
        """Correlation of a node's residuals so many steps apart."""
        share, one = self.lasting
        return np.asarray(share + (1.0 - share) * one**steps)


def fitted_places(sites: Sites, sensors: IntArray, Y: FloatArray) -> Places:
    """The law of nodes from the filled values (p, n) of the sensors.

    Sensors of components with too few of them have no part in what is fitted.
    """
    member = sites.components()
    size = int(member.max()) + 1
    of_sensors, averages = member[sensors], Y.mean(axis=1)
    count = np.bincount(of_sensors, minlength=size)
    total = np.bincount(of_sensors, averages, size)
    mean = np.where(count > 0, total / np.maximum(count, 1), averages.mean())
    used = np.flatnonzero(informative_rows(of_sensors, sensors))
    used = used if used.size else np.arange(sensors.size)
    away = Y[used] - mean[of_sensors[used]][:, None]
    sites, v, r = kernel_of(sites, sensors[used], away @ away.T / Y.shape[1])
    v = max(v, 1e-300)
    scale = float(np.sqrt((away**2).mean())) or 1.0
    plain = Places(sites, sensors, mean, v, r, np.zeros(3), scale, (0.0, 0.0))
    predicted, variance = (part[used] for part in plain.left_out(Y))
    errors = (Y[used] - predicted) / np.sqrt(variance)
    every = max(1, Y.size // MOST_VALUES)
    z = predicted[:, ::every] - mean[of_sensors[used]][:, None]
    z = np.clip(z.ravel() / scale, *LEVELS)
    F = np.stack([np.ones(z.size), z, z**2], axis=1)
    phi = gamma_coefficients(F, errors[:, ::every].ravel() ** 2)
    return Places(sites, sensors, mean, v, r, phi, scale, _lasting(errors))


def _lasting(errors: FloatArray) -> tuple[float, float]:
    """Share of residuals (p, n) that lasts, and the correlation of one step of the rest."""
    total = float((errors**2).mean())
    share = float((errors.mean(axis=1) ** 2).mean()) / total if total > 0 else 0.0
    share = min(max(share, 0.0), 1.0)
    one = float((errors[:, 1:] * errors[:, :-1]).mean()) / total if total > 0 else 0.0
    rest = (one - share) / (1.0 - share) if share < 1.0 else 0.0
    return share, min(max(rest, 0.0), 0.999)
