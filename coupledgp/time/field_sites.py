"""Covariances between vertices of a mesh or network under a Whittle-Matern kernel with lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from coupledgp.core.codec import stored
from coupledgp.errors import ModelFileError
from coupledgp.geometry import LaplaceOperator
from coupledgp.geometry.locations import at_corners
from coupledgp.ground.memory import check_memory
from coupledgp.inference.fields.covariance import FieldCovariance, check_kernel
from coupledgp.inference.nodes.forecast import SPARSE_RATE, Forecast
from coupledgp.kernels.fields import (
    ALPHAS,
    LEAST_SCALE,
    POSITION_KERNELS,
    RANGES,
    FieldKernel,
    PositionKernel,
    WhittleMatern,
)
from coupledgp.random import FloatArray, IntArray
from coupledgp.time.site_base import Sites, checked_theta

# Range and lengthscale where none is given, and the longest ones of a search, over the diameter.
START_LENGTH, MOST_LENGTH = 0.4, 10.0
# Logits of the share of the surface in a search.
SHARE_BOUNDS = (-6.0, 6.0)
# Numbers of the sparse factor for each vertex, of a planar mesh: for forecasts alone.
FACTOR_ENTRIES = 60


@stored
class StoredFieldSites(NamedTuple):
    """Sites in a file."""

    covariance: FieldCovariance
    kernel: FieldKernel

    def read_back(self) -> FieldSites:
        """The sites."""
        check_kernel(self.kernel, self.covariance.operator)
        if self.kernel.surface is not None and self.kernel.surface.alpha is None:
            raise ModelFileError("kernel: expected an alpha, got none")
        return FieldSites(*self)


class FieldSites(Sites):
    """Vertices of an operator: covariances of a field with lengths in the operator's unit.

    The mean variance over the surface or network, by mass or length, is one.

    Parameters
    ----------
    covariance
        Covariances on the operator.
    kernel
        Kernel of the field; free parameters start at a part of the diameter.
    """

    kernel: FieldKernel

    def __init__(self, covariance: FieldCovariance, kernel: FieldKernel) -> None:
        self.covariance = covariance
        self.kernel = started(kernel, covariance.operator)
        self.n_sites = covariance.operator.n_vertices

    def as_stored(self) -> StoredFieldSites:
        """The arguments of the constructor."""
        return StoredFieldSites(self.covariance, self.kernel)

    @property
    def operator(self) -> LaplaceOperator:
        """The surface or network."""
        return self.covariance.operator

    @property
    def theta(self) -> FloatArray:
        """Logarithm of range or lengthscale (1,), or both and the logit of the share (3,)."""
        surface, position, share = self.kernel.surface, self.kernel.position, self.kernel.share
        lengths = [
            *([] if surface is None else [surface.range_]),
            *([] if position is None else [position.lengthscale]),
        ]
        found = np.log(np.array(lengths, dtype=np.float64))
        return found if found.size == 1 else np.append(found, logit(share))

    def with_theta(self, theta: FloatArray) -> FieldSites:
        values = checked_theta(theta, self.theta.size).tolist()
        surface, position, share = self.kernel.surface, self.kernel.position, self.kernel.share
        if surface is not None:
            surface = replace(surface, range_=float(np.exp(values.pop(0))))
        if position is not None:
            position = replace(position, lengthscale=float(np.exp(values.pop(0))))
        if values:
            share = float(expit(values.pop(0)))
        return FieldSites(self.covariance, FieldKernel(surface, position, share))

    def components(self) -> IntArray:
        if self.kernel.surface is None:  # a kernel of positions reaches across
            return super().components()
        return self.operator.components()[1]

    def bounds(self) -> list[tuple[float, float]]:
        size = self.operator.diameter
        length = (float(np.log(LEAST_SCALE * size)), float(np.log(MOST_LENGTH * size)))
        n_lengths = (self.kernel.surface is not None) + (self.kernel.position is not None)
        return [length] * n_lengths + [SHARE_BOUNDS] * (n_lengths == 2)

    def starts(self) -> list[FloatArray]:
        found = []
        for share in RANGES:
            theta = self.theta
            theta[: 2 if theta.size == 3 else 1] = np.log(share * self.operator.diameter)
            found.append(theta)
        return found

    @property
    def mean_variance(self) -> float:
        return 1.0

    def grams(self, sites: IntArray, thetas: Sequence[FloatArray]) -> FloatArray:
        self._check(len(sites))
        points = self._points(sites)
        each = [self.with_theta(theta).kernel for theta in thetas]
        return np.stack([self.covariance.gram(kernel, points) for kernel in each])

    def product(self, out: IntArray, into: IntArray, V: FloatArray) -> FloatArray:
        self._check(V.shape[1])
        a, b = self._points(out), self._points(into)
        return self.covariance.product(self.kernel, a, b, np.asarray(V, dtype=np.float64))

    def cross(self, a: IntArray, b: IntArray) -> FloatArray:
        rows, columns = self._points(a), self._points(b)
        self._check(min(len(rows), len(columns)))
        if len(rows) < len(columns):  # columns are solved for from the side with fewer
            return self.covariance.cross(self.kernel, columns, rows).T
        return self.covariance.cross(self.kernel, rows, columns)

    def diagonal(self, sites: IntArray) -> FloatArray:
        return self.covariance.variance(self.kernel, self._points(sites))

    def sample(self, sites: IntArray, n_samples: int, rng: np.random.Generator) -> FloatArray:
        return self.covariance.sample(self.kernel, self._points(sites), n_samples, rng, 2048)

    def forecast(self, n_sites: int) -> Forecast:
        surface = self.kernel.surface
        solves = 0 if surface is None else surface.alpha or 0
        work = 2.0 * FACTOR_ENTRIES * self.n_sites * (n_sites * solves + FACTOR_ENTRIES)
        return Forecast(work / SPARSE_RATE, 8.0 * n_sites * (3 * self.n_sites + 2 * n_sites))

    def describe(self) -> dict[str, Any]:
        return {
            "domain": {1: "network", 2: "surface"}[self.operator.dimension],
            "n_sites": self.n_sites,
            "kernel": str(self.kernel),
            "method": "sparse factors of kappa^2 M + S",
            "mean_variance": 1.0,
            "normalised_over": {1: "the length of the network", 2: "the area of the surface"}[
                self.operator.dimension
            ],
        }

    def _points(self, sites: IntArray) -> FloatArray:
        return at_corners(self.checked(sites), self.operator.dimension + 1)

    def _check(self, n_columns: int) -> None:
        check_memory(
            8.0 * 4 * self.n_sites * n_columns,
            f"sites: {n_columns} columns of covariances of {self.n_sites} vertices",
            "ask for fewer sites at a time, or for products",
        )


def started(kernel: FieldKernel, operator: LaplaceOperator) -> FieldKernel:
    """A kernel with starting values in place of free parameters."""
    length, surface, position = START_LENGTH * operator.diameter, kernel.surface, kernel.position
    if surface is not None:
        alpha = surface.alpha or ALPHAS[operator.dimension][0]
        surface = WhittleMatern(surface.range_ or length, alpha)
    if position is not None:
        name = position.kernel or POSITION_KERNELS[0]
        columns = position.columns or ()
        position = PositionKernel(name, position.lengthscale or length, columns)
    return FieldKernel(surface, position, kernel.share or 0.5)
