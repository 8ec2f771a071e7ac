"""Observations whose variance depends on their point, and whose tails may be heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.drawn_functions import DrawnFunctions, Gradient
from coupledgp.core.frozen_mean import BoostedTrees, folds_of
from coupledgp.core.left_out import LeftOut
from coupledgp.core.mixture import n_columns_of
from coupledgp.core.process import (
    GaussianProcess,
    Points,
    PredictiveLaw,
    Problem,
    Want,
    finite_answer,
)
from coupledgp.core.units import Tail
from coupledgp.core.wrapped import WrappedGP
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.ground.codec import stored
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
    by a factor s of the point, a sum of boosted trees; residuals may have the heavier tails of
    Student's law. A part of transformed targets has such a law of its own values. The law of f is
    that of the inner process. Correlations of observations are those of its observations, and draws
    have its copula. Factor and tail do not change when the process is given other data: they are
    kept, as hyperparameters are.

    Attributes
    ----------
    inner : GaussianProcess
        A process of a table whose laws of single observations are mixtures of normal ones.
    rows : Data or None
        Observations of y; None if they were not kept.
    log_factor : BoostedTrees
        The logarithm of the factor, of the columns of a row, and of mean and log deviation of its
        inner law.
    tail : Tail
        Law of the residuals.
    """

    log_factor: BoostedTrees
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
        return law.scaled(np.exp(self.log_factor.at(variance_columns(points, law))), self.tail)

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
        """Laws of y given other groups, by factors of trees that did not see their rows."""
        law = self.inner.targets_left_out(groups, rows)
        points = self.data.points if rows is None else self.data.points[np.asarray(rows)]
        folds = folds_of(points, self.log_factor.n_folds)
        log_factor = self.log_factor.observed(variance_columns(points, law), folds)
        return law.scaled(np.exp(log_factor), self.tail)

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
        n_columns = n_columns_of(self.inner)
        if n_columns is None or self.inner.units.n_outputs != 1:
            raise ModelFileError("inner: expected a process of a table with one output")
        self.log_factor.check(n_columns + 2, 1)
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
