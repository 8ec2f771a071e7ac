"""What observations say of laws under a likelihood: rivals beside them, and draws of the model."""

from __future__ import annotations

import numpy as np

from coupledgp.diagnostics.likelihoods.class_laws import LEAST_CHANCE, ClassLaws, drawn_labels
from coupledgp.diagnostics.likelihoods.latent_kl import FunctionLaw
from coupledgp.diagnostics.likelihoods.rivals import ClassRival, CountRival
from coupledgp.diagnostics.rivals.contest import BesideBaseline
from coupledgp.diagnostics.scoring.scores import paired_difference
from coupledgp.likelihoods.base import Likelihood
from coupledgp.likelihoods.counts import class_log_chances
from coupledgp.random import FloatArray, IntArray

# Draws of the labels of the test points, and functions that are drawn at once.
N_DRAWS, AT_ONCE = 2000, 250
# Least log chance of a class under a draw.
LEAST_LOG = float(np.log(LEAST_CHANCE))


def class_draws(
    law: FunctionLaw | None,
    likelihood: Likelihood,
    laws: ClassLaws,
    n_train: int | None,
    power: float = 1.0,
) -> IntArray:
    """Places (N_DRAWS, p) of labels drawn from a model.

    Functions are drawn from their joint law, so that near points share errors. Logits of each draw
    are scaled by a random factor, since the scale of functions that n rows were fitted to is known
    up to an error: that of the slope of a logistic regression on n such rows. Without a law of
    functions points are independent.
    """
    rng = np.random.default_rng(0)
    spread, roots = _slope_error(laws, n_train), None if law is None else _roots(law)
    found = []
    for _ in range(N_DRAWS // AT_ONCE):
        values = np.broadcast_to(laws.log_chances, (AT_ONCE, *laws.chances.shape))
        if law is not None and roots is not None:
            noise = rng.standard_normal((AT_ONCE, *law.mean.shape))
            f = law.mean + np.einsum("ijk,mjk->mik", roots, noise, optimize=True)
            zero, one = (likelihood.log_density(np.full_like(f, y), f) for y in (0.0, 1.0))
            values = np.maximum(class_log_chances(zero, one, power), LEAST_LOG)
        center = values.mean(axis=2, keepdims=True)
        slope = np.exp(spread * rng.standard_normal((AT_ONCE, 1, 1)))
        scaled = center + slope * (values - center)
        chances = np.exp(scaled - scaled.max(axis=2, keepdims=True))
        found.append(drawn_labels(chances / chances.sum(axis=2, keepdims=True), rng))
    return np.concatenate(found)


def _roots(law: FunctionLaw) -> FloatArray:
    """Symmetric roots (p, p, k) of the covariances of functions."""
    found = np.empty_like(law.cov)
    for k in range(law.cov.shape[2]):
        values, vectors = np.linalg.eigh(law.cov[..., k])
        found[..., k] = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return found


def _slope_error(laws: ClassLaws, n_train: int | None) -> float:
    """Standard error of the slope of logits that a fit to n rows leaves, half at most."""
    if n_train is None:
        return 0.0
    chance, _ = laws.event()
    p = np.clip(chance, 1e-6, 1 - 1e-6)
    information = n_train * float((p * (1 - p) * np.square(np.log(p / (1 - p)))).mean())
    return min(0.5, 1 / np.sqrt(max(information, 1e-12)))


def class_rival_beside(
    laws: ClassLaws, codes: IntArray, draws: IntArray | None, rival: ClassRival
) -> BesideBaseline:
    """A classifier beside a rival at p points.

    Standard errors allow for what near points share: the variance of the mean difference over the
    draws (m, p) of labels, beyond that of independent labels, is added.
    """
    other = rival.laws
    differences = {}
    for name, losses in (("nlpd", "log_losses"), ("squared_error", "brier_losses")):
        own, theirs = (getattr(one, losses)(codes) for one in (laws, other))
        gap = paired_difference(own, theirs)._asdict()
        if draws is not None and gap["standard_error"] is not None:
            every = [
                getattr(laws, losses)(np.full(len(codes), c))
                - getattr(other, losses)(np.full(len(codes), c))
                for c in range(len(laws.classes))
            ]
            shared = _shared_variance(np.stack(every, axis=1), draws)
            gap["standard_error"] = float(np.sqrt(gap["standard_error"] ** 2 + shared))
        differences[name] = gap
    return BesideBaseline(
        rival.name, float(np.sqrt(other.brier_losses(codes).mean())),
        float(other.log_losses(codes).mean()), differences,
    )  # fmt: skip


def _shared_variance(table: FloatArray, draws: IntArray) -> float:
    """What dependence adds to the variance of the mean of values (p, K) by class over draws."""
    values = table[np.arange(len(table)), draws]
    together = float(values.mean(axis=1).var(ddof=1))
    alone = float(values.var(axis=0, ddof=1).sum()) / len(table) ** 2
    return max(together - alone, 0.0)


def observation_rival_beside(
    y: FloatArray, mean: FloatArray, nlpd: FloatArray, rival: CountRival, shared: float
) -> BesideBaseline:
    """Laws of observations (p,) beside a rival's; variances of shared errors are a factor."""
    differences = {}
    squares = np.square(y - mean), np.square(y - rival.mean)
    for name, (own, theirs) in {"nlpd": (nlpd, rival.nlpd), "squared_error": squares}.items():
        gap = paired_difference(own, theirs)._asdict()
        if gap["standard_error"] is not None:
            gap["standard_error"] *= float(np.sqrt(shared))
        differences[name] = gap
    return BesideBaseline(
        rival.name, float(np.sqrt(squares[1].mean())), float(rival.nlpd.mean()), differences
    )
