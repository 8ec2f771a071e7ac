"""Random Laplace features, positive features of the Gaussian kernel (MATH section 2)."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from coupledgp.couplings import CouplingLike
from coupledgp.errors import InvalidInputError
from coupledgp.features.base import FeatureMap
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.random import Seed
from coupledgp.spectra import SpectrumLike


class LaplaceFeatures(FeatureMap):
    """Positive features of the Gaussian kernel.

    `phi(x) = m^{-1/2} [exp(w_i . x - |x|^2)]_i`, `n_features = m`. Unbiased, but not a function of
    `x - y`: the variance grows with `|x + y|`, so centre the inputs. The exponent
    `w . x - |x|^2 <= |w|^2 / 4` is formed before the exponential is taken, which therefore never
    meets a large positive number and underflows to zero far from the origin. Where the frequencies
    carry weights, `sqrt(a_i)` stands in place of `m^{-1/2}`. Parameters are those
    of `FeatureMap`; a spectrum other than the Gaussian is refused, since the other laws have no
    moment generating function.

    Examples
    --------
    >>> import torch
    >>> from coupledgp.features import LaplaceFeatures
    >>> x = torch.tensor([[0.3, -0.2]]).double()
    >>> features = LaplaceFeatures(2, 8, generator=0)
    >>> phi = features(torch.cat([x, -x]))
    >>> bool((phi > 0).all())
    True
    >>> bool(torch.allclose(phi[0] @ phi[1], (-2 * x @ x.T).exp()))  # exact where y = -x
    True
    """

    gaussian_only = True
    lengthscale_by_rule = True
    product_sign: ClassVar[int | None] = 1
    couplings_to_try = ("iid", "orthogonal+antithetic", "orthogonal+stratified+antithetic")

    def __init__(
        self,
        dim: int,
        n_frequencies: int,
        coupling: CouplingLike = "orthogonal+pnc+antithetic",
        spectrum: SpectrumLike = "gaussian",
        generator: Seed = None,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(
            dim, n_frequencies, coupling, spectrum, generator, dtype=dtype, device=device
        )
        if self.coupling.even_only:
            raise InvalidInputError(
                "coupling: Laplace features are no even functions of the frequencies, got "
                f"{str(self.coupling)!r}; append '+antithetic'"
            )

    @property
    def n_features(self) -> int:
        """Number of features, m."""
        return self.n_frequencies

    def log_features(self, X: Tensor | np.ndarray) -> Tensor:
        """Logarithms (..., n, m) of the features of X (..., n, d), which do not underflow."""
        return self._log_features(self._rows(X))

    def _log_features(self, inputs: Tensor) -> Tensor:
        exponent = self.project(inputs) - inputs.square().sum(-1, keepdim=True)
        if self.weights is None:
            return exponent - 0.5 * math.log(self.n_frequencies)
        return exponent + 0.5 * self.weights.log()

    def _features(self, inputs: Tensor) -> Tensor:
        return self._log_features(inputs).exp()

    def pullback(self, inputs: Tensor, features: Tensor, upstream: Tensor) -> Tensor:
        """Gradient (n, d) in the inputs, in closed form: `phi' = phi (w - 2 x)`."""
        by_exponent = upstream.mul_(features)
        return self.project_back(by_exponent) - 2 * inputs * by_exponent.sum(1, keepdim=True)
