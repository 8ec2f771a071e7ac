"""Posteriors of weights by an orthogonal factor of the rows, without their Gram matrix.

`[Phi, y; sqrt(lam) I, 0] = Q [R, z; 0, rho]`, so that `A = R'R`, `w = R^-1 z` and
`rho' rho = y'y - y' Phi A^-1 Phi' y`, without a square of the condition of `Phi` (Bjorck, Numerical
Methods for Least Squares Problems, 1996, section 2.4). `Q` is never formed: chunk by chunk, the
triangle so far stands above the rows of the next.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from coupledgp.ground.tensors import Tensor, torch
from coupledgp.inference.evidence.problem import log_evidence


@dataclass(frozen=True)
class SquareRoot:
    """The factor of the rows.

    Attributes
    ----------
    factor : Tensor (M, M)
        `R'`, lower triangular with a diagonal above zero.
    projected : Tensor (M, k)
        z.
    quadratic : Tensor (k,)
        `rho' rho` of each output: `|y - Phi w|^2 + lam |w|^2`.
    square : float
        Sum of the squares of all features.
    lam : float
        The ridge.
    """

    factor: Tensor
    projected: Tensor
    quadratic: Tensor
    square: float
    lam: float

    @classmethod
    def of(cls, chunks: Iterable[tuple[Tensor, Tensor]], lam: float) -> SquareRoot:
        """Factor of chunks of features (b, M) and normalised targets (b, k); at least one."""
        top: Tensor | None = None
        square, size = 0.0, 0
        for features, targets in chunks:
            rows = torch.cat([features.to(targets.dtype), targets], dim=1)
            if top is None:
                size = features.shape[1]
                top = rows.new_zeros(size, rows.shape[1])
                top.diagonal().fill_(math.sqrt(lam))
            square += float(rows[:, :size].square().sum())
            top = torch.linalg.qr(torch.cat([top, rows]), mode="r").R
        assert top is not None
        signs = torch.where(top[:size, :size].diagonal() < 0, -1.0, 1.0).to(top)[:, None]
        upper = signs * top[:size]
        quadratic = top[size:, size:].square().sum(0)
        return cls(upper[:, :size].T.contiguous(), upper[:, size:], quadratic, square, lam)

    def weights(self) -> Tensor:
        """Posterior mean w (M, k) of the weights."""
        return torch.linalg.solve_triangular(self.factor.T, self.projected, upper=True)

    def log_evidence(self, outputscale: float, n_rows: float, log_noise: float = 0.0) -> float:
        """Log evidence in nats of the normalised targets, as `solve_ridge` returns it."""
        quad = float(self.quadratic.sum()) / self.lam
        logdet = 2 * float(self.factor.diagonal().log().sum()) + log_noise
        logdet += (n_rows - len(self.factor)) * math.log(self.lam)
        return log_evidence(quad, logdet, outputscale, n_rows, self.projected.shape[1])
