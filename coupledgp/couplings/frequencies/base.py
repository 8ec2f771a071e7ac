"""Base class of the couplings of frequencies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from coupledgp.errors import CoupledGPError
from coupledgp.ground.validation import check_positive_int
from coupledgp.random import FloatArray, Seed, as_rng
from coupledgp.spectra import GaussianSpectrum, Spectrum, SpectrumLike, parse_spectrum

if TYPE_CHECKING:
    from coupledgp.couplings.frequencies.hadamard import StructuredFrequencies

_GAUSSIAN = GaussianSpectrum()


class FrequencyCoupling(ABC):
    """A joint law of frequencies, each of which alone follows the spectrum.

    A coupling knows neither data nor feature maps. Since its marginals are fixed, every estimator
    that is built on its samples is unbiased. Subclasses implement `_sample`; `str` gives the text
    form.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import FrequencyCoupling
    >>> from coupledgp.theory import expected_mse, simulated_mse
    >>> class Lattice(FrequencyCoupling):  # evenly spaced uniforms, with a random shift
    ...     def _sample(self, n_frequencies, dim, spectrum, rng):
    ...         places = np.arange(n_frequencies)[:, None] / n_frequencies
    ...         return spectrum.from_uniforms((places + rng.random(spectrum.n_uniforms(dim))) % 1)
    >>> coupled = simulated_mse("fourier", Lattice(), 16, [0.0], [1.0], n_draws=50)
    >>> coupled.value < expected_mse("fourier", "iid", 16, [0.0], [1.0]) / 10
    True
    """

    def sample(
        self,
        n_frequencies: int,
        dim: int,
        spectrum: SpectrumLike = _GAUSSIAN,
        generator: Seed = None,
    ) -> FloatArray:
        """Draw an ensemble of frequencies.

        Parameters
        ----------
        n_frequencies
            Number of frequencies m >= 1.
        dim
            Input dimension d >= 1.
        spectrum
            Law of one frequency, in units of 1 / lengthscale.
        generator
            Seed or generator; the same seed gives the same bits.

        Returns
        -------
        FloatArray
            Frequencies, shape (n_frequencies, dim).

        Raises
        ------
        InvalidInputError
            A count is not a positive int, or the coupling cannot serve this size or dimension.
        """
        check_positive_int(n_frequencies, "n_frequencies")
        check_positive_int(dim, "dim")
        rng = as_rng(generator)
        frequencies = self._sample(n_frequencies, dim, parse_spectrum(spectrum), rng)
        if frequencies.shape != (n_frequencies, dim):
            raise CoupledGPError(
                f"{type(self).__name__}._sample returned shape {frequencies.shape}, "
                f"expected ({n_frequencies}, {dim})"
            )
        return frequencies

    @property
    def even_only(self) -> bool:
        """Whether the ensemble serves even functions of the frequency only, such as cosines."""
        return False

    def structured(
        self,
        n_frequencies: int,
        dim: int,
        spectrum: SpectrumLike = _GAUSSIAN,
        generator: Seed = None,
    ) -> StructuredFrequencies | None:
        """Draw the ensemble that `sample` would draw, in a form for fast products.

        A coupling without fast products returns None and draws nothing. Arguments are those of
        `sample`.
        """
        return None

    def weights(
        self, n_frequencies: int, dim: int, spectrum: SpectrumLike = _GAUSSIAN
    ) -> FloatArray | None:
        """Weights of the frequencies in an estimate, (n_frequencies,) with sum one; None if equal.

        Only a deterministic rule has weights. With unequal weights, estimates from a random
        ensemble would be biased.
        """
        return None

    @abstractmethod
    def _sample(
        self, n_frequencies: int, dim: int, spectrum: Spectrum, rng: np.random.Generator
    ) -> FloatArray:
        """Draw frequencies (n_frequencies, dim) from checked arguments."""
