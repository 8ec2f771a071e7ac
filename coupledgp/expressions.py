"""Kernels as values: what varies, as an expression of kernels of rows, of nodes and of times.

A kernel is frozen, hashable and comparable. `a + b` and `a * b` are sums and products, flattened;
`kernel.on("area", "age")` is the kernel of some columns of a table. Every term of a sum has a
variance of its own; kernels themselves have variance one.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import wrong
from coupledgp.random import FloatArray, IntArray

Domain: TypeAlias = Literal["rows", "nodes"]
# Names or numbers of columns.
Column: TypeAlias = str | int
# Standard deviations of the priors of logarithms of variances and lengthscales.
SCALE_WIDTH, LENGTHSCALE_WIDTH = 1.5, 1.5
# Step of differences in logarithms of hyperparameters.
DIFFERENCE = 1e-5
# Characters of texts of expressions that names of kernels do not hold.
OPERATORS = frozenset("+*()[]")


class Kernel(ABC):
    """A covariance of variance one, as a value.

    Attributes
    ----------
    domain : str
        Class attribute: what it is a covariance of: `"rows"` of a table, `"nodes"` or `"times"`.

    Examples
    --------
    >>> from coupledgp.kernels import Linear, parse_kernel
    >>> smooth = parse_kernel("gaussian")
    >>> str((smooth + Linear()).on("area") * smooth.on("age"))
    "(gaussian['area'] + linear['area']) * gaussian['age']"
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


class Parameter(NamedTuple):
    """A hyperparameter: its name, and the normal prior of its logarithm.

    Attributes
    ----------
    name : str
        What it is, for readers.
    mean, width : float
        Mean and standard deviation of its logarithm, for standardised columns and targets. A search
        starts at the mean.

    Examples
    --------
    >>> from coupledgp.kernels import RowCovariance
    >>> for parameter in RowCovariance("gaussian + linear", ["area"]).parameters:
    ...     print(parameter.name, parameter.mean)
    variance of gaussian 0.0
    lengthscale of gaussian in area 0.0
    variance of linear -1.0
    """

    name: str
    mean: float = 0.0
    width: float = SCALE_WIDTH


