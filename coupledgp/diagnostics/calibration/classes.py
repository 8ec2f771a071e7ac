"""Calibration of chances of classes, with what labels drawn from the model give.

With event e_i of chance p_i, the bins b of n_b points hold equal numbers of points in the order of
their chances, and

    expected calibration error   sum_b n_b / n |mean of e - mean of p| .

It is above zero for true chances too. So it stands beside that of labels that are drawn from the
model's joint distribution. The same draws judge a recalibration of the chances, `a + b logit(p)`,
by its score test, and the share of each class beside its mean chance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import betaincinv, logit

from coupledgp.diagnostics.calibration.coverage import SURE, SURE_OF_DETAIL
from coupledgp.diagnostics.laws.stated import LEAST_CHANCE, Chances
from coupledgp.likelihoods.base import Likelihood
from coupledgp.likelihoods.counts import class_log_chances
from coupledgp.random import FloatArray, IntArray

# Bins, fewest points of one, and the level of the intervals of shares.
N_BINS, LEAST_IN_BIN, LEVEL = 10, 20, 0.95
# Chances nearer to zero or one count as these in logits.
EDGE = 1e-6
# Largest shift of logits, and largest factor on them and one over it.
MOST_SHIFT, MOST_SLOPE = 10.0, 10.0
# Draws of the labels of the test points, and functions that are drawn at once.
N_DRAWS, AT_ONCE = 2000, 250


@dataclass(frozen=True)
class Reliability:
    """Calibration of chances.

    Attributes
    ----------
    event : str
        The event in words.
    error, error_by_chance, error_spread, error_p : float
        Expected calibration error of the event, its mean and standard deviation over labels drawn
        from the model, and the share of draws whose error is as large.
    slope, shift : float
        Logits times `slope` plus `shift` fit the labels best. A slope below one says that chances
        are too sure of themselves.
    gain : float
        The log loss that this gains less what two parameters gain by chance, nats per point.
    recalibration_p, slope_p : float
        Shares of the draws whose score statistics of both, and of the slope alone, are as large.
    worst, worst_chance, worst_share, class_p : str, float, float, float
        The class whose share is furthest from its mean chance, both, and the share of draws where
        the worst class is as far off.
    n : int
    """

    event: str
    error: float
    error_by_chance: float
    error_spread: float
    error_p: float
    slope: float
    shift: float
    gain: float
    recalibration_p: float
    slope_p: float
    worst: str
    worst_chance: float
    worst_share: float
    class_p: float
    n: int

    @property
    def is_scale_off(self) -> bool:
        """Whether another shift or slope of the logits fits better than for right chances."""
        return min(self.recalibration_p, self.slope_p) <= SURE

    @property
    def is_off(self) -> bool:
        """Whether anything is further off than right chances give."""
        return self.is_scale_off or min(self.error_p, self.class_p) <= SURE_OF_DETAIL


def reliability_of(law: Chances, codes: IntArray, draws: IntArray) -> Reliability:
    """Calibration of chances of labels of places (p,), with labels (m, p) drawn from the model."""
    chance, place = law.event()
    happened, drawn = (codes == place)[None], draws == place
    order, ends = _bins(chance)
    own, errors = (_binned_error(chance, one, order, ends) for one in (happened, drawn))
    score, scores = _recalibration(chance, happened, drawn)
    slope_score, slopes = _slope_scores(chance, happened, drawn)
    shift, slope, gain = recalibrated(chance, happened[0])
    worst, far, furthest = _classes(law, codes, draws)
    return Reliability(
        event=_event(law),
        error=float(own[0]),
        error_by_chance=float(errors.mean()),
        error_spread=float(errors.std(ddof=1)),
        error_p=_share(own[0], errors),
        slope=slope,
        shift=shift,
        gain=gain,
        recalibration_p=_share(score[0], scores),
        slope_p=_share(slope_score[0], slopes),
        worst=str(law.classes[worst]),
        worst_chance=float(law.chances[:, worst].mean()),
        worst_share=float((codes == worst).mean()),
        class_p=_share(far, furthest),
        n=len(codes),
    )


def bins_table(law: Chances, codes: IntArray) -> pd.DataFrame:
    """Share of points where the event happened by its mean chance, with intervals of 95 %."""
    chance, place = law.event()
    happened = codes == place
    order, ends = _bins(chance)
    rows = []
    for part in np.split(order, ends[:-1]):
        n, right = len(part), int(happened[part].sum())
        rows.append((float(chance[part].mean()), right / n, *binomial_interval(right, n)))
    return pd.DataFrame(rows, columns=["place", "share", "low", "high"])


def label_draws(
    law: Chances,
    n_train: int | None,
    functions: tuple[FloatArray, FloatArray] | None = None,
    likelihood: Likelihood | None = None,
    power: float = 1.0,
) -> IntArray:
    """Places (2000, p) of labels drawn from a model.

    Parameters
    ----------
    law
        Chances (p, K).
    n_train
        Rows that the functions were fitted to: their scale is known up to the error of the slope of
        a logistic regression on so many rows, by which the logits of each draw are scaled at
        random. None: chances are stated.
    functions
        Means (p, k) and covariances (p, p, k) of the joint distribution of the functions, so that
        near points share errors; None: points are independent.
    likelihood, power
        That of an indicator given its function, and the power of chances.
    """
    rng = np.random.default_rng(0)
    spread, roots = _slope_error(law, n_train), None if functions is None else _roots(functions[1])
    least = float(np.log(LEAST_CHANCE))
    found = []
    for _ in range(N_DRAWS // AT_ONCE):
        values = np.broadcast_to(law.log_chances, (AT_ONCE, *law.chances.shape))
        if functions is not None and roots is not None and likelihood is not None:
            noise = rng.standard_normal((AT_ONCE, *functions[0].shape))
            f = functions[0] + np.einsum("ijk,mjk->mik", roots, noise, optimize=True)
            zero, one = (likelihood.log_density(np.full_like(f, y), f) for y in (0.0, 1.0))
            values = np.maximum(class_log_chances(zero, one, power), least)
        center = values.mean(axis=2, keepdims=True)
        slope = np.exp(spread * rng.standard_normal((AT_ONCE, 1, 1)))
        scaled = center + slope * (values - center)
        chances = np.exp(scaled - scaled.max(axis=2, keepdims=True))
        found.append(_drawn(chances / chances.sum(axis=2, keepdims=True), rng))
    return np.concatenate(found)


def binomial_interval(happened: int, n: int) -> tuple[float, float]:
    """Interval of 95 % of the chance of an event that happened so often (Clopper and Pearson)."""
    tail = 0.5 * (1 - LEVEL)
    low = 0.0 if happened == 0 else float(betaincinv(happened, n - happened + 1, tail))
    high = 1.0 if happened == n else float(betaincinv(happened + 1, n - happened, 1 - tail))
    return low, high


def recalibrated(chance: FloatArray, happened: FloatArray) -> tuple[float, float, float]:
    """Shift and slope of the logits (p,) that fit events best, and what they gain, nats a point."""
    p = np.clip(chance, EDGE, 1 - EDGE)
    logits, sign = logit(p), 2.0 * happened - 1

    def loss(parts: FloatArray) -> float:
        return float(np.logaddexp(0, -sign * (parts[0] + parts[1] * logits)).mean())

    bounds = [(-MOST_SHIFT, MOST_SHIFT), (1 / MOST_SLOPE, MOST_SLOPE)]
    found = minimize(loss, np.array([0.0, 1.0]), method="L-BFGS-B", bounds=bounds)
    gain = loss(np.array([0.0, 1.0])) - float(found.fun) - 1 / len(p)
    return float(found.x[0]), float(found.x[1]), max(gain, 0.0)


def _event(law: Chances) -> str:
    return f"class {law.classes[1]}" if len(law.classes) == 2 else "the most probable class"


def _drawn(chances: FloatArray, rng: np.random.Generator) -> IntArray:
    """A place for each row (..., K) of chances."""
    ends = np.cumsum(chances[..., :-1], axis=-1)
    return np.asarray((rng.random(chances.shape[:-1])[..., None] > ends).sum(axis=-1))


def _roots(cov: FloatArray) -> FloatArray:
    """Symmetric roots (p, p, k) of covariances."""
    found = np.empty_like(cov)
    for k in range(cov.shape[2]):
        values, vectors = np.linalg.eigh(cov[..., k])
        found[..., k] = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return found


def _slope_error(law: Chances, n_train: int | None) -> float:
    """Standard error of the slope of logits that a fit to n rows leaves, half at most."""
    if n_train is None:
        return 0.0
    p = np.clip(law.event()[0], EDGE, 1 - EDGE)
    information = n_train * float((p * (1 - p) * np.square(np.log(p / (1 - p)))).mean())
    return min(0.5, 1 / np.sqrt(max(information, 1e-12)))


def _bins(chance: FloatArray) -> tuple[IntArray, IntArray]:
    """Order (p,) of the points by their chances, and the ends of the bins in it."""
    n = len(chance)
    n_bins = max(1, min(N_BINS, n // LEAST_IN_BIN))
    return np.argsort(chance, kind="stable"), (np.arange(1, n_bins + 1) * n) // n_bins


def _binned_error(
    chance: FloatArray, happened: FloatArray, order: IntArray, ends: IntArray
) -> FloatArray:
    """Calibration errors (m,) of events (m, p) by bins."""
    sums = np.cumsum((happened - chance)[:, order], axis=1)[:, ends - 1]
    return np.asarray(np.abs(np.diff(sums, axis=1, prepend=0.0)).sum(axis=1) / len(chance))


def _recalibration(
    chance: FloatArray, happened: FloatArray, drawn: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Score statistics of a shift and a slope, of events (1, p) and (m, p)."""
    p = np.clip(chance, EDGE, 1 - EDGE)
    design = np.stack([np.ones_like(p), logit(p)])
    information = (design * p * (1 - p)) @ design.T
    inverse = np.linalg.pinv(information, hermitian=True)
    steps = [(events - p) @ design.T @ inverse for events in (happened, drawn)]
    own, others = (np.einsum("mi,ij,mj->m", one, information, one) for one in steps)
    return own, others


