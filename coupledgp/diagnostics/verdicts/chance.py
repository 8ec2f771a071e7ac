"""Standard errors of paired differences at points whose errors go together.

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

from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from coupledgp.diagnostics.rivals.beside import BesideBaseline
from coupledgp.diagnostics.rivals.observations import BaselinePrediction
from coupledgp.diagnostics.scoring.laws import Law
from coupledgp.diagnostics.scoring.measures import LOG_CRPS
from coupledgp.diagnostics.verdicts.rules import MATTERS
from coupledgp.random import FloatArray

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
