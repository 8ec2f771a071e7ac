"""Figures of a comparison from the two joint laws: divergences, and the scores of the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.diagnostics.scoring.divergences import gaussian_kl
from coupledgp.diagnostics.scoring.laws import Law, PointLaws
from coupledgp.diagnostics.scoring.score_table import (
    CRPS,
    SCORES,
    JointScore,
    MarginalScore,
    OwnLaws,
    PointScore,
    ScoreValue,
    lacking,
    paired_scores,
)
from coupledgp.diagnostics.scoring.scores import kernel_error, paired_difference
from coupledgp.random import FloatArray

# Name of the paired difference of laws without a density.
LOG_CRPS = "log_crps"
# Laws of the points of model and reference, each only where they are mixtures.
Mixtures = tuple[OwnLaws | None, OwnLaws | None]


def kl_per_point(p: Law, q: Law) -> float:
    """`KL(p || q)` of two joint laws, nats per point and output."""
    outputs = range(p.mean.shape[1])
    total = sum(
        gaussian_kl(p.mean[:, k], p.cov[..., k], q.mean[:, k], q.cov[..., k]) for k in outputs
    )
    return total / p.mean.size


def prior_figures(law: Law, exact: Law) -> dict[str, Any]:
    """KL between the priors of observations, and the errors of the Gram matrix of f.

    All are None unless both laws state their prior and noise.
    """
    if any(part is None for part in (law.prior, exact.prior, law.noise, exact.noise)):
        return {"prior_kl_per_point": None, "kernel_rmse": None, "kernel_relative_error": None}
    priors = []
    for one in (law, exact):
        assert one.prior is not None
        assert one.noise is not None
        noise = np.eye(len(one.prior))[:, :, None] * one.noise
        priors.append(Law(np.zeros(one.prior.shape[1:]), one.prior + noise))
    assert law.prior is not None
    assert exact.prior is not None
    errors = [kernel_error(a, b) for a, b in zip(law.prior.T, exact.prior.T, strict=True)]
    return {
        "prior_kl_per_point": kl_per_point(priors[1], priors[0]),
        "kernel_rmse": float(np.mean([error[0] for error in errors])),
        "kernel_relative_error": float(np.mean([error[1] for error in errors])),
    }


def score_figures(
    law: Law, exact: Law, y: FloatArray | None, mixtures: Mixtures = (None, None)
) -> dict[str, Any]:
    """Scores of both laws, and their differences point by point; targets (p, k)."""
    if y is None:
        return {}
    joint = joint_scores(law, y, "") | joint_scores(exact, y, "reference_")
    return joint | beside_scores(y, law.single(mixtures[0]), exact.single(mixtures[1]))


def beside_scores(y: FloatArray, laws: PointLaws, other: PointLaws) -> dict[str, Any]:
    """Scores of laws of single points and of a reference's, and their differences; (p, k)."""
    scores = marginal_scores(y, laws, "") | marginal_scores(y, other, "reference_")
    return scores | {"differences": differences(y, laws, other)}


def joint_scores(law: Law, y: FloatArray, prefix: str) -> dict[str, float]:
    """Scores of the joint law of all points, each the mean over outputs; targets (p, k)."""
    outputs = range(y.shape[1])
    return {
        prefix + score.name: float(
            np.mean([score.function(y[:, k], law.mean[:, k], law.cov[..., k]) for k in outputs])
        )
        for score in SCORES.values()
        if isinstance(score, JointScore)
    }


def marginal_scores(
    y: FloatArray, laws: PointLaws, prefix: str, groups: ArrayLike | None = None
) -> dict[str, Any]:
    """All scores that need the law of each point only, and their standard errors.

    They are those of the Gaussian law of these moments; a mixture has its own log densities,
    distribution function and quantiles. Scores that laws lack are left out, as the NLPD of draws.

    Parameters
    ----------
    y, laws
        Targets (p, k), and laws of the points.
    prefix
        Put before the names of the scores: empty, or `"reference_"`.
    groups
        Groups (p,) in which losses go together; None: every point by itself.
    """
    found: dict[str, ScoreValue | dict[str, float | None]] = {}
    for score in SCORES.values():
        if score.name in lacking(laws.own):
            continue
        if isinstance(score, PointScore):
            found[score.name] = score.value(laws.losses(score, y))
        elif isinstance(score, MarginalScore):
            found[score.name] = score.value(y, laws.mean, laws.std, laws.own)
    found["standard_errors"] = standard_errors(y, laws, groups)
    return {prefix + name: value for name, value in found.items()}


def standard_errors(
    y: FloatArray, laws: PointLaws, groups: ArrayLike | None = None
) -> dict[str, float | None]:
    """Standard errors of scores over points or groups (p,), roots by the delta method."""
    errors = {}
    for score in paired_scores():
        if score.name in lacking(laws.own):
            continue
        losses = laws.losses(score, y)
        error = paired_difference(losses, np.zeros_like(losses), groups).standard_error
        errors[score.name] = score.error(losses, error)
    return errors


def differences(
    y: FloatArray, laws: PointLaws, other: PointLaws, groups: ArrayLike | None = None
) -> dict[str, Any]:
    """Losses of the model minus losses of another law, with standard errors over points or groups.

    Targets are (p, k), groups (p,). Without a density of either the NLPD is replaced by `log_crps`,
    the logarithm of the ratio of the mean CRPS: for laws of one shape the nats of their scales.
    Normal laws beside quantiles are reduced to quantiles at the same chances.
    """
    found = {}
    laws, other = laws.beside(other), other.beside(laws)
    lacks = lacking(laws.own) | lacking(other.own)
    if "nlpd" in lacks:
        found[LOG_CRPS] = _log_ratio(laws.losses(CRPS, y), other.losses(CRPS, y), groups)
    for score in paired_scores():
        if score.name in lacks:
            continue
        own, theirs = (over_outputs(one.losses(score, y)) for one in (laws, other))
        found[score.difference_name] = paired_difference(own, theirs, groups)._asdict()
    return found


def _log_ratio(
    own: FloatArray, theirs: FloatArray, groups: ArrayLike | None
) -> dict[str, float | None]:
    """Logarithm of the ratio of two mean losses (p, k), its error by the delta method."""
    means = [max(float(np.mean(losses)), 1e-300) for losses in (own, theirs)]
    parts = [over_outputs(losses) / mean for losses, mean in zip((own, theirs), means, strict=True)]
    error = paired_difference(parts[0], parts[1], groups).standard_error
    return {"mean": float(np.log(means[0] / means[1])), "standard_error": error}


def gain_of(gaps: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """The paired difference in nats per point: of log densities, or by the CRPS without them."""
    return gaps["nlpd"] if "nlpd" in gaps else gaps[LOG_CRPS]


def over_outputs(losses: FloatArray) -> FloatArray:
    """Mean over outputs (p,) of losses (p, k) or (p,)."""
    return losses.reshape(len(losses), -1).mean(axis=1)
