"""Fits of a factor on the variance, and of a tail, to observations that were left out.

Normal scores z of left-out laws have `z^2 ~ exp(h) chi^2_1` where variances are off by a factor
`exp(h)`. The evidence of these squares, by Laplace's approximation, decides on the scales of h: a
constant, a linear part, and features of a Matern-5/2 kernel. Level and degrees of freedom are those
of greatest density of the observations, each with a factor that has not seen it. Then squares are
weighed as under Student's law, `z^2 (nu + 1) / (nu + z^2 exp(-h))`, a step of expectation and
maximisation, and h is fitted again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import special
from scipy.optimize import minimize

from coupledgp.features import FourierFeatures
from coupledgp.gp.left_out import LeftOut
from coupledgp.gp.units import Tail
from coupledgp.gp.varying_noise import VarianceField, variance_features
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.inference.evidence.problem import Box
from coupledgp.inference.sites.objective import SiteObjective
from coupledgp.inference.sites.priors import FeatureSites
from coupledgp.inference.sites.rules import Observed, rule_of
from coupledgp.inference.sites.steps import find_sites
from coupledgp.likelihoods.gaussian import SquaredNormal
from coupledgp.linalg.matrices import batch_cholesky
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

    def __init__(self, inputs: Tensor, frequencies: Tensor, squares: FloatArray) -> None:
        observed = Observed.of(SquaredNormal(), squares[:, None], np.zeros(1))
        super().__init__(self.sites, 3, observed, rule_of("laplace"))
        self.inputs, self.frequencies = inputs, frequencies
        width = np.log(inputs.shape[1])
        self.means = MEANS + width * np.array([-1.0, 0.0, 0.5])

    def deviations(self, variables: Tensor) -> Tensor:
        """Prior deviations (M,) of the weights."""
        m, c = self.frequencies.shape
        linear, features = (variables[:2] / 2).exp()
        parts = torch.ones_like(linear).expand(1), linear.expand(c), features.expand(2 * m) / m**0.5
        return torch.cat(parts)

    def features(self, variables: Tensor) -> Tensor:
        """Features (n, M) of unit variance."""
        return variance_features(self.inputs, self.frequencies / variables[2].exp())

    def sites(self, variables: Tensor) -> FeatureSites:
        """The prior of the log variance at the rows."""
        features = self.features(variables) * self.deviations(variables)
        return FeatureSites(lambda: [features])

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
        at = torch.as_tensor(variables)
        deviations = self.deviations(at)
        features = self.features(at) * deviations
        found = find_sites(self.sites(at), self.rule, self.observed)
        eye = torch.eye(features.shape[1], dtype=torch.float64)
        precision = eye + (features * found.precision[0][:, None]).T @ features
        factor = batch_cholesky(precision[None], "I + Phi' W Phi")
        root = torch.linalg.solve_triangular(factor[0], eye, upper=False).T
        variance = (features @ root).square().sum(1)
        without = variance / (1.0 - found.precision[0] * variance).clamp_min(LEAST_REST)
        left_out = found.mean[0] - without * found.alpha[0] + 0.5 * without
        field = replace(
            empty,
            frequencies=(self.frequencies / at[2].exp()).numpy(),
            weights=(deviations * (features.T @ found.alpha[0])).numpy(),
            root=(deviations[:, None] * root).numpy(),
        )
        return field, left_out.numpy()


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
        The mode of a posterior is not found.
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
        objective = VarianceObjective(field.inputs(columns), drawn.frequencies, own)
        start = objective.means if point is None else point
        point = Search().improved(objective, start, STOPPING).point
        field, left_out = objective.field(point, field)
        level, tail = rows.tail(left_out)
        z = squares * np.exp(-left_out - level)
        own = squares * (tail.degrees + 1) / (tail.degrees + z)
    return replace(field, level=np.array([level])), tail
