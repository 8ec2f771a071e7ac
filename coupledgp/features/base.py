"""The base class of feature maps of Euclidean inputs."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, Self

import numpy as np

from coupledgp.couplings import CouplingLike, FrequencyCoupling, parse_coupling
from coupledgp.errors import InvalidInputError
from coupledgp.features.hadamard import HadamardTransform
from coupledgp.ground.tensors import Tensor, TensorHolder, torch
from coupledgp.ground.validation import check_positive_int, wrong
from coupledgp.random import Seed
from coupledgp.spectra import GaussianSpectrum, Spectrum, SpectrumLike, parse_spectrum

NOT_A_COVARIANCE = (
    "the Gram matrix of query and key features is symmetric and positive semidefinite in "
    "expectation only, not draw by draw, so it is no covariance of a Gaussian process; use "
    "'fourier' or 'laplace' features there, and these for softmax sampling or attention"
)


class FeatureMap(TensorHolder, ABC):
    """Features whose dot product estimates a kernel of unit lengthscale and unit variance.

    `phi(x) . phi(y)` is unbiased for `k(x, y)`. Scale the inputs by the lengthscales before, and
    the features by the root of the outputscale after.

    Parameters
    ----------
    dim
        Input dimension d.
    n_frequencies
        Number of frequencies m.
    coupling
        Joint law of the frequencies, an object or its text form.
    spectrum
        Kernel whose spectral measure the frequencies follow, an object or its name.
    generator
        Seed or generator of the frequencies; the same seed gives the same bits.
    dtype, device
        Data type and device of the frequencies, hence of the features. Frequencies are drawn in
        float64 on the CPU and then converted. None keeps float64.

    Attributes
    ----------
    frequencies
        Tensor (m, d): as all tensors that are attributes of the map, it is part of `state_dict()`,
        and `.to()` gives a map with a copy. Under a fast coupling the matrix is formed at each
        access. Setting it replaces the frequencies.
    transform
        What computes products with the frequencies of a fast coupling; otherwise None.
    weights
        Tensor (m,) of weights `a_i >= 0` of sum one: frequency i enters the features with
        `sqrt(a_i)` in place of `m^{-1/2}`. None: all weights are equal, `a_i = 1/m`.
    n_features
        Length M of a feature vector.
    maker
        Class or function that made the map from the arguments of the constructor.
    gaussian_only
        Class attribute: whether the map exists for the Gaussian kernel only.
    lengthscale_by_rule
        Class attribute: whether estimators take the lengthscale from the rule
        `2 mean_ij |x_i + x_j|` and keep it, as they should where the variance of the estimates
        grows with `|x + y|`.
    from_rows
        Class attribute: whether the law of the frequencies depends on data. The first argument of
        the constructor is then a table of scaled inputs (n, d) in place of the dimension, and there
        is no `spectrum`; estimators give their training rows.
    product_sign
        Class attribute: for features whose estimate is `(c/m) sum_i g(w_i)`, 1 if
        `g(w) = exp(w . (x + y))` and -1 if `g(w) = cos(w . (x - y))`, whose errors
        `coupledgp.theory` knows; None for others.
    couplings_to_try
        Class attribute: texts of the couplings among which `"auto"` chooses.

    Examples
    --------
    >>> import torch
    >>> from coupledgp.features import FeatureMap, FourierFeatures
    >>> class Waves(FeatureMap):  # a cosine and a sine of each frequency
    ...     n_features = property(lambda self: 2 * self.n_frequencies)
    ...     def _features(self, inputs):
    ...         phase, a = self.project(inputs), self.amplitudes
    ...         return torch.cat([a * phase.sin(), a * phase.cos()], dim=-1)
    >>> x = torch.tensor([[0.3, -0.2], [0.1, 0.5]])
    >>> phi = Waves(2, 8, "orthogonal", "matern-5/2", generator=0)(x)
    >>> same = FourierFeatures(2, 8, "orthogonal", "matern-5/2", generator=0)(x)
    >>> bool(torch.allclose(phi, same))
    True
    """

    gaussian_only: ClassVar[bool] = False
    lengthscale_by_rule: ClassVar[bool] = False
    from_rows: ClassVar[bool] = False
    product_sign: ClassVar[int | None] = None
    couplings_to_try: ClassVar[tuple[str, ...]] = (
        "iid",
        "orthogonal",
        "orthogonal+pnc",
        "orthogonal+stratified",
    )

    def __init__(
        self,
        dim: int,
        n_frequencies: int,
        coupling: CouplingLike = "orthogonal+pnc",
        spectrum: SpectrumLike = "gaussian",
        generator: Seed = None,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        self.dim = check_positive_int(dim, "dim")
        self.n_frequencies = check_positive_int(n_frequencies, "n_frequencies")
        self.coupling: FrequencyCoupling = parse_coupling(coupling)
        self.spectrum: Spectrum = parse_spectrum(spectrum)
        if self.gaussian_only and not isinstance(self.spectrum, GaussianSpectrum):
            raise InvalidInputError(
                f"spectrum: {type(self).__name__} exist for 'gaussian' only, got "
                f"{str(self.spectrum)!r}; use Fourier features"
            )
        size = self.n_frequencies, self.dim, self.spectrum
        structured = self.coupling.structured(*size, generator)
        self.transform: HadamardTransform | None = None
        if structured is None:
            drawn = torch.as_tensor(self.coupling.sample(*size, generator))
            self.frequencies = drawn.to(dtype=dtype, device=device)
        else:
            self.transform = HadamardTransform(structured, dtype=dtype, device=device)
        rule = self.coupling.weights(*size)
        self.weights: Tensor | None = None
        if rule is not None:
            self.weights = torch.as_tensor(rule).to(dtype=dtype, device=device)
        self.maker: Callable[..., FeatureMap] = type(self)

    @classmethod
    def from_frequencies(
        cls,
        frequencies: Tensor,
        coupling: CouplingLike,
        spectrum: SpectrumLike,
        weights: Tensor | None = None,
    ) -> Self:
        """Return a map with the given frequencies (m, d); it keeps this tensor without a copy.

        `coupling` and `spectrum` are the laws that the frequencies were drawn from; `weights` (m,)
        are checked by `check_weights`.
        """
        m, dim = frequencies.shape
        # The constructor's own draw is replaced at once; the call runs every check.
        feature_map = cls(dim, m, coupling, spectrum, generator=0, dtype=frequencies.dtype)
        feature_map.frequencies = frequencies
        feature_map.weights = None if weights is None else check_weights(weights, frequencies)
        return feature_map

    @property
    def frequencies(self) -> Tensor:
        """Frequencies (m, d)."""
        if self.transform is not None:
            return self.transform.dense()
        kept: Tensor = vars(self)["frequencies"]
        return kept

    @frequencies.setter
    def frequencies(self, value: Tensor) -> None:
        self.transform, vars(self)["frequencies"] = None, value

    def load_state_dict(self, state: Mapping[str, Tensor]) -> Self:
        """Take the tensors of another map's `state_dict()`, without copies; return this map.

        Raises
        ------
        InvalidInputError
            The names or shapes of the tensors are not those of such a map.
        """
        given = {name: torch.as_tensor(value) for name, value in state.items()}
        if "frequencies" in given and self.transform is not None:
            self.frequencies = given["frequencies"]  # once replaced, they are no product any more
        self.weights = None
        expected, got = (
            {name: tuple(tensor.shape) for name, tensor in one.items() if name != "weights"}
            for one in (self.state_dict(), given)
        )
        if got != expected:
            raise InvalidInputError(
                f"state: expected that of a {type(self).__name__}, {expected}, got {got}"
            )
        vars(self).update(vars(self.with_tensors(given)))
        if self.weights is not None:
            check_weights(self.weights, self.frequencies)
        return self

    @property
    def dtype(self) -> torch.dtype:
        """Data type of the frequencies and of the features."""
        return self._stored.dtype

    @property
    def device(self) -> torch.device:
        """Device of the frequencies and of the features."""
        return self._stored.device

    @property
    def digest(self) -> str:
        """SHA-256 of the frequencies, in their data type, and of the weights."""
        found = hashlib.sha256(str(self.dtype).encode())
        for name, tensor in sorted(self.state_dict().items()):
            found.update(name.encode() + tensor.cpu().numpy().tobytes())
        return found.hexdigest()

    @property
    def _stored(self) -> Tensor:
        return self.frequencies if self.transform is None else self.transform.norms

    def project(self, inputs: Tensor) -> Tensor:
        """Return `w_i . x`, shape (..., m), for inputs (..., d)."""
        if self.transform is not None:
            return self.transform(inputs)
        return inputs @ self.frequencies.T

    def project_back(self, values: Tensor) -> Tensor:
        """Return `sum_i values_i w_i`, shape (..., d), for values (..., m)."""
        if self.transform is not None:
            return self.transform.transposed(values)
        return values @ self.frequencies

    @property
    def amplitudes(self) -> Tensor:
        """Factor of each frequency in the features: `sqrt(a_i)` (m,), or `m^{-1/2}` of shape ()."""
        if self.weights is None:
            return self._stored.new_tensor(1 / math.sqrt(self.n_frequencies))
        return self.weights.sqrt()

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Length M of a feature vector."""

    def __call__(self, X: Tensor | np.ndarray, out: Tensor | None = None) -> Tensor:
        """Features of each row.

        Parameters
        ----------
        X
            Inputs (..., n, d), already divided by the lengthscales.
        out
            Tensor (n, M) to write the result to, for X of two dimensions; saves an allocation.

        Returns
        -------
        Tensor
            Features, shape (..., n, M), in the dtype and on the device of the frequencies.

        Raises
        ------
        InvalidInputError
            The last dimension of `X` is not d.
        """
        inputs = self._rows(X)
        if out is None:
            return self._features(inputs)
        return self._features_into(inputs, out)

    def _rows(self, X: Tensor | np.ndarray) -> Tensor:
        """Checked inputs (..., n, d), in the dtype and on the device of the frequencies."""
        return as_rows(X, self.dim, self._stored, "X")

    @abstractmethod
    def _features(self, inputs: Tensor) -> Tensor:
        """Features by differentiable torch operations, for inputs (..., n, d)."""

    def _features_into(self, inputs: Tensor, out: Tensor) -> Tensor:
        """Write the features of (n, d) inputs into `out`; gradients need not be supported."""
        return out.copy_(self._features(inputs))

    def pullback(self, inputs: Tensor, features: Tensor, upstream: Tensor) -> Tensor:
        """Gradient in the inputs of `sum(upstream * phi(inputs))`, shape (n, d).

        Computed by automatic differentiation unless a subclass has a closed form.

        Parameters
        ----------
        inputs
            Scaled inputs (n, d).
        features
            `self(inputs)`, shape (n, M), which closed forms reuse.
        upstream
            Gradient in the features (n, M). It may be overwritten.
        """
        with torch.enable_grad():
            leaf = inputs.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(self._features(leaf), leaf, upstream)
        return gradient

    def __repr__(self) -> str:
        from coupledgp.features.registry import Drawn  # which knows the names of maps

        sizes = f"dim={self.dim}, n_features={self.n_features}"
        return f"{type(self).__name__}({Drawn.of(self)}; {sizes})"