class RowKernel(Kernel):
    """A kernel of rows of a table: one class that states a covariance and its hyperparameters.

    A subclass is a frozen dataclass. It states `covariance`, whose gradient is then taken by
    differences, or `evaluate`, with a gradient of its own. Columns come standardised. The columns
    of a category, or of a cycle of dates, make one group; any other column is a group by itself.

    Attributes
    ----------
    has_variance : bool
        Class attribute: whether hyperparameters state its variance. Others have variance one, and
        models give them a factor.
    is_separable : bool
        Class attribute: whether it is the product of its own kernels of the groups.
    variance_mean : float
        Class attribute: mean of the prior of the logarithm of the factor that a model gives it.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from coupledgp.kernels import RowCovariance, RowKernel
    >>> @dataclass(frozen=True)
    ... class Triangle(RowKernel):
    ...     def covariance(self, a, b, theta, groups):
    ...         return np.maximum(1 - np.abs(a - b.T) / np.exp(theta), 0)
    >>> kernel = RowCovariance(Triangle(), ["hour"])
    >>> kernel.gram(np.array([[0.0]]), np.array([[0.25], [2.0]]), kernel.start).tolist()
    [[0.75, 0.0]]
    """

    domain = "rows"
    has_variance: ClassVar[bool] = False
    is_separable: ClassVar[bool] = False
    variance_mean: ClassVar[float] = 0.0

    def in_units(self, center: FloatArray, spread: FloatArray) -> RowKernel:
        """The kernel for columns that were standardised by means and spreads (d,).

        Itself, unless a class states lengths in units of the columns.
        """
        return self

    def within(self, low: FloatArray, high: FloatArray) -> RowKernel:
        """The kernel of a model whose rows lie between the ends (d,) of standardised columns.

        Itself, unless a class extrapolates without end.
        """
        return self

    def parameters(self, labels: Sequence[str]) -> tuple[Parameter, ...]:
        """Hyperparameters (q,) of a kernel of groups of columns with these names.

        Unless a class says otherwise, they are a lengthscale for each group.
        """
        mean = 0.5 * math.log(max(len(labels), 1))
        return tuple(
            Parameter(f"lengthscale of {self} in {label}", mean, LENGTHSCALE_WIDTH)
            for label in labels
        )

    def covariance(
        self, a: FloatArray, b: FloatArray, theta: FloatArray, groups: IntArray
    ) -> FloatArray:
        """Covariances (n, p) of rows a (n, d) and b (p, d); see `evaluate`.

        Raises
        ------
        InvalidInputError
            The class states neither `covariance` nor `evaluate`.
        """
        if type(self).evaluate is RowKernel.evaluate:
            raise InvalidInputError(
                f"kernel: expected a class with covariance(a, b, theta, groups) or "
                f"evaluate(a, b, theta, groups), got {type(self).__name__} with neither"
            )
        return self.evaluate(a, b, theta, groups).covariance

    def evaluate(
        self, a: FloatArray, b: FloatArray, theta: FloatArray, groups: IntArray
    ) -> Evaluated:
        """Covariances (n, p) of rows a (n, d) and b (p, d), with their gradient.

        Unless a class says otherwise the gradient is taken by central differences of `covariance`,
        which costs two covariances for each hyperparameter.

        Parameters
        ----------
        a, b
            Rows of the kernel's own columns, standardised.
        theta
            Hyperparameters (q,): logarithms.
        groups
            Number of the group of each column, from 0 upwards.
        """

        def pull(cotangent: FloatArray) -> FloatArray:
            gradient = np.empty(theta.size)
            for place in range(theta.size):
                step = np.zeros(theta.size)
                step[place] = DIFFERENCE
                up, down = (self.covariance(a, b, theta + s * step, groups) for s in (1, -1))
                gradient[place] = (cotangent * (up - down)).sum() / (2 * DIFFERENCE)
            return gradient

        return Evaluated(self.covariance(a, b, theta, groups), pull)

    def diagonal(self, a: FloatArray, theta: FloatArray, groups: IntArray) -> FloatArray:
        """Variances (n,) of rows a (n, d), ones unless a class says otherwise."""
        return np.ones(len(a))

    def lengthscales(self, theta: FloatArray, groups: IntArray) -> FloatArray:
        """Distance (d,) in each column over which values differ; infinite where there is none.

        Unless a class says otherwise, the first hyperparameters are logarithms of lengthscales.
        """
        return np.exp(theta)[groups]

    def axes(
        self, theta: FloatArray, numbers: IntArray, groups: IntArray
    ) -> tuple[AxisTerm, ...] | None:
        """The kernel as a polynomial in kernels of single groups, None where it is none.

        Parameters
        ----------
        theta
            Hyperparameters (q,).
        numbers
            Number (d,) of each of its columns in the table.
        groups
            Number of the group of each column, from 0 upwards.
        """
        return None


@dataclass(frozen=True, eq=False)
class Factor:
    """The kernel of one column, or of the columns of one category.

    Attributes
    ----------
    columns : tuple of int
        Numbers of the columns in the table.
    kernel : RowKernel
        Kernel of these columns.
    theta : FloatArray (q,)
        Its hyperparameters.
    """

    columns: tuple[int, ...]
    kernel: RowKernel
    theta: FloatArray

    def gram(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Covariances (n, p) between rows a (n, c) and b (p, c) of the factor's own columns."""
        groups = np.zeros(len(self.columns), dtype=np.int64)
        return self.kernel.evaluate(a, b, self.theta, groups).covariance


@dataclass(frozen=True, eq=False)
class AxisTerm:
    """One term `v e_q(k_1, ..., k_g)` of a kernel.

    Attributes
    ----------
    variance : float
        Factor v.
    order : int
        Order q, from 0 to the number of factors.
    factors : tuple of Factor
    """

    variance: float
    order: int
    factors: tuple[Factor, ...]


@dataclass(frozen=True)
class On(Kernel):
    """A kernel of some columns of rows.

    Attributes
    ----------
    kernel : RowKernel
    columns : tuple of str or int
        Names or numbers of the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.kernels import On, RowCovariance, parse_kernel
    >>> kernel = parse_kernel("gaussian").on("area")
    >>> kernel == On(parse_kernel("gaussian"), ("area",))
    True
    >>> of_rows = RowCovariance(kernel, ["area", "age"])  # rows of another age alone are alike
    >>> of_rows.gram(np.array([[0.0, 0.0]]), np.array([[0.0, 5.0]]), of_rows.start).tolist()
    [[1.0]]
    """

    kernel: RowKernel
    columns: tuple[Column, ...]
    domain = "rows"

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, RowKernel):
            raise wrong("on", "a kernel of rows", self.kernel)
        if not self.columns or len(set(self.columns)) < len(self.columns):
            raise wrong("on", "one or more columns, each once", list(self.columns))
        for column in self.columns:
            if not isinstance(column, (str, int)) or isinstance(column, bool):
                raise wrong("on", "names or numbers", column)

    def __str__(self) -> str:
        return f"{self.kernel}{list(self.columns)}"