def _slope_scores(
    chance: FloatArray, happened: FloatArray, drawn: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Score statistics of a slope about the best shift, of events (1, p) and (m, p)."""
    p = np.clip(chance, EDGE, 1 - EDGE)
    weight = p * (1 - p)
    away = logit(p) - weight @ logit(p) / weight.sum()
    scale = max(float(weight @ np.square(away)), 1e-300)
    own, others = (np.square((events - p) @ away) / scale for events in (happened, drawn))
    return own, others


def _classes(law: Chances, codes: IntArray, draws: IntArray) -> tuple[int, float, FloatArray]:
    """The class whose share is furthest off, by how much, and the same of each draw (m,)."""
    means = law.chances.mean(axis=0)
    k = len(means)
    shares = np.stack([(draws == c).mean(axis=1) for c in range(k)], axis=1)
    own = np.array([(codes == c).mean() for c in range(k)])
    errors = np.maximum(shares.std(axis=0, ddof=1), 0.5 / len(codes))
    far = np.abs(own - means) / errors
    worst = int(far.argmax())
    return worst, float(far[worst]), (np.abs(shares - means) / errors).max(axis=1)


def _share(value: float, draws: FloatArray) -> float:
    """Share of draws that are at least a value, rounding aside; the value counts as one."""
    return float((1 + (draws >= value * (1 - 1e-9)).sum()) / (1 + draws.size))
