"""Quasi-Monte Carlo couplings: scrambled low-discrepancy points mapped by `Phi^-1` (MATH 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import qmc

from coupledgp.couplings.frequencies.base import FrequencyCoupling
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum


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
            raise InvalidInputError(
                f"sequence: expected 'halton' or 'sobol', got {self.sequence!r}"
            )

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
