"""Kernels as values: what varies, as an expression of kernels of rows, of nodes and of times.

A kernel is frozen, hashable and comparable. `a + b` and `a * b` are sums and products, flattened;
`kernel.on("area", "age")` is the kernel of some columns of a table. Every term of a sum has a
variance of its own; kernels themselves have variance one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray, IntArray

Domain: TypeAlias = Literal["rows", "nodes", "times"]
# Names or numbers of columns.
Column: TypeAlias = str | int
# Characters of texts of expressions that names of kernels do not hold.
OPERATORS = frozenset("+*()[]")


class Kernel(ABC):
    """A covariance of variance one, as a value.

    Attributes
    ----------
    domain : str
        Class attribute: what it is a covariance of: `"rows"` of a table, `"nodes"` or `"times"`.
    """

    domain: ClassVar[Domain]

    def __add__(self, other: Any) -> Sum:
        if not isinstance(other, Kernel):
            return NotImplemented
        return Sum((*_terms(self), *_terms(other)))

    def __mul__(self, other: Any) -> Product:
        if not isinstance(other, Kernel):
            return NotImplemented
        return Product((*_factors(self), *_factors(other)))

    def on(self, *columns: Column) -> Kernel:
        """The kernel of some columns, by name or number.

        Raises
        ------
        InvalidInputError
            There is none, one is named twice, or the kernel is none of rows.
        """
        if not isinstance(self, RowKernel):
            raise InvalidInputError(f"on: expected a kernel of rows, got {self}")
        return On(self, tuple(columns))


class Evaluated(NamedTuple):
    """Covariances (n, p), and what turns a cotangent (n, p) into a gradient in hyperparameters."""

    covariance: FloatArray
    pull: Callable[[FloatArray], FloatArray]


class RowKernel(Kernel):
    """A kernel of rows of a table, with a lengthscale for each group of columns."""

    domain = "rows"

    @abstractmethod
    def evaluate(
        self, a: FloatArray, b: FloatArray, theta: FloatArray, groups: IntArray
    ) -> Evaluated:
        """Covariances (n, p) of rows a (n, d) and b (p, d), with their gradient.

        Parameters
        ----------
        a, b
            Rows of the kernel's own columns.
        theta
            Hyperparameters (q,), logarithms: those of lengthscales, one for each group.
        groups
            Number of the group of each column, from 0 upwards; the columns of a category share one.
        """


@dataclass(frozen=True)
class On(Kernel):
    """A kernel of some columns of rows.

    Attributes
    ----------
    kernel : RowKernel
    columns : tuple of str or int
        Names or numbers of the columns.
    """

    kernel: RowKernel
    columns: tuple[Column, ...]
    domain = "rows"

    def __post_init__(self) -> None:
        if not self.columns or len(set(self.columns)) < len(self.columns):
            raise InvalidInputError(
                f"on: expected one or more columns, each once, got {list(self.columns)}"
            )
        for column in self.columns:
            if not isinstance(column, (str, int)) or isinstance(column, bool):
                raise InvalidInputError(f"on: expected names or numbers, got {column!r}")

    def __str__(self) -> str:
        return f"{self.kernel}{list(self.columns)}"


@dataclass(frozen=True)
class Sum(Kernel):
    """A sum of kernels, each with a variance of its own.

    Attributes
    ----------
    terms : tuple of Kernel
    """

    terms: tuple[Kernel, ...]

    def on(self, *columns: Column) -> Sum:
        """See the base class; every term on these columns."""
        return type(self)(tuple(term.on(*columns) for term in self.terms))

    def __str__(self) -> str:
        return " + ".join(map(str, self.terms))


@dataclass(frozen=True)
class Product(Kernel):
    """A product of kernels.

    Attributes
    ----------
    factors : tuple of Kernel
    """

    factors: tuple[Kernel, ...]

    def on(self, *columns: Column) -> Product:
        """See the base class; every factor on these columns."""
        return type(self)(tuple(factor.on(*columns) for factor in self.factors))

    def __str__(self) -> str:
        texts = [f"({f})" if isinstance(f, Sum) else str(f) for f in self.factors]
        return " * ".join(texts)


def differences(a: FloatArray, b: FloatArray, lengthscale: FloatArray) -> list[FloatArray]:
    """Differences (n, p) of each column of rows a (n, d) and b (p, d), in lengthscales (d,)."""
    return [
        (one[:, None] - other) / scale
        for one, other, scale in zip(a.T, b.T, lengthscale, strict=True)
    ]


def _terms(kernel: Kernel) -> tuple[Kernel, ...]:
    return kernel.terms if isinstance(kernel, Sum) else (kernel,)


def _factors(kernel: Kernel) -> tuple[Kernel, ...]:
    return kernel.factors if isinstance(kernel, Product) else (kernel,)


def leaves(kernel: Kernel) -> list[Kernel]:
    """Kernels of which an expression is made, in its order; those on columns as they are."""
    parts: Sequence[Kernel] = ()
    if isinstance(kernel, Sum):
        parts = kernel.terms
    elif isinstance(kernel, Product):
        parts = kernel.factors
    return [leaf for part in parts for leaf in leaves(part)] if parts else [kernel]


def check_single(kernel: object, name: str, supported: str) -> None:
    """Refuse sums, products and kernels on columns where a model takes a single kernel.

    Parameters
    ----------
    kernel
        A kernel, or a text.
    name
        Name of the argument in the error message.
    supported
        What is supported, for the message.

    Raises
    ------
    InvalidInputError
        It is an expression.
    """
    text = isinstance(kernel, str) and set(kernel) & OPERATORS
    if text or isinstance(kernel, (Sum, Product, On)):
        raise InvalidInputError(
            f"{name}: expected {supported}, got the expression {str(kernel)!r}; no model fits "
            "sums, products or kernels on columns yet: coupledgp.kernels.RowCovariance has their "
            "covariance and its gradient"
        )
