"""Features of the softmax kernel with a map for queries and another one for keys (MATH 5)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np
import torch
from torch import Tensor

from coupledgp.errors import InvalidInputError
from coupledgp.features.base import NOT_A_COVARIANCE, as_rows
from coupledgp.ground.validation import check_choice, check_positive_int
from coupledgp.ground.visible import warn
from coupledgp.random import Seed, as_rng

Side: TypeAlias = Literal["query", "key"]
KERNELS = ("softmax", "gaussian")


class SoftmaxFeatures(torch.nn.Module, ABC):
    """Features `q(x)`, `k(y)` whose dot product estimates the softmax kernel without bias.

    `q(x) . k(y)` estimates `exp(x . y)`, or, if `kernel` is "gaussian", the Gaussian kernel
    `exp(-|x - y|^2 / 2) = exp(-|x|^2 / 2) exp(x . y) exp(-|y|^2 / 2)`, which does not overflow for
    long vectors. All features are real numbers. Calling the module raises: a single map, and so a
    positive semidefinite Gram matrix, does not exist (`NOT_A_COVARIANCE`).

    Parameters
    ----------
    dim
        Input dimension d.
    kernel
        `"softmax"` or `"gaussian"`.

    Examples
    --------
    >>> import torch
    >>> from coupledgp.couplings import parse_coupling
    >>> from coupledgp.features import SoftmaxFeatures
    >>> class Exponentials(SoftmaxFeatures):  # m^-1/2 exp(w . x - |x|^2 / 2)
    ...     n_features, cost = 16, 48
    ...     _like = torch.tensor(parse_coupling("orthogonal").sample(16, 2, generator=0))
    ...     def _features(self, inputs, side):
    ...         return (inputs @ self._like.T - (inputs**2).sum(-1, keepdim=True) / 2).exp() / 4
    >>> features, x = Exponentials(2), torch.tensor([[0.3, -0.2], [0.1, 0.5]]).double()
    >>> error = features.estimate(x, x) - (x @ x.T).exp()
    >>> bool(error.abs().max() < 0.5)
    True
    >>> features.probabilities(x, x).sum(-1).round(decimals=9).tolist()
    [1.0, 1.0]
    """

    def __init__(self, dim: int, kernel: str = "softmax") -> None:
        super().__init__()
        self.dim = check_positive_int(dim, "dim")
        self.kernel = check_choice(kernel, KERNELS, "kernel")

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Length M of a feature vector."""

    @property
    @abstractmethod
    def cost(self) -> int:
        """Multiplications for the features of one vector; an exponential counts as one."""

    @abstractmethod
    def _features(self, inputs: Tensor, side: Side) -> Tensor:
        """Features (..., n, M) of checked inputs (..., n, d)."""

    @property
    @abstractmethod
    def _like(self) -> Tensor:
        """A tensor of the dtype and on the device of the features."""

    def queries(self, X: Tensor | np.ndarray) -> Tensor:
        """Query features (..., n, M) of the rows of `X` (..., n, d).

        A RuntimeWarning is given where they are beyond the range of numbers, inf or NaN: they grow
        with the exponential of `|x|^2`.
        """
        return self._warned(self._features(as_rows(X, self.dim, self._like, "X"), "query"), "X")

    def keys(self, Y: Tensor | np.ndarray) -> Tensor:
        """Key features (..., n, M) of the rows of `Y` (..., n, d); warnings as for `queries`."""
        return self._warned(self._features(as_rows(Y, self.dim, self._like, "Y"), "key"), "Y")

    def _warned(self, features: Tensor, name: str) -> Tensor:
        if not bool(features.isfinite().all()):
            warn(
                f"{name}: features beyond the range of numbers; they grow with the exponential of "
                "the squared norm of a row, so that rows need smaller norms",
                RuntimeWarning,
            )
        return features

    def estimate(self, X: Tensor | np.ndarray, Y: Tensor | np.ndarray) -> Tensor:
        """Estimates (..., n, p) of the kernel between rows of X (..., n, d) and Y (..., p, d)."""
        return self.queries(X) @ self.keys(Y).mT

    def probabilities(self, X: Tensor | np.ndarray, Y: Tensor | np.ndarray) -> Tensor:
        """Estimated softmax distribution of each query over the keys, shape (n, p).

        Row i estimates `exp(x_i . y_j) / sum_l exp(x_i . y_l)` by estimates of the kernel, where
        negative ones are replaced by zero, divided by their sum. A row without a positive estimate,
        or with a sum that is not finite, becomes uniform. Estimates of the Gaussian kernel are
        first multiplied by `exp(|y_j|^2 / 2)`.

        Parameters
        ----------
        X, Y
            Queries (n, d) and keys (p, d).
        """
        keys = as_rows(Y, self.dim, self._like, "Y")
        estimates = self.estimate(X, keys).clamp_min(0.0)
        if self.kernel == "gaussian":
            log_scale = keys.square().sum(-1) / 2
            estimates = estimates * (log_scale - log_scale.amax()).exp()
        total = estimates.sum(-1, keepdim=True)
        usable = (total > 0) & total.isfinite()
        return torch.where(usable, estimates / total, 1.0 / keys.shape[-2])

    def sample(
        self,
        X: Tensor | np.ndarray,
        Y: Tensor | np.ndarray,
        n_samples: int,
        generator: Seed = None,
    ) -> tuple[Tensor, Tensor]:
        """Draw keys for each query from the estimated distribution (softmax sampling).

        Parameters
        ----------
        X, Y
            Queries (n, d), and keys or classes (p, d).
        n_samples
            Number of draws, with replacement, for each query.
        generator
            Seed or generator for the draws.

        Returns
        -------
        tuple of Tensor
            Indices of keys (n, n_samples), and the probabilities (n, n_samples) with which they
            were drawn, for the correction of a sampled-softmax loss.
        """
        check_positive_int(n_samples, "n_samples")
        probabilities = self.probabilities(X, Y)
        cumulative = probabilities.double().cumsum(-1)
        u = as_rng(generator).random((*cumulative.shape[:-1], n_samples))
        points = torch.as_tensor(u, device=cumulative.device) * cumulative[..., -1:]
        drawn = torch.searchsorted(cumulative, points, right=True)
        indices = drawn.clamp_max(cumulative.shape[-1] - 1)
        return indices, probabilities.gather(-1, indices)

    def forward(self, *_: Any) -> NoReturn:
        """Refuse: there is no single map from inputs to features."""
        raise InvalidInputError(f"features: {type(self).__name__}: {NOT_A_COVARIANCE}")

    def extra_repr(self) -> str:
        """Text between the parentheses of the repr."""
        return f"dim={self.dim}, kernel={self.kernel!r}, n_features={self.n_features}"
