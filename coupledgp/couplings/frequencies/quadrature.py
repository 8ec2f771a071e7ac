"""Frequencies from a quadrature rule, and from a quasi-Monte Carlo sequence (MATH 4)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special
from scipy.stats import qmc

from coupledgp.couplings.frequencies.base import FrequencyCoupling
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import check_positive_int, wrong
from coupledgp.random import FloatArray
from coupledgp.spectra import GaussianSpectrum, Spectrum, SpectrumLike, parse_spectrum

MAX_DIM = 3  # the number of points grows as q^d
# Total weight of the points that may be left out of a finer rule, far below the rule's own error.
DROPPED = 1e-9
# Largest number of nodes in a dimension; finer rules gain nothing in double precision.
MAX_NODES = 100
_GAUSSIAN = GaussianSpectrum()


@dataclass(frozen=True)
class QuadratureFrequencies(FrequencyCoupling):
    """Tensor products of Gauss-Hermite rules, for the Gaussian kernel in d <= 3 dimensions.

    With q nodes in each dimension, polynomials up to degree `2q - 1` are integrated exactly. The
    error for a cosine falls faster than geometrically in q, to values that random frequencies do
    not reach. For cosines a rule needs only one of the points w and -w, so that `"quadrature"`
    serves Fourier features; `"quadrature+antithetic"`, the whole rule, serves Laplace features too.

    For m frequencies, q is the largest number (at most 100) for which the points that are left out
    of the grid have a total weight below 1e-9. If the grid has fewer than m points, frequencies of
    weight zero are added. The rule is deterministic, so that estimates are not unbiased;
    `error_bound` bounds their error.

    Parameters
    ----------
    antithetic
        Whether to keep both w and -w.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import QuadratureFrequencies
    >>> rule = QuadratureFrequencies()
    >>> frequencies, weights = rule.sample(16, 1)[:, 0], rule.weights(16, 1)
    >>> error = weights @ np.cos(frequencies) - np.exp(-0.5)  # the kernel at distance one
    >>> bool(abs(error) < 1e-9), bool(rule.error_bound(16, [1.0]) < 1e-8)
    (True, True)
    """

    antithetic: bool = False

    @property
    def even_only(self) -> bool:
        """Whether the rule serves even functions of the frequency only."""
        return not self.antithetic

    def weights(
        self, n_frequencies: int, dim: int, spectrum: SpectrumLike = _GAUSSIAN
    ) -> FloatArray:
        """Weights of the frequencies, (n_frequencies,), not negative, with sum one."""
        check_positive_int(n_frequencies, "n_frequencies")
        check_positive_int(dim, "dim")
        return self._rule(n_frequencies, dim, parse_spectrum(spectrum))[2]

    def n_nodes(self, n_frequencies: int, dim: int) -> int:
        """Number q of nodes in each dimension for m frequencies."""
        return self._rule(n_frequencies, dim, GaussianSpectrum())[0]

    def error_bound(self, n_frequencies: int, differences: ArrayLike) -> FloatArray:
        """Bound the error of the kernel under Fourier features.

        The bound is `sum_j min(2, z_j^{2q} q! / (2q)!)`, the remainders of the rules in all
        dimensions, plus twice the weight of the points that are left out.

        Parameters
        ----------
        n_frequencies
            Number of frequencies m.
        differences
            Differences z = x - y of inputs, divided by the lengthscales, shape (..., d).

        Returns
        -------
        FloatArray
            Bounds, shape (...).
        """
        z = np.abs(np.asarray(differences, dtype=np.float64))
        q, _, _, dropped = self._rule(n_frequencies, z.shape[-1], GaussianSpectrum())
        log_remainder = (
            special.gammaln(q + 1) - special.gammaln(2 * q + 1) + special.xlogy(2 * q, z)
        )
        remainder = np.exp(np.minimum(log_remainder, np.log(2.0)))
        return remainder.sum(axis=-1) + 2 * dropped

    def _sample(
        self, n_frequencies: int, dim: int, spectrum: Spectrum, rng: np.random.Generator
    ) -> FloatArray:
        return self._rule(n_frequencies, dim, spectrum)[1].copy()

    def _rule(
        self, m: int, dim: int, spectrum: Spectrum
    ) -> tuple[int, FloatArray, FloatArray, float]:
        """Check the spectrum and the dimension, and return the rule as `fitting_rule` does."""
        if not isinstance(spectrum, GaussianSpectrum):
            raise InvalidInputError(
                "spectrum: quadrature expects 'gaussian', whose frequencies have all moments, got "
                f"{str(spectrum)!r}: Gauss rules for its heavy tails do not converge; draw them"
            )
        if dim > MAX_DIM:
            raise InvalidInputError(
                f"dim: quadrature expects at most {MAX_DIM} dimensions, got {dim}: its points grow "
                "as q^d; draw frequencies, as by 'orthogonal+pnc'"
            )
        return fitting_rule(m, dim, self.antithetic)

    def __str__(self) -> str:
        return "quadrature+antithetic" if self.antithetic else "quadrature"


@lru_cache(maxsize=64)
def fitting_rule(m: int, dim: int, both: bool) -> tuple[int, FloatArray, FloatArray, float]:
    """Find the finest rule of which m points have nearly all the weight.

    Parameters
    ----------
    m, dim
        Number of points, and their dimension d.
    both
        Whether to keep both w and -w.

    Returns
    -------
    tuple
        Number of nodes q in each dimension, points (m, d), weights (m,) with sum one, and the
        weight that was left out.
    """
    best = None
    for q in range(1, MAX_NODES + 1):
        points, weights = tensor_rule(q, dim, both)
        dropped = float(weights[m:].sum())
        if best is not None and dropped > DROPPED:
            break
        kept = weights[:m] / weights[:m].sum()
        filling = (0, max(m - len(points), 0))
        best = (q, np.pad(points[:m], (filling, (0, 0))), np.pad(kept, filling), dropped)
    assert best is not None  # the rule of one node leaves nothing out
    return best


def tensor_rule(q: int, dim: int, both: bool) -> tuple[FloatArray, FloatArray]:
    """Tensor Gauss-Hermite rule for N(0, I_d), with the heaviest points first.

    Returns
    -------
    tuple of FloatArray
        Points (n, d) and weights (n,) with sum one. If `both`, n is `q^d`; otherwise it is
        `ceil(q^d / 2)`, with one of each pair w, -w that has the weights of both.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(q)
    nodes = (nodes - nodes[::-1]) / 2  # makes them symmetric to the last bit
    grid = np.stack(np.meshgrid(*[nodes] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    products = np.ones(1)
    for _ in range(dim):
        products = np.outer(products, weights / weights.sum()).ravel()
    if not both:
        # The grid in reversed order is its reflection at the origin.
        half = len(grid) // 2
        middle = np.full(len(grid) - 2 * half, 1.0)
        factors = np.concatenate([np.full(half, 2.0), middle])
        grid, products = grid[: factors.size], products[: factors.size] * factors
    order = np.argsort(-np.round(products, 12), kind="stable")  # products of like weights are equal
    return grid[order], products[order]


@dataclass(frozen=True)
class QuasiMonteCarlo(FrequencyCoupling):
    """Scrambled Halton or Sobol points, mapped coordinate by coordinate by the inverse CDF.

    Parameters
    ----------
    sequence
        `"halton"` or `"sobol"`. Sobol points are balanced in powers of two, so that the first `m`
        of the next power of two are used.
    half_space
        Whether the first coordinate comes from u in (1/2, 1) only, and each frequency has a random
        sign: `"halton-half"`, `"sobol-half"`. Marginals stay what they are. Of even functions, such
        as the cosines of Fourier features, the points fill the space twice as finely; others, such
        as Laplace features, lose the even spread.

    Examples
    --------
    >>> from coupledgp.couplings import QuasiMonteCarlo
    >>> from coupledgp.theory import expected_mse, simulated_mse
    >>> x, y = [0.4, -0.1], [0.0, 0.2]
    >>> found = simulated_mse("fourier", QuasiMonteCarlo("sobol"), 64, x, y, n_draws=20)
    >>> bool(found.value < expected_mse("fourier", "iid", 64, x, y) / 10)
    True
    """

    sequence: Literal["halton", "sobol"]
    half_space: bool = False

    def __post_init__(self) -> None:
        if self.sequence not in ("halton", "sobol"):
            raise wrong("sequence", "'halton' or 'sobol'", self.sequence)

    def _sample(
        self, n_frequencies: int, dim: int, spectrum: Spectrum, rng: np.random.Generator
    ) -> FloatArray:
        cube_dim = spectrum.n_uniforms(dim)
        if self.sequence == "halton":
            points = qmc.Halton(cube_dim, scramble=True, rng=rng).random(n_frequencies)
        else:
            exponent = int(np.ceil(np.log2(n_frequencies)))
            # With the default of 30 bits, no coordinate exceeds 6 standard deviations.
            sampler = qmc.Sobol(cube_dim, scramble=True, bits=53, rng=rng)
            points = sampler.random_base2(exponent)[:n_frequencies]
        if not self.half_space:
            return _mapped(points, spectrum)
        points[:, 0] = 0.5 + points[:, 0] / 2
        return rng.choice([-1.0, 1.0], (n_frequencies, 1)) * _mapped(points, spectrum)

    def __str__(self) -> str:
        return f"{self.sequence}-half" if self.half_space else self.sequence


def _mapped(points: FloatArray, spectrum: Spectrum) -> FloatArray:
    """Frequencies (m, d) of points in the closed unit cube, those on its surface moved inside."""
    return spectrum.from_uniforms(np.clip(points, 2.0**-53, 1 - 2.0**-53))
