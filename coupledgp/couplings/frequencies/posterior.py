"""Laws of frequencies that depend on a posterior, which stand where couplings are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from coupledgp.couplings.frequencies.base import FrequencyCoupling
from coupledgp.couplings.frequencies.registry import parse_coupling
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum

LAWS = ("posterior", "leverage")


@dataclass(frozen=True)
class PosteriorLaw(FrequencyCoupling):
    """Frequencies of unequal chances with importance weights, which rows decide on.

    Attributes
    ----------
    name : str
        `"posterior"`: the better of a balanced and a recombined draw for a posterior.
        `"leverage"`: independent draws in proportion to ridge leverage scores.
    """

    name: str = "posterior"

    def __str__(self) -> str:
        return self.name

    def _sample(
        self, n_frequencies: int, dim: int, spectrum: Spectrum, rng: np.random.Generator
    ) -> FloatArray:
        raise InvalidInputError(f"coupling: {self.name!r} needs rows to draw frequencies for")


def parse_law(law: Any, name: str = "coupling") -> FrequencyCoupling:
    """Return a coupling, or a law that depends on a posterior, from its text or an object.

    Raises
    ------
    InvalidInputError
        The text names neither.
    """
    return PosteriorLaw(law) if isinstance(law, str) and law in LAWS else parse_coupling(law, name)
