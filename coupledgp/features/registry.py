"""Names of feature maps of Euclidean inputs, the values of every argument `features`.

What the frequencies of a feature map are: one description for texts, tables and files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.couplings import CouplingLike, DirectionsAndNorms, FrequencyCoupling
from coupledgp.couplings.frequencies.hadamard import (
    FastDirections,
    HadamardRotations,
    StructuredFrequencies,
)
from coupledgp.couplings.frequencies.registry import (
    DIRECTIONS,
    NORMS,
    PosteriorLaw,
    describe_coupling,
)
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.features.base import FeatureMap
from coupledgp.features.fourier import FourierFeatures
from coupledgp.features.laplace import ImportanceLaplaceFeatures, LaplaceFeatures
from coupledgp.ground.codec import named, stored, stored_as
from coupledgp.ground.tensors import Tensor, is_module, torch
from coupledgp.random import FloatArray, Seed, as_rng
from coupledgp.registry import Registry
from coupledgp.spectra import GaussianSpectrum, Spectrum, SpectrumLike, parse_spectrum

FeatureFactory: TypeAlias = Callable[..., FeatureMap]
FeaturesLike: TypeAlias = str | FeatureFactory


def _makes_features(value: Any) -> bool:
    """Whether a value is a subclass of FeatureMap or a function."""
    if isinstance(value, type):
        return issubclass(value, FeatureMap)
    return callable(value) and not (isinstance(value, FeatureMap) or is_module(value))


# Largest number of rows from which a proposal is made: frequencies cost one exponential for each.
PROPOSAL_ROWS = 4096
FEATURE_MAPS: Registry[FeatureFactory] = Registry(
    FeatureMap,
    "coupledgp.features",
    {
        "fourier": FourierFeatures,
        "laplace": LaplaceFeatures,
        "importance-laplace": ImportanceLaplaceFeatures,
    },
    accepts=_makes_features,
    expected="a subclass of FeatureMap or a function of its arguments",
)


def parse_features(features: FeaturesLike, name: str = "features") -> FeatureFactory:
    """Return the class or function that a name stands for, or the class or function itself.

    Parameters
    ----------
    features
        `"fourier"`, `"laplace"`, `"importance-laplace"` or a registered name; a subclass of
        `FeatureMap`; or a function `(dim, n_frequencies, coupling, spectrum, generator, *, dtype)`
        that makes a `FeatureMap`.
    name
        Name of the argument in error messages.

    Raises
    ------
    InvalidInputError
        The text names no feature map; the choices are listed.

    Examples
    --------
    >>> from coupledgp.features import FourierFeatures, parse_features
    >>> parse_features("fourier") is FourierFeatures
    True
    >>> parse_features(FourierFeatures) is FourierFeatures
    True
    """
    return FEATURE_MAPS.parse(features, name)


def make_features(
    features: FeaturesLike,
    dim: int,
    n_frequencies: int,
    coupling: CouplingLike | None = None,
    spectrum: SpectrumLike = "gaussian",
    generator: Seed = None,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    name: str = "features",
    rows: ArrayLike | None = None,
) -> FeatureMap:
    """Draw a feature map of any kind.

    Parameters
    ----------
    features, name
        As in `parse_features`.
    dim, n_frequencies, coupling, spectrum, generator, dtype, device
        As in `FeatureMap`; without a coupling, the map's own default.
    rows
        Scaled inputs (n, d) whose law matters, for maps that are made `from_rows`; others do not
        look at them. Of more than 4096 rows, as many are drawn.

    Raises
    ------
    InvalidInputError
        An argument is invalid, rows are needed and there are none, or a function makes something
        else.
    """
    options: dict[str, Any] = {"spectrum": spectrum, "generator": generator, "dtype": dtype}
    if coupling is not None:
        options["coupling"] = coupling
    make = parse_features(features, name)
    if features_class(make).from_rows:
        rng = options["generator"] = as_rng(generator)
        made = make(
            _proposal_rows(make, rows, options.pop("spectrum"), rng), n_frequencies, **options
        )
    else:
        made = make(dim, n_frequencies, **options)
    if not isinstance(made, FeatureMap):
        raise InvalidInputError(
            f"{name}: expected a function that makes a FeatureMap, got one that makes "
            f"{type(made).__name__}"
        )
    made.maker = make
    return made if device is None else made.to(device)


def _proposal_rows(
    make: FeatureFactory, rows: ArrayLike | None, spectrum: SpectrumLike, rng: np.random.Generator
) -> FloatArray:
    """The rows (n, d) from which a map is made, at most PROPOSAL_ROWS of them."""
    kind = features_class(make).__name__
    if rows is None:
        raise InvalidInputError(
            f"features: {kind} are made from rows, which only SparseSpectrumGPRegressor and kernel "
            "regression pass on; use 'laplace' here, or a function that makes them from rows"
        )
    if not isinstance(parse_spectrum(spectrum), GaussianSpectrum):
        raise InvalidInputError(
            f"kernel: {kind} exist for 'gaussian' only, got {str(spectrum)!r}; use 'fourier'"
        )
    found: FloatArray = np.asarray(rows, dtype=np.float64)
    if len(found) > PROPOSAL_ROWS:
        found = found[np.sort(rng.choice(len(found), PROPOSAL_ROWS, replace=False))]
    return found


@stored
class StoredFeatures(NamedTuple):
    """A map in a file: the arguments of which it was made, and its tensors."""

    features: str
    dim: int
    n_frequencies: int
    coupling: FrequencyCoupling
    spectrum: Spectrum
    state: dict[str, Tensor]

    def read_back(self) -> FeatureMap:
        """The map, with these tensors.

        Raises
        ------
        ModelFileError
            There are fewer numbers than the map has columns or frequencies.
        InvalidInputError
            The names or shapes of the tensors are not those of such a map.
        """
        size, n = max(self.dim, self.n_frequencies), sum(t.numel() for t in self.state.values())
        if not 0 < size <= 4 * n:
            raise ModelFileError(f"features: expected tensors of {size} frequencies, got {n}")
        drawn, rows = StoredFrequencies(self.coupling, self.state), np.zeros((1, self.dim))
        made = make_features(
            self.features, self.dim, self.n_frequencies, drawn, self.spectrum, 0, rows=rows
        )
        made.coupling = self.coupling
        return made.load_state_dict(self.state)


def _stored(made: FeatureMap) -> StoredFeatures:
    text = named(features_text(made), "features", made.maker)
    state = {name: tensor.contiguous() for name, tensor in made.state_dict().items()}
    return StoredFeatures(
        text, made.dim, made.n_frequencies, made.coupling, made.spectrum, state
    )  # fmt: skip


stored_as(FeatureMap, _stored, lambda made: made, FeatureMap)


class StoredFrequencies(FrequencyCoupling):
    """The frequencies of a `state_dict()` in place of a draw, which may be much larger than they.

    Parameters
    ----------
    coupling
        The coupling from which they were drawn.
    state
        The `state_dict()` of a feature map.
    """

    def __init__(self, coupling: FrequencyCoupling, state: Mapping[str, Tensor]) -> None:
        self.coupling, self.state = coupling, state

    @property
    def even_only(self) -> bool:
        return self.coupling.even_only

    def structured(
        self,
        n_frequencies: int,
        dim: int,
        spectrum: SpectrumLike = "gaussian",
        generator: Seed = None,
    ) -> StructuredFrequencies | None:
        own = self.coupling
        fast = isinstance(own, DirectionsAndNorms) and isinstance(own.directions, FastDirections)
        if "frequencies" in self.state or not fast:
            return None
        assert isinstance(own, DirectionsAndNorms)
        assert isinstance(own.directions, FastDirections)
        ambient, drawn = own.directions.ambient_dim(dim), own.n_drawn(n_frequencies)
        blocks = -(-drawn // ambient)
        norms = self._array("transform.norms", (drawn,))
        units = self._array("transform.units", (blocks, ambient))
        signs = self._array("transform.signs", (blocks, 2, ambient), ("int8",))
        if not (np.abs(signs) == 1).all():
            raise InvalidInputError("transform.signs: expected 1 or -1 each, got others")
        return StructuredFrequencies(
            n_frequencies, dim, norms, HadamardRotations(units, signs), own.directions.simplex,
            own.antithetic,
        )  # fmt: skip

    def _array(
        self,
        name: str,
        shape: tuple[int, ...],
        dtypes: tuple[str, ...] = ("float32", "float64"),
    ) -> Any:
        """A finite array of a shape and of one of some types that has to be in the state."""
        found = None if self.state.get(name) is None else np.asarray(self.state[name])
        if found is None or found.shape != shape or found.dtype not in dtypes:
            got = "none" if found is None else f"{found.shape} of {found.dtype}"
            wanted = " or ".join(dtypes)
            raise InvalidInputError(f"{name}: expected shape {shape} of {wanted}, got {got}")
        if not (abs(float(found.min())) < np.inf and abs(float(found.max())) < np.inf):
            raise InvalidInputError(f"{name}: expected finite numbers, got NaN or inf")
        return found

    def _sample(
        self, n_frequencies: int, dim: int, spectrum: Spectrum, rng: np.random.Generator
    ) -> FloatArray:
        found: FloatArray = self._array("frequencies", (n_frequencies, dim))
        return found


def features_text(features: FeaturesLike | FeatureMap) -> str | None:
    """The registered name of a class or function, or of the maker of a map; None without one."""
    if isinstance(features, str):
        return features
    return FEATURE_MAPS.text_of(features.maker if isinstance(features, FeatureMap) else features)


def features_class(features: FeaturesLike) -> type[FeatureMap]:
    """The class that a name or class stands for; `FeatureMap` itself for a function.

    Its class attributes, such as `couplings_to_try`, are known before a map is made.
    """
    made = parse_features(features)
    return made if isinstance(made, type) else FeatureMap


def available_features() -> list[str]:
    """Names of every feature map now registered.

    Examples
    --------
    >>> from coupledgp.features import available_features
    >>> available_features()[:3]
    ['fourier', 'laplace', 'importance-laplace']
    """
    return FEATURE_MAPS.available()


def register_features(name: str, make: FeatureFactory, *, replace: bool = False) -> None:
    """Make a subclass of `FeatureMap`, or a function, known under `name`.

    See `parse_features` for the function, `Registry.register` for the rest.

    Examples
    --------
    >>> from coupledgp.features import FourierFeatures, parse_features, register_features
    >>> class Waves(FourierFeatures):
    ...     couplings_to_try = ("orthogonal", "halton")
    >>> register_features("waves", Waves)
    >>> parse_features("waves").couplings_to_try
    ('orthogonal', 'halton')
    """
    FEATURE_MAPS.register(name, make, replace=replace)


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

    Examples
    --------
    >>> from coupledgp.features import FourierFeatures
    >>> from coupledgp.features.registry import Drawn
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

    @classmethod
    def of(cls, made: FeatureMap) -> Drawn:
        """Describe a map."""
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
        elif made.weights is not None and not ruled and not made.from_rows:
            law = "fitted"
        weights = "rule" if ruled else WEIGHTS.get(law, "equal")
        return cls(name, str(made.spectrum), made.n_frequencies, law, coupling, *parts, weights)

    @property
    def name(self) -> str:
        """The coupling, or the law that took its place, as studies name it."""
        return self.coupling if self.law in ("kernel", "rows") and self.coupling else self.law

    def __str__(self) -> str:
        """Return all in words."""
        how = HOW[self.law].format(coupling=self.coupling)
        if self.weights == "rule":
            how = f"placed by {self.coupling} with the weights of its rule"
        own = "" if self.weights in ("equal", "rule") else f", with {self.weights} weights"
        what = f"{self.number} {self.features} frequencies of the {self.kernel} kernel"
        return f"{what}, {how}{own}"

    def to_dict(self) -> dict[str, Any]:
        """Return the parts, the name and the text as plain values."""
        return asdict(self) | {"name": self.name, "text": str(self)}
