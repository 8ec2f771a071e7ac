"""Laplace features, plain (MATH section 2) and under the proposal of least variance (section 4).

"All random features representations are equivalent" (2024): with frequencies drawn from `psi` in
place of the kernel's spectral density `p`, features times `sqrt(p / psi)` stay unbiased. The mean
variance of the estimates over inputs `x ~ X`, `y ~ Y` is least for `psi ∝ p q`, `q(w)^2 = E[phi(x,
w)^2] E[phi(y, w)^2]`; under that proposal it is, for one law `X = Y`, `E[K(x, x) K(y, y) - K(x,
y)^2] / m`, as for complex exponentials `exp(i w . x)`. Pairs of sine and cosine, whose estimate is
the real part, have at most half of this variance.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.couplings import CouplingLike, DirectionsAndNorms, FrequencyCoupling, parse_coupling
from coupledgp.errors import InvalidInputError
from coupledgp.features.base import FeatureMap
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.ground.validation import check_positive_int, wrong
from coupledgp.random import FloatArray, Seed, as_rng, open_uniforms
from coupledgp.spectra import GaussianSpectrum, SpectrumLike


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


INDEPENDENT = DirectionsAndNorms()
# Number of candidates per frequency under two laws, from which the frequencies are resampled.
POOL = 32


class ImportanceLaplaceFeatures(LaplaceFeatures):
    """Positive features of the Gaussian kernel, frequencies drawn where the data need them.

    `phi(x) = m^{-1/2} [sqrt(p(w_i) / psi(w_i)) exp(w_i . x - |x|^2)]_i`, `n_features = m`; unbiased
    for every pair of inputs, of least mean variance for pairs from the data.

    One law of data: `p(w) exp(2 w . x - 2 |x|^2)` is the density of `N(2 x, I)`, so psi is exactly
    the mixture of `N(2 x_i, I)` over the data, and `psi / p = mean_i exp(2 w . x_i - 2 |x_i|^2)`.
    Frequencies are `2 x_I + z`, the centres `x_I` by systematic sampling and the deviations z
    coupled: each alone has the law psi.

    Two laws, of queries and keys: psi is the geometric mean of the two mixtures, not normalised.
    Each frequency is drawn from a pool of 32 m candidates of their arithmetic mean, resampled in
    proportion to the ratio r of the geometric to the arithmetic mean; with `mean(r)` of the pool in
    place of the constant of psi the estimate is exactly unbiased, as its mean over the resampling
    is the pool's own importance-sampling estimate.

    Parameters
    ----------
    data
        Inputs (n, d) whose law matters, divided by the lengthscales; queries if `keys` are given.
    n_frequencies
        Number of frequencies m.
    coupling
        Joint law of the deviations z. Antithetic frequencies w, -w need a proposal that is
        symmetric about zero (`symmetric=True`). With keys, resampling would undo any coupling, so
        that only independent frequencies are accepted.
    generator
        Seed or generator; the same seed gives the same bits.
    keys
        Inputs (k, d) of the second law.
    symmetric
        Reflect the data at the origin: proposal `(psi(w) + psi(-w)) / 2`, with its own weights.
    dtype, device
        As in `FeatureMap`.

    Attributes
    ----------
    log_ratios
        Buffer (m,): `log p(w_i) - log psi(w_i)`.

    Raises
    ------
    InvalidInputError
        The data are invalid, or the coupling would bias the estimates; the message says why.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.features import ImportanceLaplaceFeatures
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> phi = ImportanceLaplaceFeatures(X, 2000, generator=0)(X).numpy()
    >>> exact = np.exp(-((X[:, None] - X) ** 2).sum(axis=-1) / 2)
    >>> bool(np.sqrt(np.mean((phi @ phi.T - exact) ** 2)) < 0.05)
    True
    """

    # The closed forms are for frequencies drawn from the kernel's spectrum.
    product_sign: ClassVar[int | None] = None
    from_rows = True
    couplings_to_try = ("iid", "orthogonal", "orthogonal+stratified")
    log_ratios: Tensor

    def __init__(
        self,
        data: ArrayLike,
        n_frequencies: int,
        coupling: CouplingLike = "orthogonal",
        generator: Seed = None,
        *,
        keys: ArrayLike | None = None,
        symmetric: bool = False,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        queries = _checked_rows(data, "data")
        m = check_positive_int(n_frequencies, "n_frequencies")
        law = _checked_coupling(coupling, keys is not None, symmetric)
        rng = as_rng(generator)
        if symmetric:
            queries = np.concatenate([queries, -queries])
        if keys is None:
            frequencies, log_ratios = _draw_mixture(queries, m, law, rng)
        else:
            others = _checked_keys(keys, queries)
            others = np.concatenate([others, -others]) if symmetric else others
            frequencies, log_ratios = _draw_resampled(queries, others, m, rng)
        super().__init__(queries.shape[1], m, INDEPENDENT, generator=0, dtype=dtype, device=device)
        self.coupling = law
        self.frequencies = torch.as_tensor(frequencies).to(dtype=dtype, device=device)
        self.log_ratios = torch.as_tensor(log_ratios).to(dtype=dtype, device=device)

    def _log_features(self, inputs: Tensor) -> Tensor:
        return super()._log_features(inputs) + 0.5 * self.log_ratios

    @classmethod
    def from_frequencies(cls, *args: object, **kwargs: object) -> ImportanceLaplaceFeatures:
        """Refuse, since frequencies of this map are of no use without their density ratios."""
        raise InvalidInputError(
            "ImportanceLaplaceFeatures: expected to be made from data; to restore one, make it "
            "from any data of the same size and load its state_dict"
        )


def mixture_log_ratio(frequencies: FloatArray, data: FloatArray) -> FloatArray:
    """`log psi(w) - log p(w) = log mean_i exp(2 w . x_i - 2 |x_i|^2)`, shape (m,).

    The frequencies are (m, d), the data (n, d).
    """
    exponents = 2 * frequencies @ data.T - 2 * np.square(data).sum(axis=1)
    largest = exponents.max(axis=1, keepdims=True)
    return largest[:, 0] + np.log(np.exp(exponents - largest).mean(axis=1))


def _draw_mixture(
    data: FloatArray, m: int, coupling: FrequencyCoupling, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Draw frequencies (m, d) from the mixture; return them and `log p - log psi` (m,)."""
    antithetic = isinstance(coupling, DirectionsAndNorms) and coupling.antithetic
    n_drawn = -(-m // 2) if antithetic else m
    if isinstance(coupling, DirectionsAndNorms):
        coupling = DirectionsAndNorms(coupling.directions, coupling.norms)
    deviations = coupling.sample(n_drawn, data.shape[1], GaussianSpectrum(), rng)
    # Systematic sampling spreads the centres evenly; the permutation frees them of their order.
    places = rng.permutation((np.arange(n_drawn) + rng.uniform()) / n_drawn * len(data))
    frequencies = 2 * data[places.astype(np.intp)] + deviations
    if antithetic:
        frequencies = np.concatenate([frequencies, -frequencies])[:m]
    return frequencies, -mixture_log_ratio(frequencies, data)


def _draw_resampled(
    queries: FloatArray, keys: FloatArray, m: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Resample frequencies (m, d) from a pool of the two mixtures' mean; also `log p - log psi`."""
    pool, geometric, ratio = _pool(queries, keys, POOL * m, rng)
    chances = np.cumsum(ratio / ratio.sum())
    chosen = np.searchsorted(chances / chances[-1], open_uniforms(rng, m), side="right")
    return pool[chosen], np.log(ratio.mean()) - geometric[chosen]


def _pool(
    queries: FloatArray, keys: FloatArray, size: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Draw from the arithmetic mean of two mixtures, half (size // 2, d) from each.

    Also the logarithm of the geometric mean of their densities over p, and the ratio of the
    geometric to the arithmetic mean.
    """
    halves = [
        2 * rows[rng.integers(len(rows), size=size // 2)]
        + rng.standard_normal((size // 2, rows.shape[1]))
        for rows in (queries, keys)
    ]
    pool = np.concatenate(halves)
    of_queries, of_keys = mixture_log_ratio(pool, queries), mixture_log_ratio(pool, keys)
    geometric = (of_queries + of_keys) / 2
    return pool, geometric, np.exp(geometric - np.logaddexp(of_queries, of_keys) + np.log(2))


def _checked_coupling(coupling: CouplingLike, two_laws: bool, symmetric: bool) -> FrequencyCoupling:
    parsed = parse_coupling(coupling)
    if two_laws and parsed != INDEPENDENT:
        raise InvalidInputError(
            "coupling: with keys expected 'iid', since resampling keeps the law of each frequency "
            f"but not how they depend on each other, got {str(parsed)!r}"
        )
    if parsed.weights(1, 1) is not None:
        raise InvalidInputError(
            f"coupling: expected a random law, got {str(parsed)!r}: ratios of densities need one"
        )
    if getattr(parsed, "antithetic", False) and not symmetric:
        raise InvalidInputError(
            f"coupling: {str(parsed)!r} would bias the estimates, since -w does not follow a "
            "proposal that is not symmetric about zero; pass symmetric=True or leave antithetic out"
        )
    return parsed


def _checked_rows(value: ArrayLike, name: str) -> FloatArray:
    rows = np.asarray(value, dtype=np.float64)
    if rows.ndim != 2 or not rows.size:
        raise InvalidInputError(f"{name}: expected rows (n, d), got shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise InvalidInputError(f"{name}: expected finite values, got NaN or inf")
    return rows


def least_mean_variance(data: ArrayLike, keys: ArrayLike | None = None) -> float:
    """`mean_ij [K(x_i, x_i) K(y_j, y_j) - K(x_i, y_j)^2]`: the mean variance of one frequency.

    Every representation of the Gaussian kernel has this variance under its optimal proposal, over
    pairs of the data (n, d), i = j included. With keys (k, d) of another law it is a bound, which
    `two_law_mean_variance` stays below. Means over m independent frequencies have a variance m
    times smaller. Theorem 1 and its corollaries of "All random features representations are
    equivalent".

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.features import least_mean_variance
    >>> far = np.array([[0.0], [100.0]])
    >>> least_mean_variance(far)  # k is one for half of the pairs, zero for the others
    0.5
    """
    rows = _checked_rows(data, "data")
    others = rows if keys is None else _checked_keys(keys, rows)
    return float(1 - _mean_square_kernel(rows, others))


def two_law_mean_variance(
    queries: ArrayLike, keys: ArrayLike, n_draws: int = 10_000, generator: Seed = 0
) -> tuple[float, float]:
    """Mean variance of one frequency of Laplace features under the optimal proposal of two laws.

    It is `(E_p q)^2 - mean_ij K(x_i, y_j)^2` with q as above. `E_p q` is the Bhattacharyya
    coefficient `int (f g)^(1/2)` of the mixtures f of `N(2 x_i, I)` and g of `N(2 y_j, I)`, the
    mean of the geometric over the arithmetic mean of their densities, at most one; it is
    estimated from draws of their arithmetic mean.

    Parameters
    ----------
    queries, keys
        Inputs (n, d) and (k, d) of the two laws, divided by the lengthscales.
    n_draws
        Number of draws, half from each mixture.
    generator
        Seed or generator for the draws.

    Returns
    -------
    tuple of float
        The variance and its standard error.

    Raises
    ------
    InvalidInputError
        The inputs are invalid, or there are fewer than four draws.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.features import least_mean_variance, two_law_mean_variance
    >>> queries, keys = np.array([[0.0], [0.5]]), np.array([[1.0]])
    >>> variance, error = two_law_mean_variance(queries, keys, n_draws=1000)
    >>> variance + 4 * error < least_mean_variance(queries, keys)
    True
    """
    rows = _checked_rows(queries, "queries")
    others = _checked_keys(keys, rows)
    size = check_positive_int(n_draws, "n_draws", minimum=4)
    ratio = _pool(rows, others, size, as_rng(generator))[2]
    halves = ratio.reshape(2, -1)
    mean, error = halves.mean(), np.sqrt(halves.var(axis=1, ddof=1).mean() / halves.size)
    return float(mean**2 - _mean_square_kernel(rows, others)), float(2 * mean * error)


def _mean_square_kernel(rows: FloatArray, others: FloatArray) -> float:
    squares = np.square(rows[:, None] - others).sum(axis=-1)
    return float(np.exp(-squares).mean())


def _checked_keys(keys: ArrayLike, data: FloatArray) -> FloatArray:
    others = _checked_rows(keys, "keys")
    if others.shape[1] != data.shape[1]:
        raise wrong("keys", f"{data.shape[1]} columns as data", others.shape[1])
    return others
