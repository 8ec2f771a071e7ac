"""Features of kernels that are sums over columns and over pairs of columns of a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.expressions import Factor
from coupledgp.features.axes.eigenfunctions import ColumnLaw, Eigenfunctions, n_kept
from coupledgp.random import FloatArray, IntArray
from coupledgp.spectra import Spectrum

# Features of a column and of a pair of columns (ADDITIVE.md of the design), the least of a pair,
# and by which factor they grow at most to keep equal eigenvalues together.
OF_COLUMN, OF_PAIR, LEAST_OF_PAIR, LIMIT = 16, 24, 6, 4
# Least variance of a term, of normalised targets: the data do not want such a term.
LEAST_VARIANCE = 1e-8
# Rows whose features are formed at once: they stay in a processor's cache.
BLOCK_ROWS = 512


class Support(ABC):
    """Features of the product of the centred kernels of some factors.

    Attributes
    ----------
    factors : tuple of int
        Numbers of the factors.
    """

    factors: tuple[int, ...]

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number m of features."""

    @abstractmethod
    def features(
        self, axes: Sequence[Eigenfunctions], values: Sequence[FloatArray], inputs: FloatArray
    ) -> FloatArray:
        """Features (m, n) at rows (n, d), where the factors' eigenfunctions have values (R, n)."""


@dataclass(frozen=True, eq=False)
class EigenSupport(Support):
    """Products `prod_j phi_{r_j}(x_j)` of eigenfunctions, those of the greatest eigenvalues.

    Attributes
    ----------
    factors : tuple of int
        See the base class.
    terms : IntArray (m, q)
        Numbers r of the eigenfunctions of each factor in each product.
    """

    factors: tuple[int, ...]
    terms: IntArray

    @classmethod
    def of(
        cls, axes: Sequence[Eigenfunctions], factors: tuple[int, ...], most: int
    ) -> EigenSupport:
        """About `most` products of one or two factors; see `n_kept`."""
        products = axes[factors[0]].eigenvalues
        for factor in factors[1:]:
            products = np.multiply.outer(products, axes[factor].eigenvalues)
        order = np.argsort(-products, axis=None, kind="stable")
        kept = order[: n_kept(products.ravel()[order], most, LIMIT * most)]
        terms = np.stack(np.unravel_index(np.sort(kept), products.shape), axis=1)
        return cls(factors, terms.astype(np.int64))

    @property
    def n_features(self) -> int:
        return len(self.terms)

    def features(
        self, axes: Sequence[Eigenfunctions], values: Sequence[FloatArray], inputs: FloatArray
    ) -> FloatArray:
        found = values[self.factors[0]][self.terms[:, 0]]
        for factor, own in zip(self.factors[1:], self.terms.T[1:], strict=True):
            found *= values[factor][own]
        return found


@dataclass(frozen=True, eq=False)
class FourierSupport(Support):
    """Real and imaginary parts of `prod_j (exp(i w_j x_j / l_j) - c_j(w_j)) / sqrt(m)`.

    `c_j(w) = sum_q p_q exp(i w z_q / l_j)` is the characteristic function of the law of column j.
    With coordinates `w_j` that are independent draws of the spectra of the factors' kernels, the
    products of two rows' features estimate the product of the centred kernels without bias; so they
    do under any joint law of the m frequencies each of which has this law. They suit three columns
    and more, where products of eigenfunctions are too many.

    Attributes
    ----------
    factors : tuple of int
        See the base class; each has one column and a stationary kernel.
    frequencies : FloatArray (m, q)
        Frequencies at unit lengthscales.
    """

    factors: tuple[int, ...]
    frequencies: FloatArray

    @classmethod
    def of(
        cls, axes: Sequence[Eigenfunctions], factors: tuple[int, ...], uniforms: FloatArray
    ) -> FourierSupport:
        """Frequencies from points (m, q) of the open unit cube, by the quantiles of each spectrum.

        Raises
        ------
        InvalidInputError
            A factor has several columns or a kernel that is not stationary.
        """
        columns = []
        for factor, own in zip(factors, uniforms.T, strict=True):
            kernel, used = axes[factor].factor.kernel, axes[factor].factor.columns
            if not isinstance(kernel, Spectrum) or len(used) > 1:
                raise InvalidInputError(
                    "kernel: expected stationary kernels of single columns in a product of three "
                    f"and more, got {kernel} of columns {list(used)}"
                )
            distance = np.minimum(own, 1.0 - own)  # from the nearer end, of which no digit is lost
            columns.append(np.sign(own - 0.5) * kernel.norm_isf(2.0 * distance, 1))
        return cls(factors, np.stack(columns, axis=1))

    @property
    def n_features(self) -> int:
        return 2 * len(self.frequencies)

    def features(
        self, axes: Sequence[Eigenfunctions], values: Sequence[FloatArray], inputs: FloatArray
    ) -> FloatArray:
        n_frequencies = len(self.frequencies)
        product = np.full((n_frequencies, len(inputs)), n_frequencies**-0.5 + 0j)
        for number, own in zip(self.factors, self.frequencies.T, strict=True):
            factor, law = axes[number].factor, axes[number].law
            scaled = 1j * own / np.exp(factor.theta)
            mean = law.weights @ np.exp(law.points * scaled)
            product *= (
                np.exp(np.multiply.outer(scaled, inputs[:, factor.columns[0]])) - mean[:, None]
            )
        return np.vstack([product.real, product.imag])