def as_rows(X: Tensor | np.ndarray, dim: int, like: Tensor, name: str) -> Tensor:
    """Return inputs (..., n, dim) in the dtype and on the device of `like`."""
    # torch refuses arrays in reversed order, and warns of tensors that share a read-only one.
    if isinstance(X, np.ndarray) and not (X.flags.writeable and min(X.strides, default=0) >= 0):
        X = X.copy()
    rows = torch.as_tensor(X).to(dtype=like.dtype, device=like.device)
    if rows.ndim < 2 or rows.shape[-1] != dim:
        raise wrong(name, f"shape (..., n, {dim})", tuple(rows.shape))
    return rows


def check_weights(weights: Tensor, frequencies: Tensor) -> Tensor:
    """Return weights (m,) of frequencies (m, d), in their dtype and on their device.

    Raises
    ------
    InvalidInputError
        The shape does not fit, a weight is negative or not finite, or the sum is not one.
    """
    m = len(frequencies)
    if weights.shape != (m,):
        raise wrong("weights", f"shape ({m},), one a frequency", tuple(weights.shape))
    if not (torch.isfinite(weights).all() and (weights >= 0).all()):
        raise InvalidInputError("weights: expected finite numbers >= 0, got others")
    total = float(weights.double().sum())
    if abs(total - 1) > 10 * m * torch.finfo(weights.dtype).eps:
        raise InvalidInputError(f"weights: expected numbers whose sum is 1, got the sum {total}")
    return weights.to(frequencies)


def refuse_as_covariance(features: object, name: str = "features") -> None:
    """Raise if `features` map queries and keys apart, which makes no covariance."""
    if hasattr(features, "queries"):
        shown = getattr(features, "__name__", type(features).__name__)
        raise InvalidInputError(f"{name}: {shown}: {NOT_A_COVARIANCE}")
