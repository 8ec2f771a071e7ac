"""Features of an expression of kernels: those of each term of its sum, in the term's own columns.

* A constant has a column of ones, a linear trend the columns themselves.
* Kernels of one column or category, products of two of these, and sums of such products
  (`additive`) have eigenfunctions of the kernel of each column under the column's own law.
* Stationary kernels of several columns have waves of coupled frequencies. A product of such kernels
  on other columns has the product of their spectra. A sphere has waves in space.

Eigenfunctions are those of Nystrom at points z of weights p: `k(x, z) diag(p)^1/2 V lam^-1/2` with
`diag(p)^1/2 k(z, z) diag(p)^1/2 = V diag(lam) V'` (Rasmussen and Williams, 2006, section 8.1).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import ClassVar

import numpy as np

from coupledgp.couplings import CouplingLike, parse_coupling
from coupledgp.errors import InvalidInputError
from coupledgp.expressions import Factor
from coupledgp.features.axes.eigenfunctions import ColumnLaw, n_kept, nystrom
from coupledgp.ground.devices import CPU
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.kernels.row_covariance import RowCovariance, RowLeaf, Summand
from coupledgp.kernels.rows import Categorical, Linear, Sphere
from coupledgp.metrics import Metric
from coupledgp.random import FloatArray, IntArray
from coupledgp.spectra import GaussianSpectrum, Spectrum

# Share of the trace that left out eigenfunctions may have, most of a column and of a pair, fewest
# of a pair, and most features of all pairs.
LOST, OF_COLUMN, OF_PAIR, LEAST_OF_PAIR, OF_PAIRS = 1e-9, 64, 96, 8, 1600
# Levels of a category in the law of its column.
MOST_LEVELS = 512


@dataclass(frozen=True, eq=False)
class Trend:
    """A constant, or the columns of a linear trend within its ends."""

    leaf: RowLeaf | None

    def at(self, inputs: FloatArray) -> FloatArray:
        """Features (n, m) at rows (n, D)."""
        if self.leaf is None:
            return np.ones((len(inputs), 1))
        own = inputs[:, self.leaf.numbers]
        low, high = (getattr(self.leaf.kernel, name, None) for name in ("low", "high"))
        if low is None:
            return own
        inside = np.clip(own, low, high)
        return np.hstack([inside, own - inside])


@dataclass(frozen=True, eq=False)
class Waves:
    """A product of stationary kernels of different columns, one part for each."""

    parts: tuple[RowLeaf, ...]

    @property
    def spectra(self) -> list[tuple[Spectrum, int]]:
        """Spectrum and dimension of each part."""
        return [
            (part.kernel.base, 3) if isinstance(part.kernel, Sphere)
            else (_spectrum(part), part.numbers.size)
            for part in self.parts
        ]  # fmt: skip

    def scaled(self, inputs: FloatArray) -> FloatArray:
        """Columns (n, d) of all parts at rows (n, D), in lengthscales."""
        found = []
        for part in self.parts:
            own, scale = inputs[:, part.numbers], np.exp(part.theta)
            if isinstance(part.kernel, Sphere):
                found.append(part.kernel.places(own) / scale)
            else:
                found.append(own / scale[part.groups])
        return np.hstack(found)


@dataclass(frozen=True, eq=False)
class Products:
    """A sum of products of kernels of single parts, over sets of one or two of its factors."""

    factors: tuple[Factor, ...]
    order: int

    @property
    def sets(self) -> list[tuple[Factor, ...]]:
        """Factors of each product."""
        return list(combinations(self.factors, self.order))


@dataclass(frozen=True, eq=False)
class FeatureTerm:
    """A term with a variance of its own, and what its features are made of."""

    variance: float
    made: Trend | Waves | Products


def feature_terms(covariance: RowCovariance, theta: FloatArray) -> list[FeatureTerm]:
    """Terms of an expression at hyperparameters theta (q,).

    Raises
    ------
    InvalidInputError
        A term has no features; the message names it.
    """
    return [term for one in covariance.summands(theta) for term in _terms(one)]


def _terms(summand: Summand) -> list[FeatureTerm]:
    leaves = summand.leaves
    if len(leaves) == 1 and isinstance(leaves[0].kernel, Linear):
        return [FeatureTerm(summand.variance, Trend(leaves[0]))]
    if _are_waves(leaves):
        return [FeatureTerm(summand.variance, Waves(leaves))]
    found = []
    for term in summand.axes or ():
        variance = summand.variance * term.variance
        if term.order == 0:
            found.append(FeatureTerm(variance, Trend(None)))
        elif term.order <= 2:
            found.append(FeatureTerm(variance, Products(term.factors, term.order)))
        elif term.order == len(term.factors):
            parts = tuple(RowLeaf.of(factor) for factor in term.factors)
            if not _are_waves(parts):
                raise _refused(summand)
            found.append(FeatureTerm(variance, Waves(parts)))
        else:
            raise _refused(summand)
    if not found:
        raise _refused(summand)
    return found


def _refused(summand: Summand) -> InvalidInputError:
    return InvalidInputError(
        "kernel: expected a sum of terms that have features (kernels of one or two columns, "
        "additive ones of order 2, stationary ones and their products on other columns, linear, "
        f"constant), got the term {summand.name}; ExactGPRegressor and GPRegressor fit it"
    )


def _spectrum(part: RowLeaf) -> Spectrum:
    assert isinstance(part.kernel, Spectrum)
    return part.kernel


def _are_waves(parts: tuple[RowLeaf, ...]) -> bool:
    """Whether a product of parts has coupled frequencies, and no eigenfunctions that do better."""
    for part in parts:
        known = isinstance(part.kernel, Sphere) or (
            isinstance(part.kernel, Spectrum) and part.kernel.metric is Metric.L2
        )
        if not known:
            return False
    columns = np.concatenate([part.numbers for part in parts]) if parts else np.empty(0)
    if not parts or np.unique(columns).size < columns.size:
        return False
    single = all(
        isinstance(part.kernel, GaussianSpectrum) or np.unique(part.groups).size == 1
        for part in parts
    )
    sphere = any(isinstance(part.kernel, Sphere) for part in parts)
    n_groups = sum(np.unique(part.groups).size for part in parts)
    return sphere or n_groups > 2 or not single


@dataclass(frozen=True, eq=False)
class ExpressionFeatures:
    """A frozen map of features `phi` whose dot products estimate an expression, `phi phi' ~ K / V`.

    Attributes
    ----------
    covariance : RowCovariance
        The expression.
    theta : FloatArray (q,)
        Its hyperparameters.
    arrays : mapping of str to FloatArray
        Points, eigenvectors, products and frequencies, by which a file has it.
    unit : float
        Variance V.
    n_frequencies : int
        Number of frequencies of each term that has waves.
    coupling : object
        Their joint law, or its text.
    """

    covariance: RowCovariance
    theta: FloatArray
    arrays: Mapping[str, FloatArray]
    unit: float
    n_frequencies: int
    coupling: CouplingLike
    device: ClassVar[torch.device] = CPU
    maker: ClassVar[None] = None
    from_rows: ClassVar[bool] = False

    @classmethod
    def of(
        cls,
        covariance: RowCovariance,
        theta: FloatArray,
        inputs: FloatArray,
        n_frequencies: int,
        coupling: CouplingLike,
        rng: np.random.Generator,
        unit: float = 1.0,
    ) -> ExpressionFeatures:
        """Features with eigenfunctions under the laws of the columns of rows (n, D).

        Raises
        ------
        InvalidInputError
            A term has no features, or there are too many pairs.
        """
        arrays: dict[str, FloatArray] = {}
        values: dict[str, FloatArray] = {}
        for place, term in enumerate(feature_terms(covariance, theta)):
            made = term.made
            if isinstance(made, Waves):
                law = parse_coupling(coupling)
                drawn: list[FloatArray] = []
                for (spectrum, dim), stream in zip(made.spectra, rng.spawn(len(made.parts)),
                                                   strict=True):  # fmt: skip
                    own = law.sample(n_frequencies, dim, spectrum, stream)
                    drawn.append(own[stream.permutation(n_frequencies)] if drawn else own)
                arrays[f"{place}.frequencies"] = np.hstack(drawn)
            elif isinstance(made, Products):
                for factor in made.factors:
                    name = _axis_name(factor)
                    if f"{name}.points" not in arrays:
                        most = MOST_LEVELS if isinstance(factor.kernel, Categorical) else OF_COLUMN
                        columns = ColumnLaw.of(inputs[:, factor.columns], most)
                        gram = factor.gram(columns.points, columns.points)
                        values[name], matrix = nystrom(gram, columns.weights)
                        arrays[f"{name}.points"], arrays[f"{name}.matrix"] = columns.points, matrix
                arrays[f"{place}.products"] = _chosen(made, values)
        return cls(covariance, theta, arrays, unit, n_frequencies, coupling)

    @cached_property
    def terms(self) -> list[FeatureTerm]:
        """The terms of the expression."""
        return feature_terms(self.covariance, self.theta)

    @property
    def dtype(self) -> torch.dtype:
        """Double precision."""
        return torch.float64

    @property
    def dim(self) -> int:
        """Number D of columns."""
        return self.covariance.columns.groups.size

    @cached_property
    def groups(self) -> IntArray:
        """Number (M,) of the term of each feature."""
        row = np.zeros((1, self.dim))
        values, places = self._values(row), range(len(self.terms))
        return np.repeat(places, [self._term(k, values, row).shape[1] for k in places])

    @property
    def digest(self) -> str:
        """SHA-256 of hyperparameters and arrays."""
        found = hashlib.sha256(np.asarray(self.theta).tobytes())
        for name in sorted(self.arrays):
            found.update(name.encode() + self.arrays[name].tobytes())
        return found.hexdigest()

    @property
    def n_features(self) -> int:
        """Number M of features."""
        return self.groups.size

    def _values(self, inputs: FloatArray) -> dict[str, FloatArray]:
        """Eigenfunctions (R, n) of each factor at rows (n, D)."""
        found: dict[str, FloatArray] = {}
        for term in self.terms:
            for factor in term.made.factors if isinstance(term.made, Products) else ():
                name = _axis_name(factor)
                if name not in found:
                    points, matrix = (
                        self.arrays[f"{name}.{part}"] for part in ("points", "matrix")
                    )
                    own = factor.gram(inputs[:, factor.columns], points) @ matrix
                    found[name] = np.ascontiguousarray(own.T)
        return found

    def _term(self, place: int, values: Mapping[str, FloatArray], inputs: FloatArray) -> FloatArray:
        """Features (n, m) of a term, with its variance."""
        term = self.terms[place]
        if isinstance(term.made, Trend):
            found = term.made.at(inputs)
        elif isinstance(term.made, Waves):
            frequencies = self.arrays[f"{place}.frequencies"]
            phases = term.made.scaled(inputs) @ frequencies.T
            found = np.hstack([np.cos(phases), np.sin(phases)]) / len(frequencies) ** 0.5
        else:
            sets, parts = term.made.sets, []
            for number, *rows in self.arrays[f"{place}.products"].astype(np.int64).T.tolist():
                product = np.ones(len(inputs))
                for factor, row in zip(sets[number], rows, strict=True):
                    product = product * values[_axis_name(factor)][row]
                parts.append(product)
            found = np.array(parts).T
        return (term.variance / self.unit) ** 0.5 * found

    def at(self, inputs: FloatArray) -> FloatArray:
        """Features (n, M) at standardised rows (n, D)."""
        values = self._values(inputs)
        return np.hstack([self._term(k, values, inputs) for k in range(len(self.terms))])

    def __call__(self, inputs: Tensor, out: Tensor | None = None) -> Tensor:
        """`at` of tensors, written to `out` if it is given."""
        found = torch.as_tensor(self.at(inputs.numpy()))
        return found if out is None else out.copy_(found)

    def lost(self, inputs: FloatArray) -> FloatArray:
        """Covariance (p, p) that eigenfunctions leave out at rows (p, D), over V."""
        values, found = self._values(inputs), np.zeros((len(inputs), len(inputs)))
        for place, term in enumerate(self.terms):
            if isinstance(term.made, Products):
                own = self._term(place, values, inputs)
                grams = {
                    _axis_name(f): f.gram(inputs[:, f.columns], inputs[:, f.columns])
                    for f in term.made.factors
                }
                for factors in term.made.sets:
                    product = np.prod([grams[_axis_name(f)] for f in factors], axis=0)
                    found += term.variance / self.unit * product
                found -= own @ own.T
        return found


def _axis_name(factor: Factor) -> str:
    """Name of the eigenfunctions of a factor among the arrays."""
    columns = "-".join(map(str, factor.columns))
    theta = np.asarray(factor.theta).tobytes().hex()
    return f"axis.{columns}.{factor.kernel}.{theta}"


def _chosen(made: Products, values: Mapping[str, FloatArray]) -> FloatArray:
    """Number of the set, and of each factor's eigenfunction, (1 + q, m) of the products to keep.

    Raises
    ------
    InvalidInputError
        There are more pairs than features for them.
    """
    sets, found = made.sets, []
    most = OF_COLUMN if made.order == 1 else min(OF_PAIR, OF_PAIRS // max(len(sets), 1))
    if made.order == 2 and most < LEAST_OF_PAIR:
        raise InvalidInputError(
            f"kernel: expected at most {OF_PAIRS // LEAST_OF_PAIR} pairs of columns, got "
            f"{len(sets)}; name fewer columns by additive(2)[...]"
        )
    for number, factors in enumerate(sets):
        products = values[_axis_name(factors[0])]
        for factor in factors[1:]:
            products = np.multiply.outer(products, values[_axis_name(factor)])
        order = np.argsort(-products, axis=None, kind="stable")
        falling = products.ravel()[order]
        needed = int(np.searchsorted(np.cumsum(falling), (1 - LOST) * falling.sum())) + 1
        whole = made.order == 1 or needed <= most
        kept = needed if whole else n_kept(falling, most, 4 * most)
        places = np.unravel_index(np.sort(order[:kept]), products.shape)
        found.append(np.stack([np.full(kept, number), *places]))
    return np.hstack(found).astype(np.float64)
