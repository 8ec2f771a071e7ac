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
from coupledgp.features.base import FeatureMap, as_rows
from coupledgp.features.hybrid.base import Side, SoftmaxFeatures
from coupledgp.features.registry import FeaturesLike, make_features
from coupledgp.ground.validation import check_positive, check_positive_int
from coupledgp.random import FloatArray, Seed


class Coefficient(torch.nn.Module, ABC):
    """A weight `lam(x, y)` of one estimator, estimated by `constant + r(x) . s(y)` without bias.

    Attributes
    ----------
    dim
        Input dimension d.
    constant
        Part of the estimate that does not depend on the inputs.

    Examples
    --------
    >>> import torch
    >>> from coupledgp.features import Coefficient, ComplexExponentialFeatures, HybridFeatures
    >>> class Half(Coefficient):  # for the mean of two estimators
    ...     dim, constant, n_features, cost = 2, 0.5, 0, 0
    ...     def features(self, inputs, side):
    ...         return inputs[..., :0]
    ...     def exact(self, X, Y):
    ...         return torch.full((len(X), len(Y)), 0.5)
    >>> positive, waves = (ComplexExponentialFeatures(2, 8, a, generator=0) for a in (1, 1j))
    >>> x = torch.tensor([[0.3, -0.2]]).double()
    >>> mean = (positive.estimate(x, x) + waves.estimate(x, x)) / 2
    >>> bool(torch.allclose(HybridFeatures([positive, waves], [Half()]).estimate(x, x), mean))
    True
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

    Examples
    --------
    >>> import torch
    >>> from coupledgp.features import AngularCoefficient
    >>> weight = AngularCoefficient(2, n_projections=16, generator=0)
    >>> x, y = torch.tensor([[1.0, 0.0]]).double(), torch.tensor([[0.0, 2.0], [-3.0, 0.0]]).double()
    >>> weight.exact(x, y).round(decimals=6).tolist()  # of angles pi / 2 and pi
    [[0.5, 1.0]]
    >>> estimate = weight.constant + weight.features(x, "query") @ weight.features(y, "key").T
    >>> round(estimate[0, 1].item(), 9)  # exact at pi
    1.0
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
        dtype: torch.dtype | None = None,
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


class FeatureModule(torch.nn.Module):
    """A feature map as a module of torch, whose buffers are the tensors of the map.

    Parameters
    ----------
    feature_map
        The map.
    """

    def __init__(self, feature_map: FeatureMap) -> None:
        super().__init__()
        self.feature_map, state = feature_map, feature_map.state_dict()
        self._buffer_of = {name: name.replace(".", "_") for name in state}
        for name, tensor in state.items():
            self.register_buffer(self._buffer_of[name], tensor)

    def forward(self, X: Tensor) -> Tensor:
        """Features (..., n, M) of inputs (..., n, d)."""
        tensors = {name: getattr(self, own) for name, own in self._buffer_of.items()}
        return self.feature_map.with_tensors(tensors)(X)


class GaussianCoefficient(Coefficient):
    """The weight `g = exp(-|N x + M y|^2 / (2 c^2))`, from random features of the Gaussian kernel.

    It is near one where `N x` is near `-M y`, and falls to zero with their distance. With a
    `length` r it is `lam = 1 - (1 - g) / rho`, `rho = 1 - exp(-2 r^2 / c^2)`, which for vectors of
    length r is one where `x = y` and zero where `x = -y` (M = -I, N = I; "Hybrid random features",
    appendix F).

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
        `"fourier"` (2n features, exact at `N x = -M y`), `"laplace"` (n positive features) or other
        ones, as in `parse_features`. `SoftmaxFeatures` of the Gaussian kernel, such as a hybrid
        estimator of its own, are taken as they are; `n_frequencies`, coupling and seed are then not
        used.
    coupling
        Joint law of the frequencies.
    generator
        Seed or generator for the frequencies.
    query_matrix
        Real matrix N, as `matrix`.
    length
        Length r of all inputs, for the normalised weight; None: the weight is g.
    dtype, device
        Precision and device of the features.

    Examples
    --------
    >>> import torch
    >>> from coupledgp.features import GaussianCoefficient
    >>> weight = GaussianCoefficient(2, n_frequencies=16, width=0.5, generator=0)
    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).double()
    >>> weight.exact(x, x).round(decimals=3).tolist()  # one where x = y, exp(-|x - y|^2 / (2 c^2))
    [[1.0, 0.018], [0.018, 1.0]]
    >>> estimate = weight.constant + weight.features(x, "query") @ weight.features(x, "key").T
    >>> estimate.diagonal().round(decimals=9).tolist()
    [1.0, 1.0]
    """

    matrix: Tensor
    query_matrix: Tensor | None

    def __init__(
        self,
        dim: int,
        n_frequencies: int,
        matrix: ArrayLike = -1.0,
        width: float = 1.0,
        features: FeaturesLike | SoftmaxFeatures = "fourier",
        coupling: CouplingLike = "orthogonal+pnc",
        generator: Seed = None,
        *,
        query_matrix: ArrayLike = 1.0,
        length: float | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.width = check_positive(width, "width")
        self.map: FeatureModule | SoftmaxFeatures
        if isinstance(features, SoftmaxFeatures):
            if features.kernel != "gaussian" or features.dim != dim:
                raise InvalidInputError(
                    f"features: expected those of the Gaussian kernel in {dim} dimensions, got "
                    f"those of the {features.kernel} kernel in {features.dim}"
                )
            self.map = features
        else:
            self.map = FeatureModule(make_features(
                features, dim, n_frequencies, coupling, generator=generator,
                dtype=dtype, device=device,
            ))  # fmt: skip
        self.dim = check_positive_int(dim, "dim")
        self.share = 1.0
        if length is not None:
            self.share = -1 / math.expm1(-2 * (check_positive(length, "length") / self.width) ** 2)
        self.constant = 1.0 - self.share
        own = check_real_matrix(query_matrix, dim, "query_matrix")
        arrays = {"matrix": check_real_matrix(matrix, dim, "matrix"), "query_matrix": own}
        for name, array in arrays.items():
            self.register_buffer(name, torch.as_tensor(array).to(dtype=dtype, device=device))
        if np.array_equal(own, np.eye(dim)):
            self.query_matrix = None

    @property
    def n_features(self) -> int:
        """Number of features of the Gaussian kernel's map."""
        own = self.map
        return own.feature_map.n_features if isinstance(own, FeatureModule) else own.n_features

    @property
    def cost(self) -> int:
        """Multiplications: d n for the projections, the features, and d^2 for M."""
        if isinstance(self.map, SoftmaxFeatures):
            return self.map.cost + self.dim**2
        return self.dim * self.map.feature_map.n_frequencies + self.n_features + self.dim**2

    def features(self, inputs: Tensor, side: Side) -> Tensor:
        is_query = side == "query"
        matrix = self.query_matrix if is_query else -self.matrix
        moved = (inputs if matrix is None else inputs @ matrix.mT) / self.width
        if isinstance(self.map, FeatureModule):
            made = self.map(moved)
        else:
            made = (self.map.queries if is_query else self.map.keys)(moved)
        return self.share * made if is_query else made

    def exact(self, X: Tensor, Y: Tensor) -> Tensor:
        moved = as_rows(Y, self.dim, self.matrix, "Y") @ self.matrix.mT
        own = as_rows(X, self.dim, self.matrix, "X")
        if self.query_matrix is not None:
            own = own @ self.query_matrix.mT
        sums = (own[..., :, None, :] + moved[..., None, :, :]) / self.width
        return self.constant + self.share * (-sums.square().sum(-1) / 2).exp()


def check_real_matrix(matrix: ArrayLike, dim: int, name: str) -> FloatArray:
    """Return a number, a diagonal (dim,) or a matrix (dim, dim) as a matrix, finite and real."""
    array = np.asarray(matrix, dtype=np.float64)
    if array.ndim == 0 or array.shape == (dim,):
        array = np.diag(np.broadcast_to(array, dim))
    if array.shape != (dim, dim) or not np.isfinite(array).all():
        raise InvalidInputError(
            f"{name}: expected a number, shape ({dim},) or ({dim}, {dim}), finite and real; "
            f"got shape {np.shape(matrix)}"
        )
    return array
