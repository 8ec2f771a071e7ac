"""Frequencies as directions times norms, and the text form of every coupling (MATH 3).

The law of frequencies drawn for a posterior, which stands where couplings do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from coupledgp.couplings.frequencies.base import FrequencyCoupling
from coupledgp.couplings.frequencies.directions import (
    Directions,
    IidDirections,
    OrthogonalDirections,
    SimplexDirections,
    SimplexPlusDirections,
)
from coupledgp.couplings.frequencies.hadamard import FastDirections, StructuredFrequencies
from coupledgp.couplings.frequencies.norms import (
    GaussianCopulaNorms,
    IndependentNorms,
    MonotoneNorms,
    Norms,
    PairwiseNorms,
    SharedStrataNorms,
    StratifiedNorms,
)
from coupledgp.couplings.frequencies.quadrature import QuadratureFrequencies, QuasiMonteCarlo
from coupledgp.errors import InvalidInputError
from coupledgp.ground.codec import stored_as
from coupledgp.ground.validation import check_positive_int, unknown_choice
from coupledgp.random import FloatArray, Seed, as_rng
from coupledgp.registry import Registry, TextForm, check_text
from coupledgp.spectra import GaussianSpectrum, Spectrum, SpectrumLike, parse_spectrum

ANTITHETIC, COPULA = "antithetic", "copula"


def _copula_of(text: str) -> Norms | None:
    """The law that `copula:ROWS` stands for."""
    law, _, rows = text.partition(":")
    return GaussianCopulaNorms.from_text(rows) if law == COPULA else None


WORDS = {ANTITHETIC, COPULA}
DIRECTIONS: Registry[Directions] = Registry(
    Directions,
    "coupledgp.directions",
    {
        "iid": IidDirections(),
        "orthogonal": OrthogonalDirections(),
        "simplex": SimplexDirections(),
        "simplex-plus": SimplexPlusDirections(),
        "orthogonal-fast": FastDirections(),
        "simplex-fast": FastDirections(simplex=True),
    },
    taken=WORDS,
)
NORMS: Registry[Norms] = Registry(
    Norms,
    "coupledgp.norms",
    {
        "independent": IndependentNorms(),
        "pnc": PairwiseNorms(),
        "monotone": MonotoneNorms(),
        "stratified": StratifiedNorms(),
        "shared-strata": SharedStrataNorms(),
    },
    taken=WORDS,
    patterns={COPULA: _copula_of},
)
COUPLINGS: Registry[FrequencyCoupling] = Registry(
    FrequencyCoupling,
    "coupledgp.couplings",
    {
        "halton": QuasiMonteCarlo("halton"),
        "sobol": QuasiMonteCarlo("sobol"),
        "halton-half": QuasiMonteCarlo("halton", half_space=True),
        "sobol-half": QuasiMonteCarlo("sobol", half_space=True),
        "quadrature": QuadratureFrequencies(),
        "quadrature+antithetic": QuadratureFrequencies(antithetic=True),
    },
    taken=WORDS,
)
FORM = TextForm(DIRECTIONS, NORMS, "independent", f"directions[+norms][+{ANTITHETIC}]", ANTITHETIC)
# What samples frequencies where no coupling is named.
DEFAULT_COUPLING = "orthogonal+pnc"
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
        if m is odd), `m` in all. For Fourier features the negatives add nothing, since cosine is
        even: for even m the estimate is that of m / 2 frequencies.

    Examples
    --------
    >>> from coupledgp.couplings import DirectionsAndNorms, MonotoneNorms, OrthogonalDirections
    >>> from coupledgp.couplings import parse_coupling
    >>> coupling = DirectionsAndNorms(OrthogonalDirections(), MonotoneNorms(), antithetic=True)
    >>> str(coupling)
    'orthogonal+monotone+antithetic'
    >>> coupling == parse_coupling("orthogonal+monotone+antithetic")
    True
    >>> frequencies = coupling.sample(6, 3, generator=0)
    >>> bool((frequencies[3:] == -frequencies[:3]).all())
    True
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
        """Norms (n_drawn,) of the drawn frequencies, in the dimension of the directions."""
        n_drawn = self.n_drawn(n_frequencies)
        return norms_from_uniforms(self.norms.sample(n_drawn, dim, rng), dim, spectrum)

    def n_drawn(self, n_frequencies: int) -> int:
        """Number of frequencies that are drawn; all further ones are negatives of drawn ones."""
        return -(-n_frequencies // 2) if self.antithetic else n_frequencies

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
        return FORM.describe(self.directions, self.norms, self.antithetic)


def norms_from_uniforms(u: FloatArray, dim: int, spectrum: Spectrum) -> FloatArray:
    """Norms `F^-1(u)` at uniforms u of any shape, each inverted from its nearer tail."""
    lower = u <= 0.5
    norms = np.empty_like(u)
    norms[lower] = spectrum.norm_ppf(u[lower], dim)
    norms[~lower] = spectrum.norm_isf(1.0 - u[~lower], dim)
    return norms


CouplingLike: TypeAlias = str | FrequencyCoupling


def parse_coupling(coupling: CouplingLike, name: str = "coupling") -> FrequencyCoupling:
    """Return the frequency coupling a text names, or the object itself.

    Parameters
    ----------
    coupling
        `"halton"`, `"sobol"`, `"halton-half"`, `"sobol-half"`, `"quadrature[+antithetic]"`, or
        `directions[+norms][+antithetic]` with directions `"iid"`, `"orthogonal"`, `"simplex"`,
        `"simplex-plus"`, `"orthogonal-fast"` or `"simplex-fast"` and norms `"independent"` (if left
        out), `"pnc"`, `"monotone"`, `"stratified"` or `"shared-strata"`, as in `"orthogonal+pnc"`,
        or `"copula:ROWS"` as `GaussianCopulaNorms` writes it; names added by the register functions
        count.
    name
        Name of the argument in error messages.

    Raises
    ------
    InvalidInputError
        The text is not of that form; the choices are listed.

    Examples
    --------
    >>> from coupledgp.couplings import parse_coupling
    >>> coupling = parse_coupling("orthogonal+pnc")
    >>> coupling.directions, coupling.norms
    (OrthogonalDirections(), PairwiseNorms())
    >>> coupling.sample(8, 3, "matern-3/2", generator=0).shape
    (8, 3)
    """
    if isinstance(coupling, FrequencyCoupling):
        return coupling
    text = check_text(coupling, FrequencyCoupling, "orthogonal+pnc", name)
    head = text.partition("+")[0]
    whole = None if head in DIRECTIONS else COUPLINGS.find(text)
    if whole is not None:
        return whole
    if head in COUPLINGS:
        raise InvalidInputError(f"{name}: {head!r} stands alone, got {text!r}")
    if DIRECTIONS.find(head) is None:
        choices = [*COUPLINGS.choices(), *DIRECTIONS.choices()]
        raise InvalidInputError(unknown_choice(head, choices, name))
    return DirectionsAndNorms(*FORM.parse(text, name))


def coupling_text(coupling: FrequencyCoupling) -> str | None:
    """The text from which `parse_coupling` makes an equal coupling, for files; None without one."""
    if isinstance(coupling, DirectionsAndNorms):
        return FORM.text_of(coupling.directions, coupling.norms, coupling.antithetic)
    return COUPLINGS.text_of(coupling)


def describe_coupling(coupling: Any) -> str:
    """A short text to print of a coupling of frequencies or walkers: its text form if it has one.

    A registered coupling without a `__str__` of its own has its name, any other `str(coupling)`.
    """
    whole = isinstance(coupling, FrequencyCoupling) and not isinstance(coupling, DirectionsAndNorms)
    return COUPLINGS.describe(coupling) if whole else str(coupling)


def available_couplings() -> list[str]:
    """Text forms of every frequency coupling now registered.

    Examples
    --------
    >>> from coupledgp.couplings import available_couplings
    >>> [text for text in available_couplings() if text.startswith("simplex-fast")][:3]
    ['simplex-fast', 'simplex-fast+antithetic', 'simplex-fast+pnc']
    """
    return [*COUPLINGS.available(), *FORM.available()]


def register_directions(
    name: str, make: Directions | Callable[[], Directions], *, replace: bool = False
) -> None:
    """Make a law of directions known to the text form under `name`; see `Registry.register`.

    Examples
    --------
    >>> from coupledgp.couplings import SimplexPlusDirections, parse_coupling, register_directions
    >>> register_directions("rough-simplex", SimplexPlusDirections(tolerance=0.01))
    >>> parse_coupling("rough-simplex+pnc").directions.tolerance
    0.01
    """
    DIRECTIONS.register(name, make, replace=replace)


def register_norms(name: str, make: Norms | Callable[[], Norms], *, replace: bool = False) -> None:
    """Make a law of norms known to the text form under `name`; see `Registry.register`.

    Examples
    --------
    >>> from coupledgp.couplings import GaussianCopulaNorms, parse_coupling, register_norms
    >>> register_norms("half-opposed", GaussianCopulaNorms([[1, -0.5], [-0.5, 1]]))
    >>> parse_coupling("orthogonal+half-opposed").norms.correlation
    ((1.0, -0.5), (-0.5, 1.0))
    """
    NORMS.register(name, make, replace=replace)


def register_coupling(
    name: str, make: FrequencyCoupling | Callable[[], FrequencyCoupling], *, replace: bool = False
) -> None:
    """Make a whole coupling known to the text form under `name`; see `Registry.register`.

    Examples
    --------
    >>> from coupledgp.couplings import parse_coupling, register_coupling
    >>> register_coupling("attentive", parse_coupling("orthogonal+monotone"))
    >>> str(parse_coupling("attentive"))
    'orthogonal+monotone'
    """
    COUPLINGS.register(name, make, replace=replace)


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


def _text(coupling: FrequencyCoupling) -> str | None:
    return POSTERIOR if isinstance(coupling, PosteriorLaw) else coupling_text(coupling)


stored_as(FrequencyCoupling, _text, parse_law)
