"""What the frequencies of a feature map are: one description for texts, tables and files."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from coupledgp.couplings.frequencies.posterior import PosteriorLaw
from coupledgp.couplings.frequencies.registry import (
    DIRECTIONS,
    NORMS,
    DirectionsAndNorms,
    describe_coupling,
)
from coupledgp.features.registry import features_text

if TYPE_CHECKING:
    from coupledgp.features.base import FeatureMap

# How frequencies of each law were made, and their weights where these are of its own.
HOW = {
    "kernel": "sampled by {coupling}",
    "rows": "sampled by {coupling} where the rows need them",
    "posterior": "drawn for the posterior",
    "fitted": "fitted from a start by {coupling}",
}
WEIGHTS = {"rows": "importance", "posterior": "importance", "fitted": "fitted"}


@dataclass(frozen=True)
class Drawn:
    """What the frequencies of a model are.

    Attributes
    ----------
    features, kernel : str
        The feature map, and the kernel that it estimates.
    number : int
        Number of frequencies.
    law : str
        `"kernel"`: sampled from the kernel's spectral measure. `"posterior"`: drawn for
        the posterior. `"rows"`: from the proposal of least variance at
        the rows. `"fitted"`: moved to where the data want them.
    coupling, directions, norms : str or None
        Joint law that they were sampled from, or moved from, and its parts if it has any.
    weights : str
        `"equal"`, `"importance"`, `"fitted"`, or `"rule"` for those of a quadrature.
    n_fitted : int
        Number of fitted spectra that are mixed with the sampled one.

    Examples
    --------
    >>> from coupledgp.features import FourierFeatures
    >>> from coupledgp.features.drawn import Drawn
    >>> found = Drawn.of(FourierFeatures(3, 16, "orthogonal+pnc", generator=0))
    >>> print(found)
    16 fourier frequencies of the gaussian kernel, sampled by orthogonal+pnc
    >>> found.name, found.norms
    ('orthogonal+pnc', 'pnc')
    """

    features: str
    kernel: str
    number: int
    law: str
    coupling: str | None
    directions: str | None
    norms: str | None
    weights: str
    n_fitted: int = 0

    @classmethod
    def of(cls, made: FeatureMap, n_fitted: int = 0) -> Drawn:
        """Describe a map, mixed with so many others whose frequencies were fitted."""
        own, maker = made.coupling, made.maker
        name = features_text(made) or str(getattr(maker, "__name__", type(made).__name__))
        ruled = own.weights(made.n_frequencies, made.dim, made.spectrum) is not None
        coupling = None if isinstance(own, PosteriorLaw) else describe_coupling(own)
        parts: tuple[str | None, str | None] = None, None
        if isinstance(own, DirectionsAndNorms):
            parts = DIRECTIONS.describe(own.directions), NORMS.describe(own.norms)
        law = "rows" if made.from_rows else "kernel"
        if isinstance(own, PosteriorLaw):
            law = str(own)
        elif n_fitted or (made.weights is not None and not ruled and not made.from_rows):
            law = "fitted"
        weights = "rule" if ruled else WEIGHTS.get(law, "equal")
        return cls(name, str(made.spectrum), made.n_frequencies, law, coupling, *parts,
                   weights, n_fitted)  # fmt: skip

    @property
    def name(self) -> str:
        """The coupling, or the law that took its place, as studies name it."""
        return self.coupling if self.law in ("kernel", "rows") and self.coupling else self.law

    def __str__(self) -> str:
        """Return all in words."""
        how = HOW[self.law].format(coupling=self.coupling)
        if self.n_fitted:
            how = f"sampled by {self.coupling} and mixed with {self.n_fitted} fitted spectra"
        if self.weights == "rule":
            how = f"placed by {self.coupling} with the weights of its rule"
        own = "" if self.weights in ("equal", "rule") else f", with {self.weights} weights"
        what = f"{self.number} {self.features} frequencies of the {self.kernel} kernel"
        return f"{what}, {how}{own}"

    def to_dict(self) -> dict[str, Any]:
        """Return the parts, the name and the text as plain values."""
        return asdict(self) | {"name": self.name, "text": str(self)}
