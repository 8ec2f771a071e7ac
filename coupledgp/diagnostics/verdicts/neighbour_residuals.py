"""Signs that a kernel does not fit: residuals of neighbours that go together more than they should.

A kernel that is too smooth, or that lacks a local part, leaves errors that near test points share.
Their correlation, Moran's I of the standardised residuals r with each point's nearest neighbour
`j(i)`, is

    I = sum_i r_i r_j(i) / sum_i r_i^2.

It is not zero for a true model, whose neighbours share the uncertainty of f, so it is compared with
that of draws from the joint predictive law (Moran, 1950, Biometrika 37).

Standard errors of paired differences at points whose errors go together.

Near points share errors of the function, so that a mean over p points varies more than over p
independent ones. With observations `y ~ N(m, C)` of standard deviations s, and a rival law of means
b and standard deviations t, the model's NLPD minus the rival's at point i is, constants aside,

    d_i = e_i^2 (1 / s_i^2 - 1 / t_i^2) / 2 - e_i (m_i - b_i) / t_i^2,    e = y - m,

so that, with `a = 1 / s^2 - 1 / t^2` and `c = (m - b) / t^2`,

    cov(d_i, d_j) = a_i a_j C_ij^2 / 2 + c_i c_j C_ij.

The terms of `i != j` are added to the variance over points taken as independent. Those of a
difference of squared errors, `d_i = 2 e_i (b_i - m_i)` and a constant, are `4 c_i c_j C_ij` with
`c = b - m`.

If the model were true, a rival of another law would lose on average
`KL_i = KL(N(m_i, s_i^2) || N(b_i, t_i^2))` at point i. One that gains g nats instead is above that
mean by g + KL, which stands beside the error that the model's law gives. So the error beside g is
less, by g / (g + KL), but not below that of points taken as independent: a law far from the truth
is no judge of what is chance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy.special import stdtr

from coupledgp.diagnostics.rivals.contest import BesideBaseline
from coupledgp.diagnostics.rivals.observations import BaselinePrediction
from coupledgp.diagnostics.scoring.divergences import covariance_root
from coupledgp.diagnostics.scoring.laws import Law
from coupledgp.diagnostics.scoring.measures import LOG_CRPS
from coupledgp.diagnostics.verdicts.verdict import MATTERS
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray, IntArray

# Share of draws of a true law that are called a misfit. Hyperparameters fitted to few rows widen
# what chance does by a quarter, which makes it 2 % of true models.
ALARM = 0.003


@dataclass(frozen=True)
class ResidualCorrelation:
    """Correlation of standardised test residuals with those of their nearest neighbours.

    Attributes
    ----------
    value : float
        Moran's I, the mean over outputs.
    expected, standard_error : float
        Mean and standard deviation over draws of the joint predictive law.
    p_value : float
        Share of draws whose correlation is as large.

    Examples
    --------
    >>> from coupledgp.diagnostics import ResidualCorrelation
    >>> found = ResidualCorrelation(value=0.5, expected=0.1, standard_error=0.1, p_value=0.001)
    >>> round(found.z, 3), found.is_misfit
    (4.0, True)
    >>> round(found.gain, 3)  # -log(1 - 0.4^2) / 2
    0.087
    """

    value: float
    expected: float
    standard_error: float
    p_value: float

    @property
    def z(self) -> float:
        """Standard errors by which the value is above what a true law gives."""
        return (self.value - self.expected) / self.standard_error

    @property
    def gain(self) -> float:
        """An estimate of what a model without it would gain, nats per point.

        Residuals that correlate by r with a neighbour's are known from it up to `1 - r^2` of their
        variance, which is `-log(1 - r^2) / 2` nats.
        """
        excess = min(max(self.value - self.expected, 0.0), 0.99)
        return float(-0.5 * np.log1p(-(excess**2)))

    @property
    def is_misfit(self) -> bool:
        """Whether a true law has it in three cases of a thousand or fewer, and it matters."""
        return self.p_value <= ALARM and self.gain > MATTERS

    def verdict(self) -> str:
        """What the correlation says, in a sentence."""
        found = (
            f"residuals of neighbours correlate by {self.value:.2g}, a true model's by "
            f"{self.expected:.2g} ± {self.standard_error:.1g}"
        )
        if self.is_misfit:
            return (
                f"The kernel misses structure that near points share: {found}. A rougher kernel, a "
                "local part, a trend or other inputs may predict better."
            )
        return f"No sign that the kernel misses structure: {found}."


def residual_correlation_of(
    law: Law, y: FloatArray, near: IntArray | None = None, n_draws: int = 2000, seed: int = 0
) -> ResidualCorrelation:
    """The correlation of `residual_correlation` for a law at p points and targets (p, k)."""
    near = nearest(law) if near is None else near
    rng = np.random.default_rng(seed)
    values, draws = [], []
    for k in range(y.shape[1]):
        std = law.std[:, k]
        values.append(_correlation(((y[:, k] - law.mean[:, k]) / std)[:, None], near)[0])
        root = covariance_root(law.cov[..., k], "predictive covariance")
        errors = root @ rng.standard_normal((len(y), n_draws))
        draws.append(_correlation(errors / std[:, None], near))
    value, others = float(np.mean(values)), np.mean(draws, axis=0)
    share = (1 + (others >= value).sum()) / (1 + n_draws)
    return ResidualCorrelation(value, float(others.mean()), float(others.std(ddof=1)), float(share))


def exchanged_correlation(scores: FloatArray, near: IntArray) -> ResidualCorrelation:
    """The correlation of targets that are known to be exchangeable with draws.

    The mean and the deviation are those of the draws, whose p-value is by Student's law of m - 1
    degrees of freedom: few draws do not tell the correlations of the points.

    Parameters
    ----------
    scores
        Normal scores (m + 1, p) of the targets, first, and of m draws.
    near
        Number (p,) of the nearest other point of each.
    """
    values = _correlation(scores.T, near)
    own, others = float(values[0]), values[1:]
    m, mean = len(others), float(others.mean())
    error = max(float(others.std(ddof=1)) * np.sqrt(1 + 1 / m), 1e-300)
    share = float(stdtr(m - 1, -(own - mean) / error))
    return ResidualCorrelation(own, mean, error, share)


def nearest(law: Law) -> IntArray:
    """Number (p,) of the other point that each has the largest prior correlation with."""
    if law.prior is None:
        raise InvalidInputError("neighbors: expected them for a model that states no prior")
    prior = law.prior.mean(axis=2)
    std = np.sqrt(np.diagonal(prior))
    correlation = prior / np.multiply.outer(std, std)
    np.fill_diagonal(correlation, -np.inf)
    found: IntArray = correlation.argmax(axis=1).astype(np.int64)
    return found


def _correlation(residuals: FloatArray, near: IntArray) -> FloatArray:
    """Moran's I (m,) of residuals (p, m)."""
    products, squares = (residuals * residuals[near]).sum(axis=0), np.square(residuals).sum(axis=0)
    found: FloatArray = np.divide(products, squares, out=np.zeros_like(squares), where=squares > 0)
    return found


