"""Covariances of rows of a table under an expression of kernels, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.expressions import (
    AxisTerm,
    Evaluated,
    Factor,
    Kernel,
    On,
    Parameter,
    Product,
    RowKernel,
    Sum,
)
from coupledgp.ground.codec import stored
from coupledgp.kernels.additive import axis_terms, multiplied
from coupledgp.kernels.expressions import parse_kernel
from coupledgp.random import FloatArray, IntArray


@stored
@dataclass(frozen=True, eq=False)
class RowColumns:
    """The encoded columns of a table, by the names that kernels know them by.

    Attributes
    ----------
    names : tuple of str
        Names (d,) of the columns of the table; those of an array are "0", "1" and so on.
    labels : tuple of str
        Names (q,) of the parts, or groups, of the columns: a date has several.
    sources : IntArray (q,)
        Number of the column of the table that each part is made of.
    groups : IntArray (D,)
        Number of the part of each encoded column.
    """

    names: tuple[str, ...]
    labels: tuple[str, ...]
    sources: IntArray
    groups: IntArray

    @classmethod
    def plain(cls, columns: Sequence[str] | int) -> RowColumns:
        """Columns of numbers, by their names or their number."""
        if isinstance(columns, str):
            raise InvalidInputError(
                f"columns: expected a list of names, or a number, got {columns!r}"
            )
        names = tuple(map(str, range(columns))) if isinstance(columns, int) else tuple(columns)
        every = np.arange(len(names))
        return cls(names, names, every, every)

    @classmethod
    def of_groups(cls, groups: IntArray) -> RowColumns:
        """Columns whose groups (D,) stand for columns of a table without names."""
        names = tuple(f"x{place}" for place in range(int(groups.max()) + 1))
        return cls(names, names, np.arange(len(names)), groups)

    def places(self, column: str | int) -> IntArray:
        """Places of the encoded columns that a name or number of a column, or a part, stands for.

        Raises
        ------
        InvalidInputError
            There is no such column.
        """
        if isinstance(column, int) and 0 <= column < len(self.names):
            parts = np.flatnonzero(self.sources == column)
        elif column in self.names:
            parts = np.flatnonzero(self.sources == self.names.index(str(column)))
        elif column in self.labels:
            parts = np.array([self.labels.index(str(column))])
        else:
            raise InvalidInputError(
                f"kernel: expected columns among {list(self.names)}, got {column!r}"
            )
        return np.flatnonzero(np.isin(self.groups, parts))


class RowLeaf(NamedTuple):
    """A kernel of some columns at its hyperparameters.

    Attributes
    ----------
    kernel : RowKernel
    numbers, groups : IntArray (d,)
        Numbers of the encoded columns, and of the group of each.
    theta : FloatArray (q,)
    """

    kernel: RowKernel
    numbers: IntArray
    groups: IntArray
    theta: FloatArray

    @classmethod
    def of(cls, factor: Factor) -> RowLeaf:
        """A factor of a term."""
        numbers = np.array(factor.columns)
        return cls(factor.kernel, numbers, np.zeros(numbers.size, dtype=np.int64), factor.theta)


class Summand(NamedTuple):
    """A term of a sum at hyperparameters.

    Attributes
    ----------
    name : str
    variance : float
        Factor that the sum gives it.
    leaves : tuple of RowLeaf
        The kernels whose product it is; empty where it is no product of single kernels.
    axes : tuple of AxisTerm or None
        The term as a polynomial in kernels of single columns, if it is one.
    """

    name: str
    variance: float
    leaves: tuple[RowLeaf, ...]
    axes: tuple[AxisTerm, ...] | None


@dataclass(frozen=True, eq=False)
class _Leaf:
    """A kernel of some encoded columns."""

    kernel: RowKernel
    numbers: IntArray
    groups: IntArray
    parameters: tuple[Parameter, ...]

    @property
    def has_variance(self) -> bool:
        return self.kernel.has_variance

    @property
    def variance_mean(self) -> float:
        return self.kernel.variance_mean

    def evaluate(self, a: FloatArray, b: FloatArray, theta: FloatArray) -> Evaluated:
        own = a[:, self.numbers]
        other = own if a is b else b[:, self.numbers]
        return self.kernel.evaluate(own, other, theta, self.groups)

    def covariance(self, a: FloatArray, b: FloatArray, theta: FloatArray) -> FloatArray:
        own = a[:, self.numbers]
        other = own if a is b else b[:, self.numbers]
        return self.kernel.covariance(own, other, theta, self.groups)

    def diagonal(self, a: FloatArray, theta: FloatArray) -> FloatArray:
        return self.kernel.diagonal(a[:, self.numbers], theta, self.groups)

    def lengthscales(self, theta: FloatArray, found: FloatArray) -> None:
        own = self.kernel.lengthscales(theta, self.groups)
        found[self.numbers] = np.minimum(found[self.numbers], own)

    def axes(self, theta: FloatArray) -> tuple[AxisTerm, ...] | None:
        return axis_terms(self.kernel, theta, self.numbers, self.groups)


@dataclass(frozen=True, eq=False)
class _Summed:
    """A sum of parts; those that state no variance of their own have a factor."""

    parts: tuple[_Node, ...]
    names: tuple[str, ...]
    has_variance = True
    variance_mean = 0.0

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        found: list[Parameter] = []
        for part, name in zip(self.parts, self.names, strict=True):
            if not part.has_variance:
                found.append(Parameter(f"variance of {name}", part.variance_mean))
            found += part.parameters
        return tuple(found)

    def _split(self, theta: FloatArray) -> list[tuple[_Node, float, FloatArray]]:
        """Each part with its factor and its own hyperparameters."""
        found, start = [], 0
        for part in self.parts:
            own = 0 if part.has_variance else 1
            end = start + own + len(part.parameters)
            factor = float(np.exp(theta[start])) if own else 1.0
            found.append((part, factor, theta[start + own : end]))
            start = end
        return found

    def evaluate(self, a: FloatArray, b: FloatArray, theta: FloatArray) -> Evaluated:
        split = self._split(theta)
        each = [(part.evaluate(a, b, own), factor, part) for part, factor, own in split]
        total = np.sum([factor * one.covariance for one, factor, _ in each], axis=0)

        def pull(cotangent: FloatArray) -> FloatArray:
            gradients: list[FloatArray] = []
            for one, factor, part in each:
                scaled = factor * cotangent
                if not part.has_variance:
                    gradients.append(np.array([(scaled * one.covariance).sum()]))
                gradients.append(one.pull(scaled))
            return np.concatenate(gradients)

        return Evaluated(total, pull)

    def covariance(self, a: FloatArray, b: FloatArray, theta: FloatArray) -> FloatArray:
        total = np.zeros((len(a), len(b)))
        for part, factor, own in self._split(theta):
            total += factor * part.covariance(a, b, own)
        return total

    def diagonal(self, a: FloatArray, theta: FloatArray) -> FloatArray:
        total = np.zeros(len(a))
        for part, factor, own in self._split(theta):
            total += factor * part.diagonal(a, own)
        return total

    def lengthscales(self, theta: FloatArray, found: FloatArray) -> None:
        for part, _, own in self._split(theta):
            part.lengthscales(own, found)

    def axes(self, theta: FloatArray) -> tuple[AxisTerm, ...] | None:
        terms: list[AxisTerm] = []
        for part, factor, own in self._split(theta):
            found = part.axes(own)
            if found is None:
                return None
            terms += [replace(term, variance=factor * term.variance) for term in found]
        return tuple(terms)


@dataclass(frozen=True, eq=False)
class _Multiplied:
    """A product of parts."""

    parts: tuple[_Node, ...]
    variance_mean = 0.0

    @property
    def has_variance(self) -> bool:
        return any(part.has_variance for part in self.parts)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return tuple(each for part in self.parts for each in part.parameters)

    def _split(self, theta: FloatArray) -> list[tuple[_Node, FloatArray]]:
        sizes = [len(part.parameters) for part in self.parts]
        return list(zip(self.parts, np.split(theta, np.cumsum(sizes)[:-1]), strict=True))

    def evaluate(self, a: FloatArray, b: FloatArray, theta: FloatArray) -> Evaluated:
        each = [part.evaluate(a, b, own) for part, own in self._split(theta)]
        covariances = [one.covariance for one in each]

        def pull(cotangent: FloatArray) -> FloatArray:
            gradients = []
            for place, one in enumerate(each):
                others = covariances[:place] + covariances[place + 1 :]
                gradients.append(one.pull(np.prod([cotangent, *others], axis=0)))
            return np.concatenate(gradients)

        return Evaluated(np.prod(covariances, axis=0), pull)

    def covariance(self, a: FloatArray, b: FloatArray, theta: FloatArray) -> FloatArray:
        return np.prod([part.covariance(a, b, own) for part, own in self._split(theta)], axis=0)

    def diagonal(self, a: FloatArray, theta: FloatArray) -> FloatArray:
        return np.prod([part.diagonal(a, own) for part, own in self._split(theta)], axis=0)

    def lengthscales(self, theta: FloatArray, found: FloatArray) -> None:
        for part, own in self._split(theta):
            part.lengthscales(own, found)

    def axes(self, theta: FloatArray) -> tuple[AxisTerm, ...] | None:
        terms = [AxisTerm(1.0, 0, ())]
        for part, own in self._split(theta):
            found = part.axes(own)
            if found is None:
                return None
            products = [multiplied(a, b) for a in terms for b in found]
            terms = [product for product in products if product is not None]
            if len(terms) < len(products):
                return None
        return tuple(terms)


_Node: TypeAlias = _Leaf | _Summed | _Multiplied


def _leaves(node: _Node, theta: FloatArray) -> tuple[RowLeaf, ...]:
    """The kernels whose product a node is; none for other nodes."""
    if isinstance(node, _Leaf):
        return (RowLeaf(node.kernel, node.numbers, node.groups, theta),)
    if isinstance(node, _Multiplied):
        each = [_leaves(part, own) for part, own in node._split(theta)]
        return tuple(leaf for own in each for leaf in own) if all(each) else ()
    return ()


class RowCovariance:
    """Covariances of rows under an expression, and their gradient.

    Hyperparameters (q,) are logarithms: those of each kernel, in its order. In a sum, the variance
    of each term stands before those of the term, unless the term states its variance itself.

    Parameters
    ----------
    kernel
        Expression of kernels of rows, or its text.
    columns
        The encoded columns; or the names of columns of numbers, or their number.
    center, spread
        Means and spreads (D,) by which the rows are standardised, which kernels with lengths in
        units of the columns ask for; None: zeros and ones.
    ends
        Ends (2, D) of standardised columns within which trends go on; None for no ends.

    Attributes
    ----------
    parameters : tuple of Parameter
        Each hyperparameter.

    Raises
    ------
    InvalidInputError
        A kernel is none of rows, or a column is not there. Methods refuse rows and hyperparameters
        of other sizes.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.kernels import RowCovariance
    >>> kernel = RowCovariance('gaussian["area"] + linear["age"]', ["area", "age"])
    >>> kernel.names
    ["variance of gaussian['area']", 'lengthscale of gaussian in area', "variance of linear['age']"]
    >>> rows = np.array([[0.0, 1.0], [0.0, 2.0]])
    >>> kernel.gram(rows, rows, np.log([1.0, 1.0, 0.5])).round(6).tolist()  # 1 + age age' / 2
    [[1.5, 2.0], [2.0, 3.0]]
    """

    def __init__(
        self,
        kernel: str | Kernel,
        columns: RowColumns | Sequence[str] | int,
        center: FloatArray | None = None,
        spread: FloatArray | None = None,
        ends: FloatArray | None = None,
    ) -> None:
        self.kernel = parse_kernel(kernel)
        self.columns = columns if isinstance(columns, RowColumns) else RowColumns.plain(columns)
        dim = self.columns.groups.size
        self._center = np.zeros(dim) if center is None else center
        self._spread = np.ones(dim) if spread is None else spread
        self._ends = ends
        self._root = self._node(self.kernel)
        self.parameters = self._root.parameters

    @property
    def names(self) -> list[str]:
        """Name of each hyperparameter."""
        return [parameter.name for parameter in self.parameters]

    @property
    def start(self) -> FloatArray:
        """Hyperparameters (q,) from which a search starts: the means of their priors."""
        return np.array([parameter.mean for parameter in self.parameters])

    def evaluate(self, a: FloatArray, b: FloatArray, theta: FloatArray) -> Evaluated:
        """Covariances (n, p) of rows a (n, D) and b (p, D), and their gradients, at theta (q,)."""
        return self._root.evaluate(a, b, self._checked(theta, a, b))

    def gram(self, a: FloatArray, b: FloatArray, theta: FloatArray) -> FloatArray:
        """Covariances (n, p) of rows a (n, D) and b (p, D) at hyperparameters theta (q,)."""
        return self._root.covariance(a, b, self._checked(theta, a, b))

    def diagonal(self, a: FloatArray, theta: FloatArray) -> FloatArray:
        """Variances (n,) of rows a (n, D)."""
        return self._root.diagonal(a, self._checked(theta, a))

    def pull(self, a: FloatArray, cotangent: FloatArray, theta: FloatArray) -> FloatArray:
        """Gradient (q,) of `sum_ij G_ij K_ij` for rows a (n, D) and a cotangent G (n, n)."""
        return self.evaluate(a, a, theta).pull(cotangent)

    def lengthscales(self, theta: FloatArray) -> FloatArray:
        """Shortest lengthscale (D,) of any kernel in each column; infinite where there is none."""
        found = np.full(self.columns.groups.size, np.inf)
        self._root.lengthscales(self._checked(theta), found)
        return found

    def axes(self, theta: FloatArray) -> tuple[AxisTerm, ...] | None:
        """The kernel as a polynomial in kernels of single columns; None where it is none."""
        return self._root.axes(self._checked(theta))

    def _checked(self, theta: FloatArray, *rows: FloatArray) -> FloatArray:
        """Hyperparameters, if they and the rows are of the right sizes."""
        dim = self.columns.groups.size
        wrong = [np.shape(each) for each in rows if np.shape(each)[1:] != (dim,)]
        if wrong:
            raise InvalidInputError(f"rows: expected shape (n, {dim}), got {wrong[0]}")
        theta = np.asarray(theta, dtype=np.float64)
        if theta.shape != (len(self.parameters),):
            raise InvalidInputError(
                f"theta: expected {len(self.parameters)} numbers ({', '.join(self.names)}), got "
                f"shape {theta.shape}"
            )
        return theta

    def _node(self, kernel: Kernel) -> _Node:
        if isinstance(kernel, Sum):
            return _Summed(tuple(map(self._node, kernel.terms)), tuple(map(str, kernel.terms)))
        if isinstance(kernel, Product):
            return _Multiplied(tuple(map(self._node, kernel.factors)))
        if isinstance(kernel, On):
            places = [self.columns.places(column) for column in kernel.columns]
            return self._leaf(kernel.kernel, np.concatenate(places))
        if isinstance(kernel, RowKernel):
            return self._leaf(kernel, np.arange(self.columns.groups.size))
        raise InvalidInputError(
            f"kernel: expected kernels of rows, got {kernel}; kernels of nodes and times "
            "belong to models of graphs"
        )

    def _leaf(self, kernel: RowKernel, numbers: IntArray) -> _Leaf:
        parts, groups = np.unique(self.columns.groups[numbers], return_inverse=True)
        order = np.array(list(dict.fromkeys(groups.tolist())))  # parts in the kernel's own order
        rank = np.empty(len(parts), dtype=np.int64)
        rank[order] = np.arange(len(parts))
        labels = [self.columns.labels[part] for part in parts[order]]
        bound = kernel.in_units(self._center[numbers], self._spread[numbers])
        if self._ends is not None:
            bound = bound.within(*self._ends[:, numbers])
        return _Leaf(bound, numbers, rank[groups], kernel.parameters(labels))
