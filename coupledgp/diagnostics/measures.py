"""Figures of a comparison from the two joint laws."""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.diagnostics.divergences import gaussian_kl, kl_bounds
from coupledgp.diagnostics.laws import Law
from coupledgp.diagnostics.scores import (
    coverage,
    crps,
    interval_width,
    kernel_error,
    mae,
    nlpd,
    nlpd_joint,
    paired_difference,
    pit_histogram,
    point_crps,
    point_nlpd,
    rmse,
    sharpness,
)
from coupledgp.random import FloatArray

Bounds = dict[str, tuple[float, float]]
# Negative log densities (p,) of model and reference, each only where its law is a mixture.
MixtureNlpds = tuple[FloatArray | None, FloatArray | None]


def kl_per_point(p: Law, q: Law) -> float:
    """`KL(p || q)`, nats per point and output."""
    outputs = range(p.mean.shape[1])
    total = sum(
        gaussian_kl(p.mean[:, k], p.cov[..., k], q.mean[:, k], q.cov[..., k]) for k in outputs
    )
    return total / p.mean.size


def kl_bounds_per_point(p: Law, q: Law) -> tuple[float, float]:
    """How far below and above `kl_per_point` the divergence of the true laws may be."""
    total = np.zeros(2)
    for k in range(p.mean.shape[1]):
        p_k, q_k = (
            (law.mean[:, k], law.cov[..., k], law.floor(k), _radius(law, k)) for law in (p, q)
        )
        total += kl_bounds(p_k, q_k)
    below, above = total / p.mean.size
    return float(below), float(above)


def _radius(law: Law, k: int) -> float:
    return 0.0 if law.mean_error is None else float(law.mean_error[k])


def prior_figures(law: Law, exact: Law) -> dict[str, Any]:
    """KL between the priors of observations and the errors of the Gram matrix of f.

    Only for laws that state their prior and noise.
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
    law: Law, exact: Law, y: FloatArray | None, nlpds: MixtureNlpds = (None, None)
) -> dict[str, Any]:
    """Scores of both laws, and their differences point by point; targets (p, k).

    `nlpds` of mixtures: see `marginal_scores`.
    """
    if y is None:
        return {}
    own, other = nlpds
    return (
        marginal_scores(y, law.mean, law.std, "", own)
        | marginal_scores(y, exact.mean, exact.std, "reference_", other)
        | {"nlpd_joint": joint_nlpd(law, y), "reference_nlpd_joint": joint_nlpd(exact, y)}
        | {"differences": differences(y, law.mean, law.std, exact.mean, exact.std, nlpds)}
    )


def joint_nlpd(law: Law, y: FloatArray) -> float:
    """Joint negative log density per point, mean over outputs."""
    outputs = range(y.shape[1])
    values = [nlpd_joint(y[:, k], law.mean[:, k], law.cov[..., k]) for k in outputs]
    return float(np.mean(values))


def marginal_scores(
    y: FloatArray,
    mean: FloatArray,
    std: FloatArray,
    prefix: str,
    mixture_nlpd: FloatArray | None = None,
) -> dict[str, Any]:
    """All scores that need the law of each point only.

    They are those of the Gaussian law of these moments; of a mixture, give the negative log
    densities of the points (p,), which are its own.
    """
    density = nlpd(y, mean, std) if mixture_nlpd is None else float(np.mean(mixture_nlpd))
    scores = {
        "rmse": rmse(y, mean),
        "mae": mae(y, mean),
        "nlpd": density,
        "crps": crps(y, mean, std),
        "sharpness": sharpness(std),
        "coverage": coverage(y, mean, std),
        "interval_width": interval_width(std),
        "pit": pit_histogram(y, mean, std),
        "standard_errors": standard_errors(y, mean, std, mixture_nlpd),
    }
    return {prefix + name: value for name, value in scores.items()}


def standard_errors(
    y: FloatArray, mean: FloatArray, std: FloatArray, mixture_nlpd: FloatArray | None = None
) -> dict[str, float | None]:
    """Standard errors of scores over points; that of the RMSE by the delta method."""
    points = {
        "rmse": np.square(y - mean),
        "mae": np.abs(y - mean),
        "nlpd": _point_nlpd(y, mean, std, mixture_nlpd),
        "crps": point_crps(y, mean, std),
    }
    errors = {name: paired_difference(a, np.zeros_like(a))[1] for name, a in points.items()}
    middle = rmse(y, mean)
    if errors["rmse"] is not None:
        errors["rmse"] = errors["rmse"] / (2 * middle) if middle > 0 else 0.0
    return errors


def differences(
    y: FloatArray,
    mean: FloatArray,
    std: FloatArray,
    reference_mean: FloatArray,
    reference_std: FloatArray,
    nlpds: MixtureNlpds = (None, None),
) -> dict[str, Any]:
    """Model minus reference, score by score, with standard errors over points."""
    own, other = (mean, std), (reference_mean, reference_std)
    pairs = {
        "squared_error": (np.square(y - mean), np.square(y - reference_mean)),
        "absolute_error": (np.abs(y - mean), np.abs(y - reference_mean)),
        "nlpd": (_point_nlpd(y, *own, nlpds[0]), _point_nlpd(y, *other, nlpds[1])),
        "crps": (point_crps(y, *own), point_crps(y, *other)),
    }
    return {name: paired_difference(a, b)._asdict() for name, (a, b) in pairs.items()}


def _point_nlpd(
    y: FloatArray, mean: FloatArray, std: FloatArray, of_mixture: FloatArray | None
) -> FloatArray:
    """Mean over outputs (p,)."""
    return point_nlpd(y, mean, std).mean(axis=1) if of_mixture is None else of_mixture


def solver_bounds(law: Law, exact: Law, y: FloatArray | None) -> Bounds:
    """How far (below, above) each figure may be off by what the solvers left undone."""
    bounds = {
        "kl_per_point": kl_bounds_per_point(exact, law),
        "reverse_kl_per_point": kl_bounds_per_point(law, exact),
    }
    if y is None:
        return bounds
    for prefix, one in (("", law), ("reference_", exact)):
        if one.cov_error is not None:
            bounds |= {prefix + name: pair for name, pair in score_bounds(one, y).items()}
    return bounds


def score_bounds(law: Law, y: FloatArray) -> Bounds:
    """The same for the scores that enter a verdict."""
    gap, error = np.abs(y - law.mean), law.mean_bounds()
    least, most = np.maximum(gap - error, 0.0), gap + error
    high = np.square(law.std)
    low = np.stack([np.diagonal(law.floor(k)) for k in range(y.shape[1])], axis=1)
    middle = rmse(y, law.mean)
    value = np.square(gap) / high + np.log(high)
    worst, best = np.square(most) / low + np.log(high), np.square(least) / high + np.log(low)
    return {
        "rmse": (
            middle - float(np.sqrt(np.mean(np.square(least)))),
            float(np.sqrt(np.mean(np.square(most)))) - middle,
        ),
        "nlpd": (0.5 * float(np.mean(value - best)), 0.5 * float(np.mean(worst - value))),
    }