@dataclass(frozen=True, eq=False)
class AxisFeatures:
    """A frozen map of the features of a sum over columns and pairs, of weights of variance one.

    Attributes
    ----------
    axes : tuple of Eigenfunctions
        One for each factor.
    supports : tuple of Support
        Terms of the sum, G of them.
    """

    axes: tuple[Eigenfunctions, ...]
    supports: tuple[Support, ...]

    @classmethod
    def of(
        cls,
        factors: Sequence[Factor],
        inputs: FloatArray,
        supports: Sequence[tuple[int, ...]],
        of_column: int = OF_COLUMN,
        of_pair: int = OF_PAIR,
    ) -> AxisFeatures:
        """Eigenfeatures of columns and pairs under the laws of the columns of rows (n, d).

        Supports of factors that do not vary, or of pairs none of whose products can be told from
        the next, are left out.

        Parameters
        ----------
        factors
            Kernels of single columns or categories.
        inputs
            Standardised rows.
        supports
            Numbers of the one or two factors of each term.
        of_column, of_pair
            About how many features of a column and of a pair.
        """
        laws = [ColumnLaw.of(inputs[:, factor.columns]) for factor in factors]
        axes = [Eigenfunctions.of(*pair) for pair in zip(factors, laws, strict=True)]
        every = [
            EigenSupport.of(axes, own, of_column if len(own) == 1 else of_pair) for own in supports
        ]
        return cls(tuple(axes), tuple(own for own in every if own.n_features)).trimmed()

    def trimmed(self) -> AxisFeatures:
        """The same map without eigenfunctions that it does not use."""
        used = [0] * len(self.axes)
        for support in self.supports:
            if isinstance(support, EigenSupport):
                for factor, own in zip(support.factors, support.terms.T, strict=True):
                    used[factor] = max(used[factor], int(own.max()) + 1)
        axes = tuple(axis.first(n) for axis, n in zip(self.axes, used, strict=True))
        return AxisFeatures(axes, self.supports)

    @property
    def n_groups(self) -> int:
        """Number G of supports."""
        return len(self.supports)

    @property
    def n_features(self) -> int:
        """Number M of features."""
        return sum(own.n_features for own in self.supports)

    @property
    def groups(self) -> IntArray:
        """Number (M,) of the support of each feature."""
        return np.repeat(np.arange(self.n_groups), [own.n_features for own in self.supports])

    @property
    def mean_variances(self) -> FloatArray:
        """Variance (G,) of each term with weights of variance one, mean under the columns' laws.

        It is the sum of the eigenvalues of its features; other features have a mean square of about
        the product of the traces.
        """
        totals = [float(axis.trace) for axis in self.axes]
        return np.array([np.prod([totals[f] for f in own.factors]) for own in self.supports])

    @property
    def columns(self) -> tuple[tuple[int, ...], ...]:
        """Columns of the table in each support."""
        return tuple(
            tuple(column for factor in own.factors for column in self.axes[factor].factor.columns)
            for own in self.supports
        )

    def at(self, inputs: FloatArray) -> FloatArray:
        """Features (n, M) at standardised rows (n, d)."""
        found = np.empty((len(inputs), self.n_features))
        ends = np.cumsum([own.n_features for own in self.supports])
        for start in range(0, len(inputs), BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            own = inputs[rows]
            values = [np.ascontiguousarray(axis.at(own).T) for axis in self.axes]
            for support, end in zip(self.supports, ends, strict=True):
                part = support.features(self.axes, values, own)
                found[rows, end - len(part) : end] = part.T
        return found

    def kernel(self, a: FloatArray, b: FloatArray, variances: FloatArray) -> FloatArray:
        """`sum_g v_g prod_j c_j(x_j, x_j')` (n, p) of rows (n, d) and (p, d), variances v (G,).

        It is the kernel that the features approximate.
        """
        return self._sum([axis.kernel(a, b) for axis in self.axes], variances)

    def variance(self, inputs: FloatArray, variances: FloatArray) -> FloatArray:
        """Variance (n,) of rows (n, d) under `kernel`."""
        return self._sum([axis.variance(inputs) for axis in self.axes], variances)

    def lost(self, inputs: FloatArray, variances: FloatArray) -> FloatArray:
        """Covariance (p, p) that `kernel` has at rows (p, d) beyond that of the features.

        It is positive semidefinite: what is not known of f given its eigenfunctions.
        """
        scaled = self.at(inputs) * np.sqrt(variances)[self.groups]
        found: FloatArray = self.kernel(inputs, inputs, variances) - scaled @ scaled.T
        return found

    def lost_variance(self, inputs: FloatArray, variances: FloatArray) -> FloatArray:
        """Diagonal (p,) of `lost`, at least zero."""
        squares = np.square(self.at(inputs)) @ variances[self.groups]
        return np.maximum(self.variance(inputs, variances) - squares, 0.0)

    def _sum(self, factors: list[FloatArray], variances: FloatArray) -> FloatArray:
        found = np.zeros(factors[0].shape if factors else ())
        for support, variance in zip(self.supports, variances, strict=True):
            product = factors[support.factors[0]]
            for factor in support.factors[1:]:
                product = product * factors[factor]
            found += variance * product
        return found
