"""Inverse covariances of observations under features, on a lattice and on nodes of a graph."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from coupledgp.gp.inverse_covariance import (
    FactoredInverse,
    InverseCovariance,
    LowRankInverse,
    SolvedInverse,
)
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.inference.nodes.posterior import DensePosterior, GraphPosterior
from coupledgp.inference.weights.posterior import FeatureStream, WeightPosterior
from coupledgp.random import FloatArray, IntArray


class FeatureInverse(LowRankInverse):
    """`C^-1 = R^-1/2 (I - E E') R^-1/2 / s` with `E = R^-1/2 Phi L^-T`, see `LowRankInverse`.

    Parameters
    ----------
    stream
        Features (n, M) of the observations, of unit output scale.
    posterior
        Posterior of their weights, with `A = L L'`.
    relative
        Diagonal (n,) of R.
    targets
        Normalised targets (n, k).
    """

    def __init__(
        self,
        stream: FeatureStream,
        posterior: WeightPosterior,
        relative: FloatArray,
        targets: FloatArray,
    ) -> None:
        self.stream, self.posterior = stream, posterior
        parts = [posterior.predict(features) for _, _, features in stream]
        super().__init__(posterior.noise, relative, targets - torch.cat(parts).cpu().numpy())

    @property
    def rank(self) -> int:
        """Number r of the columns of E, at most the number of observations."""
        return len(self.posterior.factor)

    def rows(self, rows: IntArray) -> Tensor:
        half = self.posterior.whitened(self.stream.subset(rows).dense())
        root = torch.as_tensor(self.relative[rows] ** -0.5, device=half.device)
        return root[:, None] * half

    def prior(self) -> Tensor:
        own = self.posterior
        scaled = math.sqrt(own.noise / own.outputscale) * torch.eye(
            self.rank, dtype=own.factor.dtype, device=own.factor.device
        )
        half = torch.linalg.solve_triangular(own.factor, scaled, upper=False)
        return half @ half.T


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


class NodeInverse(InverseCovariance):
    """Blocks of `C^-1` from variances and covariances of a posterior that has a factor.

    Parameters
    ----------
    posterior
        The posterior, whose weights are `C^-1 y`.
    """

    def __init__(self, posterior: GraphPosterior) -> None:
        self.posterior, self.residuals = posterior, posterior.weights

    def diagonal(self, rows: IntArray) -> FloatArray:
        noise = self.posterior.noise
        kept = 1 - self.posterior.variance(self.posterior.nodes[rows]) / noise
        # An observation that nothing else informs: the difference may round to zero.
        return np.asarray(np.maximum(kept, np.finfo(float).eps) / noise)

    def blocks(self, groups: list[IntArray]) -> Iterator[FloatArray]:
        noise = self.posterior.noise
        for group in groups:
            covariance = self.posterior.covariance(self.posterior.nodes[group])
            yield (np.eye(group.size) - covariance / noise) / noise


def node_inverse(
    posterior: GraphPosterior, errors: FloatArray, most_solves: int
) -> InverseCovariance:
    """The inverse covariance of the observations of a posterior of f.

    Parameters
    ----------
    posterior
        The posterior.
    errors
        Normalised targets less the posterior mean of f, (n, k).
    most_solves
        Largest number of solves, where there is no factor.
    """
    if isinstance(posterior, DensePosterior):
        factor = posterior.factor
        return FactoredInverse(lambda: factor, posterior.weights)
    if posterior.has_all_variances:
        return NodeInverse(posterior)
    advice = (
        "raise exact_variances, ask for some rows only (max_rows of a report), or fit with "
        "solver='dense'"
    )
    return SolvedInverse(posterior.solve, posterior.weights, most_solves, advice)
