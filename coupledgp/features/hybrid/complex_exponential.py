"""Complex exponential features, the base estimators of hybrid features (MATH 5)."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from coupledgp.couplings import CouplingLike, parse_coupling
from coupledgp.errors import InvalidInputError
from coupledgp.features.base import as_rows
from coupledgp.features.hybrid.base import Side, SoftmaxFeatures
from coupledgp.ground.validation import check_positive_int, wrong
from coupledgp.random import Seed

ComplexArray = NDArray[np.complex128]
# Largest condition number of A: beyond it the rounding of A^-T exceeds 1e-6.
MAX_CONDITION = 1e10


class ComplexExponentialFeatures(SoftmaxFeatures):
    """Estimator of the softmax kernel for an invertible, possibly complex, matrix A.

    The estimate is the real part of `Psi_A(x) . Psi_{A^-T}(y)`, where
    `Psi_B(u) = m^{-1/2} exp(-(B u)^2 / 2) [exp(w_i . B u)]_i` and the square is bilinear, without
    a conjugate ("Hybrid random features", section 2.3). The kernel is real, so that the real part
    is unbiased and has a lower variance. It is computed in real arithmetic from
    `Re(a b) = Re a Re b - Im a Im b`, which makes 2m features, or m where A is real. `A = I` gives
    positive features, `A = i I` sine and cosine features. With `z = A x + A^-T y = u + i v` and
    independent frequencies

        m MSE = (exp(-Re((Ax)^2 + (A^-T y)^2) + 2 |u|^2) + SM^2 Re exp(z^2)) / 2 - SM^2,

    which is zero where `z = 0`.

    Parameters
    ----------
    dim
        Input dimension d.
    n_frequencies
        Number of frequencies m.
    matrix
        Real or complex matrix A: a number (times the identity), its diagonal (d,) or all of it
        (d, d).
    coupling
        Joint law of the frequencies.
    generator
        Seed or generator for the frequencies.
    kernel
        `"softmax"` or `"gaussian"`; see `SoftmaxFeatures`.
    dtype, device
        Precision and device of the features. Frequencies are drawn in float64 on the CPU and then
        converted.

    Attributes
    ----------
    log_ratios
        Buffer (m,): `log p(w_i) - log psi(w_i)` where the frequencies follow another law psi than
        the normal law p; features are multiplied by the root of the ratio. Usually None.

    Examples
    --------
    >>> import torch
    >>> from coupledgp.features import ComplexExponentialFeatures
    >>> x = torch.tensor([[0.3, -0.2]]).double()
    >>> positive = ComplexExponentialFeatures(2, 8, matrix=1.0, generator=0)
    >>> bool(torch.allclose(positive.estimate(x, -x), (-x @ x.T).exp()))  # exact where y = -x
    True
    >>> waves = ComplexExponentialFeatures(2, 8, matrix=1j, generator=0)
    >>> bool(torch.allclose(waves.estimate(x, x), (x @ x.T).exp()))  # exact where y = x
    True
    """

    frequencies: Tensor
    log_ratios: Tensor | None
    query_real: Tensor | None
    query_imag: Tensor | None
    key_real: Tensor | None
    key_imag: Tensor | None

    def __init__(
        self,
        dim: int,
        n_frequencies: int,
        matrix: ArrayLike = 1.0,
        coupling: CouplingLike = "orthogonal+pnc",
        generator: Seed = None,
        *,
        kernel: str = "softmax",
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(dim, kernel)
        m = check_positive_int(n_frequencies, "n_frequencies")
        drawn = parse_coupling(coupling).sample(m, self.dim, "gaussian", generator)
        factor, inverse = check_matrix(matrix, self.dim)
        self.register_buffer("log_ratios", None)
        self.register_buffer("frequencies", torch.as_tensor(drawn).to(dtype=dtype, device=device))
        for name, value in {"query": factor, "key": inverse}.items():
            for part, numbers in {"real": value.real, "imag": value.imag}.items():
                present = numbers.any()
                tensor = torch.as_tensor(numbers.copy()).to(dtype=dtype, device=device)
                self.register_buffer(f"{name}_{part}", tensor if present else None)

    @classmethod
    def from_frequencies(
        cls, frequencies: Tensor, matrix: ArrayLike = 1.0, *, kernel: str = "softmax"
    ) -> Self:
        """Return features with the given frequencies (m, d), a tensor that is not copied."""
        m, dim = frequencies.shape
        # The constructor draws frequencies that are replaced at once, and checks all arguments.
        features = cls(
            dim, m, matrix, "iid", 0, kernel=kernel,
            dtype=frequencies.dtype, device=frequencies.device,
        )  # fmt: skip
        features.frequencies = frequencies
        return features

    @property
    def n_frequencies(self) -> int:
        """Number of frequencies m."""
        return len(self.frequencies)

    @property
    def is_positive(self) -> bool:
        """Whether A is real, and so every feature positive."""
        return self.query_imag is None and self.key_imag is None

    @property
    def is_identity(self) -> bool:
        """Whether `A = I`: plain positive features."""
        matrix = self.query_real
        if matrix is None or not self.is_positive:
            return False
        return torch.equal(matrix, torch.ones_like(matrix)) if matrix.ndim == 1 else False

    @property
    def n_features(self) -> int:
        """Number of features: m where A is real, else 2m."""
        return self.n_frequencies * (1 if self.is_positive else 2)

    @property
    def cost(self) -> int:
        """Multiplications for one vector: projections, products with A, and the features."""
        parts = [part for part in (self.query_real, self.query_imag) if part is not None]
        by_matrix = sum(part.numel() for part in parts if part.ndim == 2)
        return len(parts) * self.dim * self.n_frequencies + by_matrix + self.n_features

    @property
    def _like(self) -> Tensor:
        return self.frequencies

    def log_queries(self, X: Tensor | np.ndarray) -> Tensor:
        """Logarithms (..., n, m) of the query features of `X` (..., n, d); A must be real."""
        return self._logarithms(as_rows(X, self.dim, self._like, "X"), "query")

    def log_keys(self, Y: Tensor | np.ndarray) -> Tensor:
        """Logarithms (..., n, m) of the key features of `Y` (..., n, d); A must be real."""
        return self._logarithms(as_rows(Y, self.dim, self._like, "Y"), "key")

    def _logarithms(self, inputs: Tensor, side: Side) -> Tensor:
        if not self.is_positive:
            raise InvalidInputError(
                "matrix: features have logarithms where A is real; this one is complex"
            )
        return self._exponents(inputs, side)[0]

    def _features(self, inputs: Tensor, side: Side) -> Tensor:
        return real_features(*self._exponents(inputs, side), side)

    def _exponents(self, inputs: Tensor, side: Side) -> tuple[Tensor, Tensor | None]:
        """Real and imaginary part (..., n, m) of `w_i . B u - (B u)^2 / 2 - log(m) / 2`."""
        is_query = side == "query"
        real = apply_factor(self.query_real if is_query else self.key_real, inputs)
        imag = apply_factor(self.query_imag if is_query else self.key_imag, inputs)
        norm = inputs.square().sum(-1, keepdim=True) if self.kernel == "gaussian" else None
        if self.is_positive:
            imag = None
        exponent, phase = exponents(self.frequencies, real, imag, norm)
        return exponent if self.log_ratios is None else exponent + self.log_ratios / 2, phase

    def _load_from_state_dict(
        self, state_dict: dict[str, Tensor], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        """Load a state; whether there are ratios is up to the state."""
        stored = state_dict.get(f"{prefix}log_ratios")
        if stored is not None and self.log_ratios is None:
            self.log_ratios = torch.empty_like(stored).to(self.frequencies)
        elif stored is None and f"{prefix}frequencies" in state_dict:
            self.log_ratios = None
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


def exponents(
    frequencies: Tensor, real: Tensor | None, imag: Tensor | None, norm: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Real and imaginary part of `w_i . z - z^2 / 2 - log(m) / 2 - norm / 2`.

    Parameters
    ----------
    frequencies
        Frequencies (m, d).
    real, imag
        Real and imaginary part of z (..., n, d). Either part may be None, which means zero.
    norm
        Squared norms of the inputs (..., n, 1) for the Gaussian kernel, None for the softmax
        kernel.

    Returns
    -------
    tuple of Tensor and (Tensor or None)
        Real and imaginary part, both (..., n, m); the latter is None where z is real.
    """
    exponent: Tensor | float = -0.5 * math.log(len(frequencies))
    phase = None
    if real is not None:
        exponent = exponent + real @ frequencies.mT - real.square().sum(-1, keepdim=True) / 2
    if imag is not None:
        exponent = exponent + imag.square().sum(-1, keepdim=True) / 2
        phase = imag @ frequencies.mT
        if real is not None:
            phase = phase - (real * imag).sum(-1, keepdim=True)
    if norm is not None:
        exponent = exponent - norm / 2
    return torch.as_tensor(exponent), phase


