"""The law of frequencies drawn for a posterior, which stands where couplings do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from coupledgp.couplings.frequencies.base import FrequencyCoupling
from coupledgp.couplings.frequencies.registry import parse_coupling
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum

POSTERIOR = "posterior"


@dataclass(frozen=True)
class PosteriorLaw(FrequencyCoupling):
    """Frequencies drawn for the posterior of rows, with importance weights, under the name of it.

    It stands where couplings do, among those that are compared and as what a map was drawn by.
    """

    def __str__(self) -> str:
        return POSTERIOR

    def _sample(
        self, n_frequencies: int, dim: int, spectrum: Spectrum, rng: np.random.Generator
    ) -> FloatArray:
        raise InvalidInputError(f"coupling: {POSTERIOR!r} needs rows to draw frequencies for")


def parse_law(law: Any, name: str = "coupling") -> FrequencyCoupling:
    """Return a coupling, or the draw for the posterior, from its text or an object.

    Raises
    ------
    InvalidInputError
        The text names neither.
    """
    asked = isinstance(law, str) and law == POSTERIOR
    return PosteriorLaw() if asked else parse_coupling(law, name)
