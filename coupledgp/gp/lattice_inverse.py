"""The inverse covariance of observations of a process on a lattice, for rows that are left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from coupledgp.gp.inverse_covariance import InverseCovariance
from coupledgp.random import FloatArray, IntArray


class LatticeInverse(InverseCovariance):
    """`C^-1 = R^-1 / s - R^-1 F D A^-1 D F' R^-1 / s` of the observations.

    Its diagonal follows from the variances of f at the rows; blocks take a solve for each row.
    """

    # Most rows of all blocks together.
    most_solves: ClassVar[int] = 4000

    def __init__(self, process: Any) -> None:
        self.process, data = process, process.data
        self.noise = process.lattice_prior.noise
        count = len(data)
        relative = data.relative_noise
        self.relative = np.ones(count) if relative is None else relative
        mean, _ = process.latent_law(data.points, "mean")
        errors = process.units.normalized(data.targets) - mean
        self.residuals = errors / (self.noise * self.relative[:, None])
        self.most_rows = min(count, 1000)

    def diagonal(self, rows: IntArray) -> FloatArray:
        own = self.process
        placed = own._placed(own.data.points[rows])
        variance = own._variance(*placed) - own.lattice_prior.left_out_variance
        relative = self.relative[rows]
        left = 1 - variance / (self.noise * relative)
        # An observation that nothing else informs: one minus its leverage may round to zero.
        kept = np.maximum(left, 1e-3 if own.posterior.relative_error else np.finfo(float).eps)
        return np.asarray(kept / (self.noise * relative))

    def serves(self, groups: list[IntArray]) -> bool:
        larger = sum(group.size for group in groups if group.size > 1)
        return self.process.system.is_dense or larger <= self.most_solves

    def blocks(self, groups: list[IntArray]) -> Iterator[FloatArray]:
        own = self.process
        for group in groups:
            loaded = own._loaded_features(*own._placed(own.data.points[group]))
            hat = loaded.T @ own._solved(loaded)
            relative = self.relative[group]
            block = -hat / np.multiply.outer(relative, relative)
            block[np.diag_indices_from(block)] += 1 / relative
            yield block / self.noise