# Paired differences by name: their mean, and its standard error.
Gaps = dict[str, dict[str, Any]]


def widened(
    beside: BesideBaseline, law: Law, correlation: FloatArray, rival: BaselinePrediction
) -> BesideBaseline:
    """The comparison with standard errors that allow for what near points share."""
    assert rival.std is not None
    shape = law.mean.shape
    mean, std = rival.mean.reshape(shape), rival.std.reshape(shape)
    shared = shared_variances(law, correlation, mean, std)
    gain = beside.gain
    if gain > 0:
        shared["nlpd"] *= np.square(gain / (gain + _divergence(law, mean, std)))
    return replace(beside, differences=with_shared(beside.differences, shared))


def _divergence(law: Law, mean: FloatArray, std: FloatArray) -> float:
    """Mean divergence of a law's points from normal laws (p, k), nats."""
    own = law.std
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratio = np.square(own / std)
        found = 0.5 * (ratio - 1 - np.log(ratio) + np.square((law.mean - mean) / std))
    value = float(found.mean())
    return max(value, 0.0) if np.isfinite(value) else 0.0


def with_shared(differences: Gaps, shared: dict[str, float]) -> Gaps:
    """Paired differences with standard errors that allow for what near points share.

    `shared` are the variances of `shared_variances`, which are added to squared errors. That of the
    NLPD serves the logarithm of the CRPS: both are nats of scales, to first order.
    """
    found = {name: dict(gap) for name, gap in differences.items()}
    for name, variance in (shared | {LOG_CRPS: shared["nlpd"]}).items():
        error = found.get(name, {}).get("standard_error")
        if error is not None:
            found[name]["standard_error"] = float(np.sqrt(error**2 + variance))
    return found


def shared_variances(
    law: Law, correlation: FloatArray, mean: FloatArray, std: FloatArray
) -> dict[str, float]:
    """What errors that points share add to the variances of mean differences from a rival's law.

    Parameters
    ----------
    law
        The model's law at p points, k outputs.
    correlation
        Correlations (p, p, k) of its observations.
    mean, std
        Those of the rival, (p, k).
    """
    own = law.std
    squared = nlpd = 0.0
    for k in range(own.shape[1]):
        matrix = correlation[..., min(k, correlation.shape[2] - 1)].copy()
        np.fill_diagonal(matrix, 0.0)
        s, t, gap = own[:, k], std[:, k], law.mean[:, k] - mean[:, k]
        # A rival that is certain, as of constant targets, is beyond all numbers.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            a, c = 1 - np.square(s / t), s * gap / np.square(t)
            nlpd += 0.5 * _form(np.square(matrix), a) + _form(matrix, c)
            squared += 4 * _form(matrix, s * gap)
    found = {"squared_error": squared / own.size**2, "nlpd": nlpd / own.size**2}
    return {name: value if 0 < value < np.inf else 0.0 for name, value in found.items()}


def _form(matrix: FloatArray, vector: FloatArray) -> float:
    return float(vector @ (matrix @ vector))


class Gaining(Protocol):
    """Something that could be picked, with its gain in nats per point and the standard error."""

    @property
    def gain(self) -> float:
        """Mean paired decrease of the NLPD."""

    @property
    def standard_error(self) -> float | None:
        """Standard error of the gain; None for a single point."""


def is_better(one: Gaining, n_errors: float) -> bool:
    """Whether it is better by an amount that matters, and by more than some standard errors."""
    error = one.standard_error
    return error is not None and one.gain > max(n_errors * error, MATTERS)


def clear_gap(gap: dict[str, Any], n_errors: float) -> bool:
    """Whether a paired difference is above zero by more than some standard errors."""
    mean, error = gap["mean"], gap["standard_error"]
    return error is not None and mean is not None and mean > n_errors * error