@dataclass(frozen=True)
class Sum(Kernel):
    """A sum of kernels, each with a variance of its own.

    Attributes
    ----------
    terms : tuple of Kernel

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.kernels import Linear, RowCovariance, Sum, parse_kernel
    >>> trend = parse_kernel("gaussian") + Linear()
    >>> trend == Sum((parse_kernel("gaussian"), Linear()))
    True
    >>> theta = np.log([2.0, 1.0, 3.0])  # variance, lengthscale, variance of the slope
    >>> RowCovariance(trend, 1).diagonal(np.array([[2.0]]), theta).round(6).tolist()  # 2 + 3 x^2
    [14.0]
    """

    terms: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        _check_kernels(self.terms, "terms")

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

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.kernels import Linear, Product, RowCovariance
    >>> quadratic = Linear() * Linear()
    >>> quadratic == Product((Linear(), Linear()))
    True
    >>> of_rows = RowCovariance(quadratic, 1)
    >>> of_rows.gram(np.array([[2.0]]), np.array([[3.0]]), of_rows.start).tolist()  # (x x')^2
    [[36.0]]
    """

    factors: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        _check_kernels(self.factors, "factors")

    def on(self, *columns: Column) -> Product:
        """See the base class; every factor on these columns."""
        return type(self)(tuple(factor.on(*columns) for factor in self.factors))

    def __str__(self) -> str:
        texts = [f"({f})" if isinstance(f, Sum) else str(f) for f in self.factors]
        return " * ".join(texts)


def group_sums(values: Sequence[float] | FloatArray, groups: IntArray, n_groups: int) -> FloatArray:
    """Sums (n_groups,) of values (d,) of columns over the groups of these columns."""
    return np.asarray(np.bincount(groups, values, n_groups), dtype=np.float64)


def differences(a: FloatArray, b: FloatArray, lengthscale: FloatArray) -> list[FloatArray]:
    """Differences (n, p) of each column of rows a (n, d) and b (p, d), in lengthscales (d,)."""
    return [
        (one[:, None] - other) / scale
        for one, other, scale in zip(a.T, b.T, lengthscale, strict=True)
    ]


def _check_kernels(parts: object, name: str) -> None:
    """Refuse parts of an expression that are no tuple of one or more kernels."""
    if not (isinstance(parts, tuple) and parts and all(isinstance(k, Kernel) for k in parts)):
        raise wrong(name, "a tuple of kernels", parts)


def _terms(kernel: Kernel) -> tuple[Kernel, ...]:
    return kernel.terms if isinstance(kernel, Sum) else (kernel,)


def _factors(kernel: Kernel) -> tuple[Kernel, ...]:
    return kernel.factors if isinstance(kernel, Product) else (kernel,)


def check_single(kernel: object, name: str, supported: str) -> None:
    """Refuse expressions where a model takes a single kernel.

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
    if isinstance(kernel, (Sum, Product, On)) or (
        isinstance(kernel, str) and set(kernel) & OPERATORS
    ):
        raise single_expected(kernel, name, supported)


def single_expected(kernel: object, name: str, supported: str) -> InvalidInputError:
    """The error of a model that takes a single kernel, and no expression."""
    return InvalidInputError(
        f"{name}: expected {supported}, got the expression {str(kernel)!r}; ExactGPRegressor "
        "and GPRegressor fit expressions"
    )
