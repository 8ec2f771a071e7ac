"""Frequencies as directions times norms, and the text form of every coupling (MATH 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import numpy as np

from coupledgp.couplings.frequencies.base import FrequencyCoupling, register
from coupledgp.couplings.frequencies.copula import GaussianCopulaNorms
from coupledgp.couplings.frequencies.directions import (
    Directions,
    IidDirections,
    OrthogonalDirections,
)
from coupledgp.couplings.frequencies.hadamard import FastDirections, StructuredFrequencies
from coupledgp.couplings.frequencies.norms import (
    IndependentNorms,
    MonotoneNorms,
    Norms,
    PairwiseNorms,
    StratifiedNorms,
)
from coupledgp.couplings.frequencies.qmc import QuasiMonteCarlo
from coupledgp.couplings.frequencies.quadrature import QuadratureFrequencies
from coupledgp.couplings.frequencies.simplex import SimplexDirections, SimplexPlusDirections
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray, Seed, as_rng
from coupledgp.spectra import GaussianSpectrum, Spectrum, SpectrumLike, parse_spectrum
from coupledgp.validation import check_positive_int, unknown_choice

DIRECTIONS: dict[str, Callable[[], Directions]] = {
    "iid": IidDirections,
    "orthogonal": OrthogonalDirections,
    "simplex": SimplexDirections,
    "simplex-plus": SimplexPlusDirections,
    "orthogonal-fast": FastDirections,
    "simplex-fast": lambda: FastDirections(simplex=True),
}
NORMS: dict[str, Callable[[], Norms]] = {
    "independent": IndependentNorms,
    "pnc": PairwiseNorms,
    "monotone": MonotoneNorms,
    "stratified": StratifiedNorms,
}
COUPLINGS: dict[str, Callable[[], FrequencyCoupling]] = {
    "halton": lambda: QuasiMonteCarlo("halton"),
    "sobol": lambda: QuasiMonteCarlo("sobol"),
    "quadrature": QuadratureFrequencies,
    "quadrature+antithetic": lambda: QuadratureFrequencies(antithetic=True),
}
ANTITHETIC, COPULA = "antithetic", "copula"
_GAUSSIAN = GaussianSpectrum()


@dataclass(frozen=True)
class DirectionsAndNorms(FrequencyCoupling):
    """`w_i = F^-1(u_i) s_i`: coupled norms times coupled directions, norms and directions apart.

    Parameters
    ----------
    directions
        Law of the unit vectors, drawn in blocks of d.
    norms
        Law of the uniforms behind the norms.
    antithetic
        Draw the first `ceil(m/2)` frequencies and append their negatives (without the last one's
        if m is odd), `m` in all. For Fourier features this changes nothing but the count: cosine
        is even.
    """

    directions: Directions = field(default_factory=IidDirections)
    norms: Norms = field(default_factory=IndependentNorms)
    antithetic: bool = False

    def _sample(
        self, n_frequencies: int, dim: int, spectrum: Spectrum, rng: np.random.Generator
    ) -> FloatArray:
        ambient = self.directions.ambient_dim(dim)
        norms = self._norms(n_frequencies, ambient, spectrum, rng)
        directions = self.directions.sample(norms, ambient, rng)[:, :dim]
        frequencies = norms[:, None] * directions
        if self.antithetic:
            frequencies = np.concatenate([frequencies, -frequencies])[:n_frequencies]
        return frequencies

    def _norms(
        self, n_frequencies: int, dim: int, spectrum: Spectrum, rng: np.random.Generator
    ) -> FloatArray:
        """Norms of the frequencies that are drawn, in the dimension of the directions."""
        n_drawn = -(-n_frequencies // 2) if self.antithetic else n_frequencies
        return norms_from_uniforms(self.norms.sample(n_drawn, dim, rng), dim, spectrum)

    def structured(
        self,
        n_frequencies: int,
        dim: int,
        spectrum: SpectrumLike = _GAUSSIAN,
        generator: Seed = None,
    ) -> StructuredFrequencies | None:
        if not isinstance(self.directions, FastDirections):
            return None
        check_positive_int(n_frequencies, "n_frequencies")
        check_positive_int(dim, "dim")
        rng = as_rng(generator)
        ambient = self.directions.ambient_dim(dim)
        norms = self._norms(n_frequencies, ambient, parse_spectrum(spectrum), rng)
        rotations = self.directions.draw(norms.size, ambient, rng)
        return StructuredFrequencies(
            n_frequencies, dim, norms, rotations, self.directions.simplex, self.antithetic
        )

    def __str__(self) -> str:
        parts = [_name_of(self.directions, DIRECTIONS)]
        if not isinstance(self.norms, IndependentNorms):
            parts.append(_name_of(self.norms, NORMS))
        if self.antithetic:
            parts.append(ANTITHETIC)
        return "+".join(parts)


def norms_from_uniforms(u: FloatArray, dim: int, spectrum: Spectrum) -> FloatArray:
    """Norms `F^-1(u)`, each inverted from its nearer tail."""
    lower = u <= 0.5
    norms = np.empty_like(u)
    norms[lower] = spectrum.norm_ppf(u[lower], dim)
    norms[~lower] = spectrum.norm_isf(1.0 - u[~lower], dim)
    return norms


_Part = TypeVar("_Part", Directions, Norms)


def _name_of(part: _Part, registry: dict[str, Callable[[], _Part]]) -> str:
    """The name a part is registered under; its own text if it is under none."""
    return next((name for name, make in registry.items() if make() == part), str(part))


CouplingLike: TypeAlias = str | FrequencyCoupling


def parse_coupling(coupling: CouplingLike, name: str = "coupling") -> FrequencyCoupling:
    """Return the frequency coupling a text names, or the object itself.

    Parameters
    ----------
    coupling
        `"halton"`, `"sobol"`, `"quadrature[+antithetic]"`, or `directions[+norms][+antithetic]`
        with directions `"iid"`, `"orthogonal"`, `"simplex"`, `"simplex-plus"`, `"orthogonal-fast"`
        or `"simplex-fast"` and norms `"independent"` (if left out), `"pnc"`, `"monotone"` or
        `"stratified"`, as in `"orthogonal+pnc"`, or `"copula:ROWS"` as `GaussianCopulaNorms`
        writes it; names added by the register functions count.
    name
        What the argument is called in an error message.

    Raises
    ------
    InvalidInputError
        The text is not of that form; the choices are listed.
    """
    if isinstance(coupling, FrequencyCoupling):
        return coupling
    if not isinstance(coupling, str):
        raise InvalidInputError(
            f"{name}: expected a text such as 'orthogonal+pnc' or a FrequencyCoupling, "
            f"got {type(coupling).__name__}"
        )
    if coupling in COUPLINGS:
        return COUPLINGS[coupling]()
    head, *rest = coupling.split("+")
    if head in COUPLINGS:
        raise InvalidInputError(f"{name}: {head!r} stands alone, got {coupling!r}")
    if head not in DIRECTIONS:
        raise InvalidInputError(unknown_choice(head, [*COUPLINGS, *DIRECTIONS], name))
    antithetic = rest[-1:] == [ANTITHETIC]
    norms = rest[:-1] if antithetic else rest
    law, _, parameters = norms[0].partition(":") if norms else ("independent", "", "")
    if len(norms) > 1 or (law != COPULA and (parameters or law not in NORMS)):
        choices = [*NORMS, COPULA, ANTITHETIC]
        message = unknown_choice("+".join(rest), choices, f"{name}: after {head!r}")
        raise InvalidInputError(f"{message}; the form is directions[+norms][+{ANTITHETIC}]")
    made = GaussianCopulaNorms.from_text(parameters) if law == COPULA else NORMS[law]()
    return DirectionsAndNorms(DIRECTIONS[head](), made, antithetic)


def available_couplings() -> list[str]:
    """Text forms of every frequency coupling now registered."""
    composed = [
        str(DirectionsAndNorms(make_directions(), make_norms(), antithetic))
        for make_directions in DIRECTIONS.values()
        for make_norms in NORMS.values()
        for antithetic in (False, True)
    ]
    return [*COUPLINGS, *composed]


def register_directions(name: str, make: Callable[[], Directions]) -> None:
    """Make a law of directions known to the text form under `name`."""
    register(name, make, DIRECTIONS, _taken())


def register_norms(name: str, make: Callable[[], Norms]) -> None:
    """Make a law of norms known to the text form under `name`."""
    register(name, make, NORMS, _taken())


def register_coupling(name: str, make: Callable[[], FrequencyCoupling]) -> None:
    """Make a whole frequency coupling known to the text form under `name`."""
    register(name, make, COUPLINGS, _taken())


def _taken() -> set[str]:
    return {ANTITHETIC, COPULA, *DIRECTIONS, *NORMS, *COUPLINGS}
