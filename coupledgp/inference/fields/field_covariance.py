"""Covariances of a field that is a sum along a surface and over position."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from coupledgp.features import FourierFeatures
from coupledgp.geometry import LaplaceOperator
from coupledgp.geometry.locations import at_corners, location_positions, location_rows
from coupledgp.ground.tensors import torch
from coupledgp.inference.fields.covariance import SurfaceCovariance
from coupledgp.kernels.fields import FieldKernel, PositionKernel
from coupledgp.random import FloatArray

# Places whose features are formed at once.
BLOCK_ROWS = 4096


class FieldCovariance:
    """Covariances of unit amplitude, `share K_surface + (1 - share) K_position`.

    Parameters
    ----------
    operator
        The surface or network.
    """

    def __init__(self, operator: LaplaceOperator) -> None:
        self.operator = operator
        self.surface = SurfaceCovariance(operator)

    def cross(self, kernel: FieldKernel, a: FloatArray, b: FloatArray) -> FloatArray:
        """Covariances (p, n) between locations a (p, ...) and b (n, ...), solved for from b."""
        share = _share(kernel)
        total = np.zeros((len(a), len(b)))
        if kernel.surface is not None:
            total += share * self.surface.cross(kernel.surface, a, b)
        if kernel.position is not None:
            total += (1.0 - share) * self.position(kernel.position, a, b)
        return total

    def gram(self, kernel: FieldKernel, a: FloatArray) -> FloatArray:
        """Covariance (n, n) of locations a (n, ...), symmetric to the bit."""
        share = _share(kernel)
        total = np.zeros((len(a), len(a)))
        if kernel.surface is not None:
            total += share * self.surface.gram(kernel.surface, a)
        if kernel.position is not None:
            total += (1.0 - share) * self.position(kernel.position, a, a)
        return 0.5 * (total + total.T)

    def product(
        self, kernel: FieldKernel, a: FloatArray, b: FloatArray, V: FloatArray
    ) -> FloatArray:
        """Covariances (p, n) between locations a (p, ...) and b (n, ...) times V (n, k)."""
        share = _share(kernel)
        total = np.zeros((len(a), V.shape[1]))
        if kernel.surface is not None:
            total += share * self.surface.product(kernel.surface, a, b, V)
        if kernel.position is not None:
            for start in range(0, len(a), BLOCK_ROWS):
                rows = slice(start, start + BLOCK_ROWS)
                total[rows] += (1.0 - share) * (self.position(kernel.position, a[rows], b) @ V)
        return total

    def variance(self, kernel: FieldKernel, a: FloatArray) -> FloatArray:
        """Variances (p,) at locations a (p, ...)."""
        share = _share(kernel)
        total = np.full(len(a), 0.0 if kernel.position is None else 1.0 - share)
        if kernel.surface is not None:
            total += share * self.surface.variance(kernel.surface, a)
        return total

    def sample(
        self,
        kernel: FieldKernel,
        a: FloatArray,
        n_samples: int,
        rng: np.random.Generator,
        n_frequencies: int,
    ) -> FloatArray:
        """Draws (p, n_samples) at locations a (p, ...); position by random Fourier features."""
        share = _share(kernel)
        total = np.zeros((len(a), n_samples))
        if kernel.surface is not None:
            vertices = self.surface.sample(kernel.surface, n_samples, rng)
            rows = location_rows(a, self.operator.n_vertices)
            total += np.sqrt(share) * (rows @ vertices)
        if kernel.position is not None:
            places = torch.as_tensor(self._scaled(kernel.position, a))
            features = FourierFeatures(
                places.shape[1], n_frequencies, spectrum=kernel.position.spectrum, generator=rng
            )
            weights = torch.as_tensor(rng.standard_normal((features.n_features, n_samples)))
            for start in range(0, len(a), BLOCK_ROWS):
                block = features(places[start : start + BLOCK_ROWS]) @ weights
                total[start : start + BLOCK_ROWS] += np.sqrt(1.0 - share) * block.numpy()
        return total

    def position(self, kernel: PositionKernel, a: FloatArray, b: FloatArray) -> FloatArray:
        """Covariances (p, n) of the part of position."""
        distances = cdist(self._scaled(kernel, a), self._scaled(kernel, b))
        return np.asarray(kernel.spectrum.kernel(distances))

    def _scaled(self, kernel: PositionKernel, points: FloatArray) -> FloatArray:
        """`places` of locations (p, ...) in units of the lengthscale."""
        assert kernel.lengthscale is not None
        return self.places(points, kernel) / kernel.lengthscale

    def places(self, points: FloatArray, kernel: PositionKernel) -> FloatArray:
        """Positions, then columns as lengths (p, d + k), of locations (p, ...).

        Columns follow where the kernel gives any of them a length. Positions are missing where the
        operator has none.
        """
        parts, operator = [], self.operator
        if operator.positions is not None:
            parts.append(location_positions(points, operator.positions))
        if kernel.columns and any(kernel.columns):
            assert operator.place_columns is not None
            lengths = np.array(kernel.columns)[operator.place_columns.owner]
            parts.append((operator.column_values(points) * lengths)[:, lengths > 0])
        return np.hstack(parts) if parts else np.zeros((len(points), 1))

    def center(self, kernel: PositionKernel) -> FloatArray:
        """Centre (d + k,) of the bounding box of `places`."""
        vertices = at_corners(np.arange(self.operator.n_vertices), self.operator.elements.shape[1])
        places = self.places(vertices, kernel)
        return np.asarray((places.min(axis=0) + places.max(axis=0)) / 2)


def _share(kernel: FieldKernel) -> float:
    assert kernel.share is not None
    return kernel.share
