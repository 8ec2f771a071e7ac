"""The inverse covariance of observations under a kernel of features, from their weights."""

from __future__ import annotations

import math

from coupledgp.gp.inverse_covariance import LowRankInverse
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.inference.weights.posterior import WeightPosterior
from coupledgp.inference.weights.stream import FeatureStream
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