def real_features(exponent: Tensor, phase: Tensor | None, side: Side) -> Tensor:
    """Features (..., m), or (..., 2m) with phases, whose products are `Re(a b)` of complex ones.

    Parameters
    ----------
    exponent, phase
        Real and imaginary part (..., m) of the logarithms of the complex features; a phase of None
        means zero.
    side
        `"query"` or `"key"`; the keys take the minus sign of `Re a Re b - Im a Im b`.
    """
    scale = exponent.exp()
    if phase is None:
        return scale
    sine = phase.sin() if side == "query" else -phase.sin()
    return torch.cat([scale * phase.cos(), scale * sine], dim=-1)


def apply_factor(factor: Tensor | None, inputs: Tensor) -> Tensor | None:
    """Multiply each row of the inputs (..., n, d) by a diagonal (d,) or a matrix (d, d).

    Without a factor the result is None.
    """
    if factor is None:
        return None
    return inputs * factor if factor.ndim == 1 else inputs @ factor.mT


def check_matrix(matrix: Any, dim: int) -> tuple[ComplexArray, ComplexArray]:
    """Return A and `A^-T`, both as a diagonal (dim,) or both as a matrix (dim, dim).

    Raises
    ------
    InvalidInputError
        A is no number, diagonal or square matrix of finite numbers, or it cannot be inverted.
    """
    try:
        array = np.asarray(matrix, dtype=np.complex128)
    except (TypeError, ValueError):
        raise wrong("matrix", "numbers", matrix) from None
    if array.ndim == 0:
        array = np.full(dim, array)
    if array.shape not in ((dim,), (dim, dim)):
        raise wrong("matrix", f"a number, shape ({dim},) or ({dim}, {dim})", array.shape)
    if not np.isfinite(array).all():
        raise InvalidInputError("matrix: expected finite numbers, got NaN or inf")
    sizes = np.abs(array) if array.ndim == 1 else np.linalg.svd(array, compute_uv=False)
    if sizes.min() * MAX_CONDITION <= sizes.max():
        raise InvalidInputError(
            "matrix: expected an invertible matrix, got singular values from "
            f"{sizes.min():.3g} to {sizes.max():.3g}"
        )
    inverse = 1 / array if array.ndim == 1 else np.linalg.inv(array).T
    return array, np.asarray(inverse, dtype=np.complex128)
