"""Figures of a comparison from the two joint laws: divergences, and the scores of the table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.diagnostics.scoring.divergences import gaussian_kl
from coupledgp.diagnostics.scoring.laws import Law
from coupledgp.diagnostics.scoring.score_table import (
    SCORES,
    JointScore,
    MarginalScore,
    OwnLaws,
    PointScore,
    ScoreValue,
    paired_scores,
)
from coupledgp.diagnostics.scoring.scores import kernel_error, paired_difference
from coupledgp.random import FloatArray

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
    """Scores of both laws, and their differences point by point; targets (p, k).

    `mixtures` of mixtures: see `marginal_scores`.
    """
    if y is None:
        return {}
    own, other = mixtures
    return (
        marginal_scores(y, law.mean, law.std, "", own)
        | marginal_scores(y, exact.mean, exact.std, "reference_", other)
        | joint_scores(law, y, "")
        | joint_scores(exact, y, "reference_")
        | {"differences": differences(y, law.mean, law.std, exact.mean, exact.std, mixtures)}
    )


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
    y: FloatArray,
    mean: FloatArray,
    std: FloatArray,
    prefix: str,
    mixture: OwnLaws | None = None,
    groups: ArrayLike | None = None,
) -> dict[str, Any]:
    """All scores that need the law of each point only, and their standard errors.

    They are those of the Gaussian law of these moments; a mixture has its own log densities,
    distribution function and quantiles.

    Parameters
    ----------
    y, mean, std
        Targets, means and standard deviations (p, k).
    prefix
        Put before the names of the scores: empty, or `"reference_"`.
    mixture
        The laws of the points where they are mixtures.
    groups
        Groups (p,) in which losses go together; None: every point by itself.
    """
    found: dict[str, ScoreValue | dict[str, float | None]] = {}
    for score in SCORES.values():
        if isinstance(score, PointScore):
            found[score.name] = score.value(score.losses(y, mean, std, mixture))
        elif isinstance(score, MarginalScore):
            found[score.name] = score.value(y, mean, std, mixture)
    found["standard_errors"] = standard_errors(y, mean, std, mixture, groups)
    return {prefix + name: value for name, value in found.items()}


def standard_errors(
    y: FloatArray,
    mean: FloatArray,
    std: FloatArray,
    mixture: OwnLaws | None = None,
    groups: ArrayLike | None = None,
) -> dict[str, float | None]:
    """Standard errors of scores over points or groups (p,), roots by the delta method."""
    errors = {}
    for score in paired_scores():
        losses = score.losses(y, mean, std, mixture)
        error = paired_difference(losses, np.zeros_like(losses), groups).standard_error
        if score.root and error is not None:
            value = score.value(losses)
            error = error / (2 * value) if value > 0 else 0.0
        errors[score.name] = error
    return errors


def differences(
    y: FloatArray,
    mean: FloatArray,
    std: FloatArray,
    reference_mean: FloatArray,
    reference_std: FloatArray,
    mixtures: Mixtures = (None, None),
    groups: ArrayLike | None = None,
) -> dict[str, Any]:
    """Losses of the model minus losses of the reference, with standard errors over points.

    Targets, means and standard deviations are (p, k); `mixtures` and `groups`: see
    `marginal_scores`.
    """
    found = {}
    for score in paired_scores():
        own = score.losses(y, mean, std, mixtures[0])
        other = score.losses(y, reference_mean, reference_std, mixtures[1])
        pair = paired_difference(_over_outputs(own), _over_outputs(other), groups)
        found[score.difference_name] = pair._asdict()
    return found


def _over_outputs(losses: FloatArray) -> FloatArray:
    """Mean over outputs (p,) of losses (p, k) or (p,)."""
    return losses.reshape(len(losses), -1).mean(axis=1)
