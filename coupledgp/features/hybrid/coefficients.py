"""Coefficients of hybrid features, each linearised by features of its own (MATH 5)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from coupledgp.couplings import CouplingLike, parse_coupling
from coupledgp.errors import InvalidInputError
from coupledgp.features.hybrid.base import Side, as_rows
from coupledgp.features.registry import FeaturesLike, make_features
from coupledgp.ground.validation import check_positive, check_positive_int
from coupledgp.random import Seed


class Coefficient(torch.nn.Module, ABC):
    """A weight `lam(x, y)` of one estimator, estimated by `constant + r(x) . s(y)` without bias.

    Attributes
    ----------
    dim
        Input dimension d.
    constant
        Part of the estimate that does not depend on the inputs.
    """

    dim: int
    constant: float

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Length L of `r(x)`."""

    @property
    @abstractmethod
    def cost(self) -> int:
        """Multiplications for `r(x)`."""

    @abstractmethod
    def features(self, inputs: Tensor, side: Side) -> Tensor:
        """Features (..., n, L) of inputs (..., n, d): `r` for the side "query", `s` for "key"."""

    @abstractmethod
    def exact(self, X: Tensor, Y: Tensor) -> Tensor:
        """Weights `lam` (..., n, p) between the rows of X (..., n, d) and of Y (..., p, d)."""


class AngularCoefficient(Coefficient):
    """The weight `lam = angle(x, y) / pi`, from the signs of n random projections.

    The estimate is `1/2 - (1/2n) sum_j sgn(tau_j . x) sgn(tau_j . y)`, which is exact at angles 0
    and pi. With independent projections its second moment is `t (t - t/n + 1/n)`, `t = angle / pi`.

    Parameters
    ----------
    dim
        Input dimension d.
    n_projections
        Number of projections n.
    coupling
        Joint law of the projections; only their directions matter.
    generator
        Seed or generator for the projections.
    dtype, device
        Precision and device of the features.
    """

    projections: Tensor
    constant = 0.5

    def __init__(
        self,
        dim: int,
        n_projections: int,
        coupling: CouplingLike = "iid",
        generator: Seed = None,
        *,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.dim = check_positive_int(dim, "dim")
        n = check_positive_int(n_projections, "n_projections")
        drawn = parse_coupling(coupling).sample(n, self.dim, "gaussian", generator)
        self.register_buffer("projections", torch.as_tensor(drawn).to(dtype=dtype, device=device))

    @property
    def n_features(self) -> int:
        """Number of projections n."""
        return len(self.projections)

    @property
    def cost(self) -> int:
        """Multiplications for one vector: d n."""
        return self.projections.numel()

    def features(self, inputs: Tensor, side: Side) -> Tensor:
        # A sign has no gradient. A projection of zero counts as -1, so that no feature is zero.
        signs = torch.where(inputs @ self.projections.mT > 0, 1.0, -1.0).to(inputs.dtype)
        return signs * ((1 if side == "query" else -1) / math.sqrt(2 * self.n_features))

    def exact(self, X: Tensor, Y: Tensor) -> Tensor:
        unit = [torch.nn.functional.normalize(rows, dim=-1) for rows in (X, Y)]
        # The arc cosine would lose half of the digits near 0 and pi; chords lose none.
        chord = (unit[0][..., :, None, :] - unit[1][..., None, :, :]).norm(dim=-1)
        cochord = (unit[0][..., :, None, :] + unit[1][..., None, :, :]).norm(dim=-1)
        return 2 * torch.atan2(chord, cochord) / math.pi


class GaussianCoefficient(Coefficient):
    """The weight `lam = exp(-|x + M y|^2 / (2 c^2))`, from random features of the Gaussian kernel.

    It is near one where `x` is near `-M y`, and falls to zero with their distance.

    Parameters
    ----------
    dim
        Input dimension d.
    n_frequencies
        Number of frequencies n of its features.
    matrix
        Real matrix M: a number (times the identity), its diagonal (d,) or all of it (d, d).
    width
        Width c, in the units of the inputs.
    features
        `"fourier"` (2n features, exact at `x = -M y`), `"laplace"` (n positive features) or other
        ones, as in `parse_features`.
    coupling
        Joint law of the frequencies.
    generator
        Seed or generator for the frequencies.
    dtype, device
        Precision and device of the features.
    """

    matrix: Tensor
    constant = 0.0

    def __init__(
        self,
        dim: int,
        n_frequencies: int,
        matrix: ArrayLike = -1.0,
        width: float = 1.0,
        features: FeaturesLike = "fourier",
        coupling: CouplingLike = "orthogonal+pnc",
        generator: Seed = None,
        *,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.width = check_positive(width, "width")
        self.map = make_features(
            features, dim, n_frequencies, coupling, generator=generator, dtype=dtype, device=device
        )
        self.dim = self.map.dim
        array = np.asarray(matrix, dtype=np.float64)
        if array.ndim < 2:
            array = np.diag(np.broadcast_to(array, dim))
        if array.shape != (dim, dim) or not np.isfinite(array).all():
            raise InvalidInputError(
                f"matrix: expected a number, shape ({dim},) or ({dim}, {dim}), finite and real; "
                f"got shape {np.shape(matrix)}"
            )
        self.register_buffer("matrix", torch.as_tensor(array).to(dtype=dtype, device=device))

    @property
    def n_features(self) -> int:
        """Number of features of the Gaussian kernel's map."""
        return self.map.n_features

    @property
    def cost(self) -> int:
        """Multiplications: d n for the projections, the features, and d^2 for M."""
        return self.dim * self.map.n_frequencies + self.n_features + self.dim**2

    def features(self, inputs: Tensor, side: Side) -> Tensor:
        moved = inputs if side == "query" else -inputs @ self.matrix.mT
        return self.map(moved / self.width)

    def exact(self, X: Tensor, Y: Tensor) -> Tensor:
        moved = as_rows(Y, self.dim, self.matrix, "Y") @ self.matrix.mT
        sums = (X[..., :, None, :] + moved[..., None, :, :]) / self.width
        return (-sums.square().sum(-1) / 2).exp()
