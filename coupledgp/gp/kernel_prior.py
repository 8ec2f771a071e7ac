"""Exact Gaussian processes of tables whose kernel is an expression."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from coupledgp.errors import ModelFileError
from coupledgp.expressions import AxisTerm, Kernel, Sum
from coupledgp.gp.dense_prior import DensePrior
from coupledgp.gp.exact import ExactGP
from coupledgp.gp.local_prior import LARGEST_LOGARITHM
from coupledgp.gp.protocol import Arrays, Header, Points
from coupledgp.gp.schema import Entries, require_type
from coupledgp.gp.state import data_from
from coupledgp.gp.tables import Box, standardised
from coupledgp.kernels.expressions import kernel_text, parse_kernel
from coupledgp.kernels.row_covariance import RowColumns, RowCovariance
from coupledgp.linalg.system import SystemOptions
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
    solver : SystemOptions or None
        How equations in the covariance of rows are solved by iteration; None: by a factor.
    """

    kernel: Kernel
    vector: FloatArray
    columns: RowColumns
    center: FloatArray
    spread: FloatArray
    box: Box | None = None
    solver: SystemOptions | None = None

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

    @property
    def process_class(self) -> type[ExactGP]:
        return KernelGP

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


@dataclass(frozen=True, eq=False, repr=False)
class KernelGP(ExactGP):
    """An expression of kernels given data, by one Cholesky factor of its covariance."""

    def state(self) -> tuple[Header, Arrays]:
        """Values and arrays of a file, always with the rows, since predictions need them.

        Raises
        ------
        InvalidInputError
            No text names a kernel of the expression.
        """
        prior = self.dense_prior
        assert isinstance(prior, KernelPrior)
        header, arrays = expression_state(prior)
        return self._completed(header | {"process": type(self).__name__}, arrays)

    @classmethod
    def from_state(cls, header: Header, arrays: Arrays) -> KernelGP:
        """Put the process of `state` together again."""
        entries = Entries(header, arrays)
        rows: Any = data_from(entries).points
        return cls.restored(prior_from(entries, rows.shape[1]).bounded_by(rows), entries)


def expression_state(prior: KernelPrior) -> tuple[Header, Arrays]:
    """Header and arrays of a prior.

    Raises
    ------
    InvalidInputError
        No text names a kernel of the expression.
    """
    columns = prior.columns
    header: Header = {
        "expression": {
            "kernel": kernel_text(prior.kernel),
            "names": list(columns.names),
            "labels": list(columns.labels),
        }
    }
    return header, {
        "expression.vector": prior.vector,
        "expression.center": prior.center,
        "expression.spread": prior.spread,
        "expression.sources": columns.sources,
        "expression.groups": columns.groups,
    }


def prior_from(entries: Entries, dim: int) -> KernelPrior:
    """The prior of a file with D columns."""
    names, labels = (_texts(entries, name) for name in ("names", "labels"))
    sources = entries.integers(
        "expression.sources", len(labels), low=0, high=max(len(names) - 1, 0)
    )
    groups = entries.integers("expression.groups", dim, low=0, high=max(len(labels) - 1, 0))
    kernel = parse_kernel(entries.text("expression", "kernel"))
    center = entries.floats("expression.center", dim)
    spread = entries.scales("expression.spread", dim)
    columns = RowColumns(names, labels, sources, groups)
    size = 1 + len(covariance_of(kernel, columns, center, spread).parameters)
    vector = entries.floats("expression.vector", size)
    if np.abs(vector).max() > LARGEST_LOGARITHM:
        raise ModelFileError("expression.vector: expected logarithms of moderate size, got others")
    return KernelPrior(kernel, vector, columns, center, spread)


def _texts(entries: Entries, name: str) -> tuple[str, ...]:
    """Texts of a file's entry."""
    found = require_type(entries.value("expression", name), list, f"expression.{name}")
    if not found or any(type(text) is not str for text in found):
        raise ModelFileError(f"expression.{name}: expected texts, got others")
    return tuple(found)
