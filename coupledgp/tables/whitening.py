"""Rows whitened by their neighbours: features and targets with independent errors of variance one.

With kriging weights b and variances d of each row given its neighbours N (`conditionals`),

    y~_i = (y_i - b_i'y_N) / sqrt(d_i) ,   psi~_i = (psi_i - Psi_N'b_i) / sqrt(d_i) ,
    log p(y) = log N(y~; 0, I + Psi~ Psi~') - 1/2 sum_i log d_i

under `y = Psi w + f + e`, `w ~ N(0, I)`, where f and e are those of the neighbours' law. Without
neighbours it is the model without f: `b` is empty and `d` the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from coupledgp.errors import NumericalError
from coupledgp.ground.codec import stored
from coupledgp.ground.devices import CPU
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.linalg.low_rank import GRAM_ROUNDINGS, bounded, inverse_sizes
from coupledgp.tables.conditionals import Conditionals, Neighbourhoods
from coupledgp.tables.nearest import MISSING, Places


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Some rows of a table and the rows that they are conditioned on.

    Attributes
    ----------
    used : Tensor (u,)
        Places in the table of all rows that occur here, in rising order.
    own : Tensor (b,)
        Places among `used` of the rows themselves.
    near : Tensor (b, k)
        Places among `used` of their neighbours; any for one that is missing.
    present : Tensor (b, k)
        One for a neighbour, zero for a missing one.
    """

    used: Tensor
    own: Tensor
    near: Tensor
    present: Tensor

    @classmethod
    def of(cls, rows: Places, near: Places, device: torch.device = CPU) -> Neighbours:
        """From places (b,) in a table and those (b, k) of the neighbours, which may be missing.

        `used` stays on the CPU, where the table is; the others are on the device.
        """
        present = near != MISSING
        filled = np.where(present, near, rows[:, None])
        used = np.unique(np.concatenate([rows, filled.ravel()]))
        return cls(
            torch.as_tensor(used),
            torch.as_tensor(np.searchsorted(used, rows), device=device),
            torch.as_tensor(np.searchsorted(used, filled), device=device),
            torch.as_tensor(present.astype(np.float64), device=device),
        )

    def neighbourhoods(self, inputs: Tensor, noise: Tensor) -> Neighbourhoods:
        """Differences of coordinates, from inputs (u, d) and relative noise (u,) of used rows."""
        near = torch.nn.functional.embedding(self.near, inputs) - inputs[self.own][:, None, :]
        return Neighbourhoods(near, self.present, noise[self.own], noise[self.near])

    def whiten(self, values: Tensor, laws: Conditionals) -> Tensor:
        """Whitened values (b, c), from those (u, c) of the used rows."""
        innovations = values[self.own] - self.kriged(values, laws)
        return innovations * laws.variances.rsqrt()[:, None]

    def kriged(self, values: Tensor, laws: Conditionals) -> Tensor:
        """`sum_a b_ia values_a` over the neighbours of each row, (b, c)."""
        if not self.near.shape[1]:
            return values.new_zeros(len(self.own), values.shape[1])
        return torch.nn.functional.embedding_bag(
            self.near, values, per_sample_weights=laws.weights, mode="sum"
        )


@stored
class WhitenedSums(NamedTuple):
    """Sums over whitened rows, from which posterior and evidence follow.

    Attributes
    ----------
    gram : Tensor (M, M)
        `Psi~' Psi~`.
    cross : Tensor (M, c)
        `Psi~' T~` with the columns T of the targets.
    squares : Tensor (c, c)
        `T~' T~`.
    log_variance : Tensor ()
        `sum_i log d_i`.
    n_rows : int
    """

    gram: Tensor
    cross: Tensor
    squares: Tensor
    log_variance: Tensor
    n_rows: int

    @classmethod
    def of(cls, features: Tensor, targets: Tensor, variances: Tensor) -> WhitenedSums:
        """From whitened features (b, M), whitened targets (b, c) and variances (b,)."""
        return cls(
            features.T @ features,
            features.T @ targets,
            targets.T @ targets,
            variances.log().sum(),
            len(features),
        )

    def merge(self, other: WhitenedSums) -> WhitenedSums:
        """Sums over the rows of both."""
        return WhitenedSums(
            self.gram + other.gram,
            self.cross + other.cross,
            self.squares + other.squares,
            self.log_variance + other.log_variance,
            self.n_rows + other.n_rows,
        )


@dataclass(frozen=True, eq=False)
class WhitenedPosterior:
    """Posterior of weights `w ~ N(0, I)` given whitened rows.

    With `A = I + Psi~' Psi~ = L L'` the mean is `A^-1 Psi~' y~` and the covariance `A^-1`.

    Attributes
    ----------
    factor : Tensor (M, M)
        Lower Cholesky factor L.
    mean : Tensor (M, k)
        Posterior mean.
    quadratic : Tensor (k,)
        `y~'(I + Psi~ Psi~')^-1 y~` of each output.
    sums : WhitenedSums
        Where the posterior comes from.
    """

    factor: Tensor
    mean: Tensor
    quadratic: Tensor
    sums: WhitenedSums

    @classmethod
    def of(cls, sums: WhitenedSums) -> WhitenedPosterior:
        """The posterior of normalised targets, whose sums these are.

        Raises
        ------
        NumericalError
            A is not positive definite: the sums are not finite.
        """
        gram = sums.gram
        ridge = gram + torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
        factor, info = torch.linalg.cholesky_ex(ridge)
        if int(info):
            raise NumericalError(
                "features: the posterior of their weights is not finite; check that inputs, "
                "targets and hyperparameters are of moderate size"
            )
        root = torch.linalg.solve_triangular(factor, sums.cross, upper=False)
        mean = torch.linalg.solve_triangular(factor.mT, root, upper=True)
        quadratic = sums.squares.diagonal() - root.square().sum(0)
        return cls(factor, mean, quadratic, sums)

    @cached_property
    def log_evidence(self) -> Tensor:
        """Log evidence of the k outputs, nats, a tensor ()."""
        n_outputs = len(self.quadratic)
        log_det = 2 * self.factor.diagonal().log().sum() + self.sums.log_variance
        constant = self.sums.n_rows * math.log(2 * math.pi)
        return -0.5 * (self.quadratic.sum() + n_outputs * (log_det + constant))

    @property
    def rounding_error(self) -> float:
        """Estimated error of `psi'w` by rounding of the sums, in standard deviations."""
        sums = self.sums
        if not len(self.factor):
            return 0.0
        eps = float(torch.finfo(sums.gram.dtype).eps)
        trace, norm = inverse_sizes(self.factor)
        terms = (sums.gram.trace() * sums.squares.diagonal()).sqrt() * eps
        matrix = GRAM_ROUNDINGS * eps * float(sums.gram.norm())
        moved = float((terms + matrix * self.mean.norm(dim=0)).max())
        return bounded(max(moved * math.sqrt(trace / len(self.factor)), 0.5 * matrix * norm))

    def root(self, features: Tensor) -> Tensor:
        """Rows V (p, M) at features (p, M), with covariance `V V'` of `psi'w`."""
        return torch.linalg.solve_triangular(self.factor, features.T, upper=False).T
