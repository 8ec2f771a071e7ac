"""Observations whose variance depends on their point, and whose tails may be heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.codec import check_range, check_shapes, stored
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.gp.drawn_functions import DrawnFunctions
from coupledgp.gp.gradients import Gradient
from coupledgp.gp.left_out import LeftOut
from coupledgp.gp.mixture import n_columns_of
from coupledgp.gp.protocol import (
    GaussianProcess,
    Points,
    PredictiveLaw,
    Problem,
    Want,
    finite_answer,
)
from coupledgp.gp.units import Tail
from coupledgp.gp.wrapped import WrappedGP
from coupledgp.ground.validation import LARGEST_PRODUCT, SMALLEST_PRODUCT
from coupledgp.random import FloatArray

# Most entries of parts, points and draws whose quantiles are found at once.
AT_ONCE = 2**22
# Halvings of an interval that holds a draw: nine digits of its width.
DRAW_HALVINGS = 30
# Least chance of a draw, beyond which its digits are none.
LEAST_CHANCE = 1e-15


@stored
@dataclass(frozen=True, eq=False, repr=False)
class VaryingNoiseGP(WrappedGP):
    """`y ~ sum_q w_q t_nu(m_q(x), v_q(x) s(x))` about an inner law `sum_q w_q N(m_q(x), v_q(x))`.

    The variance of an observation of the inner process, or of each part of its law, is multiplied
    by a factor s of the point (`VarianceField`); residuals may have the heavier tails of Student's
    law. A part of transformed targets has such a law of its own values. The law of f is that of the
    inner process. Correlations of observations are those of its observations, and draws have its
    copula. Factor and tail do not change when the process is given other data: they are kept, as
    hyperparameters are.

    Attributes
    ----------
    inner : GaussianProcess
        A process of a table whose laws of single observations are mixtures of normal ones.
    rows : Data or None
        Observations of y; None if they were not kept.
    field : VarianceField
        The factor, of the columns of a row, and of mean and log deviation of its inner law.
    tail : Tail
        Law of the residuals.
    """

    field: VarianceField
    tail: Tail

    def inner_targets(self, points: Points, targets: FloatArray) -> FloatArray:
        """The observations themselves."""
        return targets

    @property
    def first(self) -> GaussianProcess:
        return self.inner.first

    @property
    def is_gaussian(self) -> bool:
        return False

    @property
    def is_rough(self) -> bool:
        return self.inner.is_rough

    @property
    def remarks(self) -> tuple[str, ...]:
        tails = "" if self.tail.is_normal else (
            f"; residuals follow Student's law with {self.tail.degrees:.3g} degrees of freedom"
        )  # fmt: skip
        return (
            *self.inner.remarks,
            f"The variance of observations is a function of the columns{tails}.",
        )

    def summary(self) -> dict[str, Any]:
        """Hyperparameters of the inner process, and degrees of freedom of the residuals."""
        return self.inner.summary() | {"noise_varies": True, "degrees": self.tail.degrees}

    def scaled(self, points: Points, law: LeftOut) -> LeftOut:
        """The laws of observations at points (p, ...) from those of the inner process."""
        factor = np.exp(self.field.log_factor(variance_columns(points, law)))
        return law.scaled(factor[:, None], self.tail)

    def _inner_parts(self, points: Points) -> LeftOut:
        found = self.inner.parts_of_law(points)
        assert found is not None  # as `inner_parts` has checked
        return found

    def parts_of_law(self, points: Points) -> LeftOut:
        """Laws of single observations at points (p, ...), each a mixture of laws of Student."""
        return self.scaled(points, self._inner_parts(points))

    def law(self, points: Points, want: Want, *, latent: bool = False) -> PredictiveLaw:
        """Moments of observations, or those of the inner process for f if `latent`.

        The covariance has the correlations of the inner law.
        """
        if latent:
            return self.inner.law(points, want, latent=True)
        parts = self.parts_of_law(points)
        mean = finite_answer(parts.mean, "predictive mean")
        if want == "mean":
            return PredictiveLaw(mean, None)
        variance = finite_answer(parts.variance, f"predictive {want}")
        if want == "variance":
            return PredictiveLaw(mean, variance)
        covariance = self.inner.law(points, want).spread
        assert covariance is not None
        std = np.sqrt(variance / np.einsum("iik->ik", covariance))
        covariance = covariance * std[:, None] * std[None]
        places = np.arange(len(points))
        covariance[places, places] = variance
        return PredictiveLaw(mean, covariance)

    def sample(
        self,
        points: Points,
        n_samples: int,
        rng: np.random.Generator,
        *,
        latent: bool = False,
    ) -> FloatArray:
        """Draws (p, k, n_samples) of observations, or of the inner process for f if `latent`.

        A draw of the inner process is moved to where the law of its point has the same chance.
        """
        drawn = self.inner.sample(points, n_samples, rng, latent=latent)
        if latent:
            return drawn
        inner = self._inner_parts(points)
        parts = self.scaled(points, inner)
        step = max(1, AT_ONCE // inner.means.size)
        for start in range(0, n_samples, step):
            block = drawn[..., start : start + step]
            chances = inner.cdf(block).clip(LEAST_CHANCE, 1 - LEAST_CHANCE)
            drawn[..., start : start + step] = parts.quantiles(chances, DRAW_HALVINGS)
        return finite_answer(drawn, "sample")

    def gradient(self, points: Points, want_variance: bool) -> Gradient:
        return self.inner.gradient(points, want_variance)

    def draw_functions(self, n_functions: int, rng: np.random.Generator) -> DrawnFunctions:
        return self.inner.draw_functions(n_functions, rng)

    def log_density(self, points: Points, targets: FloatArray) -> FloatArray:
        return self.parts_of_law(points).log_density(targets)

    def quantiles(self, points: Points, probabilities: FloatArray) -> FloatArray:
        return self.parts_of_law(points).quantiles(probabilities)

    def cdf(self, points: Points, targets: FloatArray) -> FloatArray:
        return self.parts_of_law(points).cdf(targets[..., None])[..., 0]

    def left_out(self, groups: ArrayLike, rows: ArrayLike | None = None) -> LeftOut:
        """Laws of y given other groups: of the inner process, by factors at the columns of these.

        The factor itself has seen all rows, as hyperparameters have.
        """
        law = self.inner.targets_left_out(groups, rows)
        points = self.data.points
        return self.scaled(points if rows is None else points[np.asarray(rows)], law)

    def exact_problem(self) -> Problem:
        """Refuse, since a kernel alone does not state the law of y.

        Raises
        ------
        InvalidInputError
            Always.
        """
        raise InvalidInputError(
            "method: a model whose noise varies has no single kernel to solve with; use "
            "method='dense' on fewer rows"
        )

    def read_back(self) -> VaryingNoiseGP:
        """The process of a file, of a table with one output, whose columns the factor has."""
        n_columns, field = n_columns_of(self.inner), self.field
        if n_columns is None or self.inner.units.n_outputs != 1:
            raise ModelFileError("inner: expected a process of a table with one output")
        c = n_columns + 2
        m = check_shapes(
            field, low=(c,), high=(c,), center=(c,), scale=(c,), frequencies=("m", c), level=(1,)
        )["m"]  # fmt: skip
        size = 1 + c + 2 * m
        check_shapes(field, weights=(size,), root=(size, size))
        check_range(field, SMALLEST_PRODUCT, LARGEST_PRODUCT, "scale")
        if (field.low > field.high).any():
            raise ModelFileError("field.low: expected at most field.high, got more")
        return self


def constant_noise(process: GaussianProcess) -> GaussianProcess:
    """The inner process of one whose noise varies; any other process itself."""
    return process.inner if isinstance(process, VaryingNoiseGP) else process


def inner_parts(process: GaussianProcess, groups: ArrayLike, rows: ArrayLike) -> LeftOut:
    """Laws of observations that are left out, of a process whose noise may be let vary.

    Raises
    ------
    InvalidInputError
        Its laws of single observations are of another kind.
    """
    if process.parts_of_law(process.data.points[:1]) is None:
        raise InvalidInputError(
            f"noise: expected a model with normal laws to let its noise vary, got a "
            f"{type(process).__name__}; use noise='constant'"
        )
    return process.targets_left_out(groups, rows)


def variance_columns(points: Points, law: LeftOut) -> FloatArray:
    """Columns (m, d + 2) of rows (m, d) of a table: these, mean and log deviation of laws of y."""
    return np.column_stack([points, law.mean[:, 0], 0.5 * np.log(law.variance[:, 0])])


def variance_features(inputs: FloatArray, frequencies: FloatArray) -> FloatArray:
    """A constant, the inputs u (n, c), and `sin w.u` and `cos w.u` of m frequencies, side by side.

    Shape (n, 1 + c + 2 m).
    """
    phases = inputs @ frequencies.T
    return np.hstack([np.ones((len(inputs), 1)), inputs, np.sin(phases), np.cos(phases)])


@stored
@dataclass(frozen=True, eq=False)
class VarianceField:
    """`E exp(h(u))`, `h(u) = a + phi(u) . w` of weights w that have a normal law.

    `u = (clip(x, low, high) - center) / scale` are columns, which stay within the range of those
    that the field was fitted to: beyond it, the factor is that of the nearest end.

    Attributes
    ----------
    low, high, center, scale : FloatArray (c,)
        Range, shift and scale of each column.
    frequencies : FloatArray (m, c)
        Frequencies w of the features (`variance_features`).
    weights : FloatArray (M,)
        Means of the M = 1 + c + 2 m weights.
    root : FloatArray (M, M)
        Root R of the covariance `R R'` of the weights.
    level : FloatArray (1,)
        The constant a.
    """

    low: FloatArray
    high: FloatArray
    center: FloatArray
    scale: FloatArray
    frequencies: FloatArray
    weights: FloatArray
    root: FloatArray
    level: FloatArray

    def inputs(self, columns: FloatArray) -> FloatArray:
        """The columns (n, c) in the form u."""
        inside = np.clip(columns, self.low, self.high)
        return np.asarray((inside - self.center) / self.scale)

    def log_factor(self, columns: FloatArray) -> FloatArray:
        """Logarithms (n,) of the mean factor, `log E exp(h)`, at columns (n, c)."""
        found = variance_features(self.inputs(columns), self.frequencies)
        spread = np.square(found @ self.root).sum(axis=1)
        return np.asarray(self.level + found @ self.weights + 0.5 * spread)
