"""Fits of a factor on the variance, and of a tail, to observations that were left out.

Normal scores z of left-out laws have `z^2 ~ exp(h) chi^2_1` where variances are off by a factor
`exp(h)`. The evidence of these squares, by its variational bound, decides on the scales of h: a
constant, a linear part, and features of a Matern-5/2 kernel. Level and degrees of freedom are those
of greatest density of the observations, each with a factor that has not seen it. Then squares are
weighed as under Student's law, `z^2 (nu + 1) / (nu + z^2 exp(-h))`, a step of expectation and
maximisation, and h is fitted again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import special
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from coupledgp.core.sites import FeatureRows, Observed, Pull, SiteObjective, find_sites
from coupledgp.features import FourierFeatures
from coupledgp.gp.left_out import LeftOut
from coupledgp.gp.units import Tail
from coupledgp.gp.varying_noise import VarianceField, variance_features
from coupledgp.inference.evidence.problem import Box
from coupledgp.likelihoods.gaussian import SquaredNormal
from coupledgp.random import FloatArray, IntArray
from coupledgp.search.minimise import Stopping
from coupledgp.search.search import Search

# Frequencies of the features of a log variance, and how its search ends.
FREQUENCIES, STOPPING = 32, Stopping(30, 1e-6, 1e-3)
# Normal laws of the logarithms of the variance of the linear part over all columns, of that of the
# features, and of the lengthscale over the root of the number of columns: means and deviations.
MEANS, DEVIATIONS = np.log([0.1, 0.3, 1.5]), np.array([2.0, 1.5, 1.0])
REACH = 8.0
# Least share of the variance of a log variance that the square of its own row leaves.
LEAST_REST = 0.05
# Chance by which a normal score is bounded.
LEAST_CHANCE = 1e-15
# Normal laws of the level, and of the logarithm of the degrees of freedom above the least ones.
LEAST_DEGREES, TAIL_MEANS, TAIL_DEVIATIONS = 2.5, np.array([0.0, np.log(10)]), np.array([1.0, 1.5])
TAIL_BOX: Box = [(-3.0, 3.0), (-3.0, 7.0)]


@dataclass(frozen=True, eq=False)
class LeftOutRows:
    """Observations of one output with laws that have not seen them, and columns of a factor.

    Attributes
    ----------
    columns : FloatArray (n, c)
        Columns (`variance_columns`).
    law : LeftOut
        Laws of the n observations.
    targets : FloatArray (n, 1)
        The observations.
    """

    columns: FloatArray
    law: LeftOut
    targets: FloatArray

    def take(self, rows: IntArray) -> LeftOutRows:
        """The observations at places (m,)."""
        return LeftOutRows(self.columns[rows], self.law.take(rows), self.targets[rows])

    @property
    def squares(self) -> FloatArray:
        """Squared normal scores (n,) of the observations."""
        chances = self.law.transforms(self.targets)[:, 0]
        return np.square(special.ndtri(np.clip(chances, LEAST_CHANCE, 1 - LEAST_CHANCE)))

    def log_density(self, log_factor: FloatArray, tail: Tail) -> FloatArray:
        """Log densities (n,) under laws with factors of these logarithms (n,) and a tail."""
        return self.law.scaled(np.exp(log_factor)[:, None], tail).log_density(self.targets)

    def tail(self, log_factor: FloatArray) -> tuple[float, Tail]:
        """The level that is added to logarithms of factors (n,), and the tail, by the density."""

        def value(variables: FloatArray) -> float:
            tail = Tail(LEAST_DEGREES + float(np.exp(variables[1])))
            prior = np.square((variables - TAIL_MEANS) / TAIL_DEVIATIONS).sum()
            density = self.log_density(log_factor + variables[0], tail).sum()
            return float(0.5 * prior - density)

        found = minimize(value, TAIL_MEANS, method="L-BFGS-B", bounds=TAIL_BOX).x
        return float(found[0]), Tail(LEAST_DEGREES + float(np.exp(found[1])))


class VarianceObjective(SiteObjective):
    """Minus the log posterior density of the scales of a log variance, given squares.

    Variables are the logarithms of the variances of the linear part and of the features, and of the
    lengthscale.

    Parameters
    ----------
    inputs
        Columns u (n, c).
    frequencies
        Frequencies (m, c) at unit lengthscale.
    squares
        Squared scores (n,).
    """

    def __init__(self, inputs: FloatArray, frequencies: FloatArray, squares: FloatArray) -> None:
        super().__init__(self.rows, 3, Observed.of(SquaredNormal(), squares[:, None], np.zeros(1)))
        self.inputs, self.frequencies = inputs, frequencies
        width = np.log(inputs.shape[1])
        self.means = MEANS + width * np.array([-1.0, 0.0, 0.5])

    def deviations(self, variables: FloatArray) -> FloatArray:
        """Prior deviations (M,) of the weights."""
        m, c = self.frequencies.shape
        linear, features = np.exp(variables[:2] / 2)
        return np.repeat([1.0, linear, features / m**0.5], [1, c, 2 * m])

    def rows(self, variables: FloatArray) -> tuple[FeatureRows, Pull]:
        """The prior of the log variance at the rows, and slopes in variables from the features'."""
        m, c = self.frequencies.shape
        frequencies = self.frequencies / np.exp(variables[2])
        features = variance_features(self.inputs, frequencies) * self.deviations(variables)
        phases = self.inputs @ frequencies.T
        _, linear, sine, cosine = np.split(features, [1, 1 + c, 1 + c + m], axis=1)

        def pull(cotangent: FloatArray) -> FloatArray:
            _, of_linear, of_sine, of_cosine = np.split(cotangent, [1, 1 + c, 1 + c + m], axis=1)
            waves = float((of_sine * sine + of_cosine * cosine).sum())
            scale = float((phases * (of_cosine * sine - of_sine * cosine)).sum())
            return np.array([0.5 * float((of_linear * linear).sum()), 0.5 * waves, scale])

        return FeatureRows(lambda: [features]), pull

    def box(self, start: FloatArray) -> Box:
        return [(mean - REACH, mean + REACH) for mean in self.means]

    def value_and_gradient(self, variables: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = super().value_and_gradient(variables)
        gap = (variables - self.means) / DEVIATIONS
        return value + 0.5 * float(gap @ gap), gradient + gap / DEVIATIONS

    def field(
        self, variables: FloatArray, empty: VarianceField
    ) -> tuple[VarianceField, FloatArray]:
        """The posterior of the weights at variables, and log factors (n,) without each row's own.

        The field has the columns of `empty`. With slope g and precision W of its site, and moments
        m and v, the law of h at a row without its square has the variance `c = v / (1 - W v)` and
        the mean `m - c g`.
        """
        prior, _ = self.rows(variables)
        (features,), deviations = prior.chunks(), self.deviations(variables)
        found = find_sites(prior, self.observed[0])
        factor, _ = prior.factor(found.precision, found.shift)
        root = solve_triangular(factor, np.eye(len(factor)), lower=True).T
        rest = np.maximum(1.0 - found.precision * found.variance, LEAST_REST)
        without = found.variance / rest
        left_out = found.mean - without * found.alpha + 0.5 * without
        field = replace(
            empty,
            frequencies=self.frequencies / np.exp(variables[2]),
            weights=deviations * (features.T @ found.alpha),
            root=deviations[:, None] * root,
        )
        return field, left_out


def fit_variance(rows: LeftOutRows, seed: int) -> tuple[VarianceField, Tail]:
    """Fit a factor on the variance, and a tail, to observations with laws that have not seen them.

    Parameters
    ----------
    rows
        The observations.
    seed
        Seed of the frequencies.

    Raises
    ------
    NumericalError
        The sites of a posterior are not found.
    """
    columns, nothing = rows.columns, np.zeros((0, rows.columns.shape[1]))
    low, high = columns.min(axis=0), columns.max(axis=0)
    std = np.where(high > low, columns.std(axis=0), 1.0)
    std[-1] = 1.0  # the log deviation, whose unit is that of the log variance
    zero = np.zeros(0)
    field = VarianceField(
        low, high, columns.mean(axis=0), std, nothing, zero, zero[:, None], np.zeros(1)
    )
    drawn = FourierFeatures(columns.shape[1], FREQUENCIES, "orthogonal+pnc", "matern-5/2", seed)
    squares = own = rows.squares
    point = None
    for _ in range(2):
        objective = VarianceObjective(field.inputs(columns), drawn.frequencies.numpy(), own)
        start = objective.means if point is None else point
        point = Search().improved(objective, start, STOPPING).point
        field, left_out = objective.field(point, field)
        level, tail = rows.tail(left_out)
        z = squares * np.exp(-left_out - level)
        own = squares * (tail.degrees + 1) / (tail.degrees + z)
    return replace(field, level=np.array([level])), tail
