"""Exact Gaussian processes of tables whose kernel is an expression."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from coupledgp.core.codec import check_range, check_shapes, stored
from coupledgp.errors import ModelFileError
from coupledgp.expressions import AxisTerm, Kernel, Sum
from coupledgp.gp.dense_prior import DensePrior
from coupledgp.gp.local_prior import LARGEST_LOGARITHM
from coupledgp.gp.protocol import Points
from coupledgp.gp.tables import Box, standardised
from coupledgp.ground.validation import LARGEST_PRODUCT, SMALLEST_PRODUCT
from coupledgp.kernels.expressions import parse_kernel
from coupledgp.kernels.row_covariance import RowColumns, RowCovariance
from coupledgp.random import FloatArray


@dataclass(frozen=True, eq=False)
class KernelHyperparameters:
    """Hyperparameters of an expression, variances in units of the normalised targets.

    Attributes
    ----------
    lengthscale : FloatArray (D,)
        Shortest lengthscale of any kernel in each column, in units of the inputs.
    outputscale : float
        Prior variance of f at the means of the columns.
    noise : float
        Variance of the noise.
    parameters : dict
        Each hyperparameter of the expression by its name, for standardised columns.
    """

    lengthscale: FloatArray
    outputscale: float
    noise: float
    parameters: dict[str, float]


@stored
@dataclass(frozen=True, eq=False)
class KernelPrior(DensePrior):
    """`f ~ GP(0, K)` with an expression K of kernels of standardised columns.

    Attributes
    ----------
    kernel : Kernel
        The expression; each term of a sum has a variance of its own.
    vector : FloatArray (1 + q,)
        Logarithms of the noise variance and of the kernel's hyperparameters.
    columns : RowColumns
        The encoded columns.
    center, spread : FloatArray (D,)
        Mean and spread of each column, by which rows are standardised.
    box : Box or None
        Range of the standardised rows that it is given, by which trends are bounded.
    """

    kernel: Kernel
    vector: FloatArray
    columns: RowColumns
    center: FloatArray
    spread: FloatArray
    box: Box | None = None

    def read_back(self) -> KernelPrior:
        """The prior of a file.

        Raises
        ------
        ModelFileError
            Columns or hyperparameters are not those of the expression.
        """
        columns = self.columns
        labels, names = len(columns.labels), len(columns.names)
        check_shapes(columns, sources=(labels,), groups=("D",))
        check_range(columns, 0, names - 1, "sources")
        check_range(columns, 0, labels - 1, "groups")
        dim = columns.groups.shape
        check_shapes(self, center=dim, spread=dim)
        check_range(self, SMALLEST_PRODUCT, LARGEST_PRODUCT, "spread")
        own = covariance_of(self.kernel, columns, self.center, self.spread)
        check_shapes(self, vector=(1 + len(own.parameters),))
        check_range(self, -LARGEST_LOGARITHM, LARGEST_LOGARITHM, "vector")
        if self.box is None:
            raise ModelFileError("box: expected the range of the rows, got none")
        check_shapes(self.box, low=dim, high=dim)
        return self

    def check_points(self, points: Points) -> None:
        check_shapes(self, center=points.shape[1:])

    def bounded_by(self, points: Points) -> KernelPrior:
        """The prior whose trends are bounded by the range of rows (n, D)."""
        return replace(self, box=Box.of(self.standardised(points)))

    @cached_property
    def rows(self) -> RowCovariance:
        """The covariance of standardised rows."""
        return covariance_of(self.kernel, self.columns, self.center, self.spread, self.box)

    @property
    def theta(self) -> FloatArray:
        """Hyperparameters (q,) of the kernel: logarithms."""
        return self.vector[1:]

    @cached_property
    def hyperparameters(self) -> KernelHyperparameters:
        """Hyperparameters in units of the inputs."""
        middle = np.zeros((1, len(self.center)))
        return KernelHyperparameters(
            self.rows.lengthscales(self.theta) * self.spread,
            float(self.rows.diagonal(middle, self.theta)[0]),
            math.exp(self.vector[0]),
            dict(zip(self.rows.names, np.exp(self.theta).tolist(), strict=True)),
        )

    def standardised(self, points: Points) -> FloatArray:
        """Standardised rows (n, D)."""
        return standardised(points, self.center, self.spread)

    def covariance(self, a: Points, b: Points) -> FloatArray:
        """Prior covariance (n, p) of f between rows a (n, D) and b (p, D)."""
        inputs = self.standardised(a)
        others = inputs if a is b else self.standardised(b)
        return self.rows.gram(inputs, others, self.theta)

    def variance(self, points: Points) -> FloatArray:
        return self.rows.diagonal(self.standardised(points), self.theta)

    def axes(self) -> tuple[AxisTerm, ...] | None:
        """The kernel as a polynomial in kernels of single standardised columns, if it is one."""
        return self.rows.axes(self.theta)

    def extent(self, points: Points) -> float:
        scale = self.rows.lengthscales(self.theta)
        return float(np.abs(self.standardised(points) / scale).max(initial=0.0))

    def with_noise(self, noise: float) -> KernelPrior:
        """The prior with another noise variance, in normalised units."""
        return replace(self, vector=np.append(math.log(noise), self.theta))


def covariance_of(
    kernel: Kernel | str,
    columns: RowColumns,
    center: FloatArray,
    spread: FloatArray,
    box: Box | None = None,
) -> RowCovariance:
    """The covariance of a model: of an expression with a variance for each of its terms.

    A kernel that is no sum is a sum of one term.
    """
    parsed = parse_kernel(kernel)
    whole = parsed if isinstance(parsed, Sum) else Sum((parsed,))
    ends = None if box is None else np.array(box.wide)
    return RowCovariance(whole, columns, center, spread, ends)
