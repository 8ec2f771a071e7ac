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
from coupledgp.features.fourier import FourierFeatures
from coupledgp.features.hybrid.base import Side, as_rows
from coupledgp.features.laplace import LaplaceFeatures
from coupledgp.random import Seed
from coupledgp.validation import check_choice, check_positive, check_positive_int

COEFFICIENT_MAPS = {"fourier": FourierFeatures, "laplace": LaplaceFeatures}


class Coefficient(torch.nn.Module, ABC):
    """A weight `lam(x, y)` of one estimator, estimated by `constant + r(x) . s(y)` without bias.

    Attributes
    ----------
    dim
        Input dimension d.
    constant
        What does not depend on the inputs.
    """

    dim: int
    constant: float

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Length of `r(x)`."""

    @property
    @abstractmethod
    def cost(self) -> int:
        """Multiplications that `r(x)` takes."""

    @abstractmethod
    def features(self, inputs: Tensor, side: Side) -> Tensor:
        """`r` (side "query") or `s` (side "key") of inputs (..., n, d), shape (..., n, L)."""

    @abstractmethod
    def exact(self, X: Tensor, Y: Tensor) -> Tensor:
        """`lam` between the rows of X and Y, shape (..., n, p)."""


class AngularCoefficient(Coefficient):
    """`lam = angle(x, y) / pi`, from the signs of n random projections.

    `1/2 - (1/2n) sum_j sgn(tau_j . x) sgn(tau_j . y)`; with independent projections
    `E[lam^2] = t (t - t/n + 1/n)`, `t = angle / pi`. Exact at angles 0 and pi.

    Parameters
    ----------
    dim
        Input dimension d.
    n_projections
        Number of projections n.
    coupling
        Joint law of the projections; only their directions matter.
    generator
        Seed or generator.
    dtype, device
        Of the features.
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
        """Multiplications: d n."""
        return self.projections.numel()

    def features(self, inputs: Tensor, side: Side) -> Tensor:
        # A sign has no gradient; -1 at zero keeps the features of every vector nonzero.
        signs = torch.where(inputs @ self.projections.mT > 0, 1.0, -1.0).to(inputs.dtype)
        return signs * ((1 if side == "query" else -1) / math.sqrt(2 * self.n_features))

    def exact(self, X: Tensor, Y: Tensor) -> Tensor:
        unit = [torch.nn.functional.normalize(rows, dim=-1) for rows in (X, Y)]
        # From chords, not from the arc cosine, which loses half of the digits near 0 and pi.
        chord = (unit[0][..., :, None, :] - unit[1][..., None, :, :]).norm(dim=-1)
        cochord = (unit[0][..., :, None, :] + unit[1][..., None, :, :]).norm(dim=-1)
        return 2 * torch.atan2(chord, cochord) / math.pi


class GaussianCoefficient(Coefficient):
    """`lam = exp(-|x + M y|^2 / (2 c^2))`, from random features of the Gaussian kernel.

    It is near one where `x` is near `-M y` and near zero far away.

    Parameters
    ----------
    dim
        Input dimension d.
    n_frequencies
        Number of frequencies n of its features.
    matrix
        M: a number (times the identity), its diagonal (d,) or a matrix (d, d), real.
    width
        c.
    features
        `"fourier"` (2n features, exact at `x = -M y`) or `"laplace"` (n positive features).
    coupling
        Joint law of the frequencies.
    generator
        Seed or generator.
    dtype, device
        Of the features.
    """

    matrix: Tensor
    constant = 0.0

    def __init__(
        self,
        dim: int,
        n_frequencies: int,
        matrix: ArrayLike = -1.0,
        width: float = 1.0,
        features: str = "fourier",
        coupling: CouplingLike = "orthogonal+pnc",
        generator: Seed = None,
        *,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.width = check_positive(width, "width")
        check_choice(features, COEFFICIENT_MAPS, "features")
        self.map = COEFFICIENT_MAPS[features](
            dim, n_frequencies, coupling, generator=generator, dtype=dtype, device=device
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
        """Multiplications: d n, the features, and d^2 for M."""
        return self.dim * self.map.n_frequencies + self.n_features + self.dim**2

    def features(self, inputs: Tensor, side: Side) -> Tensor:
        moved = inputs if side == "query" else -inputs @ self.matrix.mT
        return self.map(moved / self.width)

    def exact(self, X: Tensor, Y: Tensor) -> Tensor:
        moved = as_rows(Y, self.dim, self.matrix, "Y") @ self.matrix.mT
        sums = (X[..., :, None, :] + moved[..., None, :, :]) / self.width
        return (-sums.square().sum(-1) / 2).exp()
