"""Whether chances of classes are honest: reliability, and what labels drawn from them give.

With event e_i of chance p_i, the bins b of n_b points hold equal numbers of points in the order of
their chances, and

    expected calibration error   sum_b n_b / n |mean of e - mean of p| .

It is above zero for true chances too. So it stands beside that of labels that are drawn from the
model's joint law. The same draws judge a recalibration of the chances, `a + b logit(p)`, by its
score test, and the share of each class beside its mean chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import betaincinv, logit

from coupledgp.diagnostics.likelihoods.class_laws import ClassLaws
from coupledgp.diagnostics.scoring.calibration import SURE, SURE_OF_DETAIL
from coupledgp.random import FloatArray, IntArray

# Bins, and fewest points of one.
N_BINS, LEAST_IN_BIN = 10, 20
# Level of the intervals of shares.
LEVEL = 0.95
# Chances nearer to zero or one count as these in logits.
EDGE = 1e-6
# Largest shift of logits, and largest factor on them and one over it.
MOST_SHIFT, MOST_SLOPE = 10.0, 10.0


@dataclass(frozen=True)
class Bin:
    """Points of similar chances of an event.

    Attributes
    ----------
    n_points : int
    low, high : float
        Least and largest chance.
    chance, share : float
        Mean chance of the event, and share of points where it happened.
    interval : (float, float)
        Binomial interval of 95 % of the share (Clopper and Pearson).
    """

    n_points: int
    low: float
    high: float
    chance: float
    share: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class BrierParts:
    """Parts of the mean squared error of the chance of an event (Murphy 1973).

    `score = reliability - resolution + uncertainty + within`.

    Attributes
    ----------
    score : float
        Mean squared error of the chance.
    reliability : float
        Mean square of the share of each bin less its mean chance.
    resolution : float
        Mean square of the share of each bin less that of all.
    uncertainty : float
        `s (1 - s)` of the share s of all.
    within : float
        What differences of chances within bins add.
    """

    score: float
    reliability: float
    resolution: float
    uncertainty: float
    within: float


@dataclass(frozen=True)
class Reliability:
    """Calibration of chances, with what honest ones give.

    Attributes
    ----------
    event : str
        The event in words.
    bins : tuple of Bin
        In the order of their chances.
    brier : BrierParts
        Of the event.
    error : float
        Expected calibration error of the event.
    error_by_chance, error_spread : float
        Its mean and standard deviation over labels drawn from the model.
    error_p_value : float
        Share of the draws whose error is as large.
    slope, shift : float
        Recalibration by logistic regression: logits times `slope` plus `shift` fit the labels
        best. One and zero where chances are right; a slope below one says that they are too sure
        of themselves.
    recalibration_gain : float
        The log loss that it gains less what two parameters gain by chance, nats per point.
    recalibration_p_value : float
        Share of the draws whose score statistic is as large.
    worst_class : str
        The class whose share is furthest from its mean chance.
    worst_class_chance, worst_class_share : float
        Its mean chance and its share.
    class_p_value : float
        Share of draws where the worst class is as far off.
    n_points, n_draws : int
        Points, and draws of their labels.
    slope_p_value : float
        Share of the draws whose score statistic of the slope alone, whatever the shift, is as
        large.
    """

    event: str
    bins: tuple[Bin, ...]
    brier: BrierParts
    error: float
    error_by_chance: float
    error_spread: float
    error_p_value: float
    slope: float
    shift: float
    recalibration_gain: float
    recalibration_p_value: float
    worst_class: str
    worst_class_chance: float
    worst_class_share: float
    class_p_value: float
    n_points: int
    n_draws: int
    slope_p_value: float = 1.0

    @classmethod
    def of(cls, laws: ClassLaws, codes: IntArray, draws: IntArray) -> Reliability:
        """Calibration of chances at p points.

        Parameters
        ----------
        laws
            Chances (p, K).
        codes
            Places (p,) of the labels among the classes.
        draws
            Places (m, p) of labels drawn from the model.
        """
        chance, place = laws.event()
        happened, drawn = codes == place, draws == place
        order, ends = _bins(chance)
        own_error, errors = (
            _binned_error(chance, one, order, ends) for one in (happened[None], drawn)
        )
        own_score, scores = _recalibration(chance, happened[None], drawn)
        own_slope, slopes = _slope_scores(chance, happened[None], drawn)
        shift, slope, gain = recalibrated(chance, happened)
        worst, far, furthest = _classes(laws, codes, draws)
        k = len(laws.classes)
        return cls(
            event=f"class {laws.classes[1]}" if k == 2 else "the most probable class",
            bins=tuple(_bin(chance, happened, rows) for rows in np.split(order, ends[:-1])),
            brier=_parts(chance, happened, order, ends),
            error=float(own_error[0]),
            error_by_chance=float(errors.mean()),
            error_spread=float(errors.std(ddof=1)),
            error_p_value=_share(own_error[0], errors),
            slope=slope,
            shift=shift,
            recalibration_gain=gain,
            recalibration_p_value=_share(own_score[0], scores),
            worst_class=str(laws.classes[worst]),
            worst_class_chance=float(laws.chances[:, worst].mean()),
            worst_class_share=float((codes == worst).mean()),
            class_p_value=_share(far, furthest),
            n_points=len(codes),
            n_draws=len(draws),
            slope_p_value=_share(own_slope[0], slopes),
        )

    @property
    def is_off(self) -> bool:
        """Whether any of the three is further off than honest chances give."""
        detail = min(self.error_p_value, self.class_p_value)
        return self.is_scale_off or detail <= SURE_OF_DETAIL

    @property
    def is_scale_off(self) -> bool:
        """Whether another shift or slope of the logits fits better than for honest chances."""
        return min(self.recalibration_p_value, self.slope_p_value) <= SURE

    @property
    def excess(self) -> float:
        """Calibration error beyond that by chance, zero at least."""
        return max(self.error - self.error_by_chance, 0.0)

    def text(self) -> str:
        """The calibration error beside chance, in words."""
        return (
            f"calibration error {self.error:.3f}, {self.error_by_chance:.3f} ± "
            f"{self.error_spread:.2g} for labels drawn from the model"
        )


def _bins(chance: FloatArray) -> tuple[IntArray, IntArray]:
    """Order (p,) of the points by their chances, and the ends of the bins in it."""
    n = len(chance)
    n_bins = max(1, min(N_BINS, n // LEAST_IN_BIN))
    ends = (np.arange(1, n_bins + 1) * n) // n_bins
    return np.argsort(chance, kind="stable"), ends


def _binned_error(
    chance: FloatArray, happened: FloatArray, order: IntArray, ends: IntArray
) -> FloatArray:
    """Calibration errors (m,) of events (m, p) by bins."""
    sums = np.cumsum((happened - chance)[:, order], axis=1)[:, ends - 1]
    gaps = np.diff(sums, axis=1, prepend=0.0)
    return np.asarray(np.abs(gaps).sum(axis=1) / len(chance))


def recalibrated(chance: FloatArray, happened: FloatArray) -> tuple[float, float, float]:
    """Shift and slope of the logits (p,) that fit events best, and what they gain, nats a point.

    The shift is at most `MOST_SHIFT`, the slope between `1 / MOST_SLOPE` and `MOST_SLOPE`.
    """
    p = np.clip(chance, EDGE, 1 - EDGE)
    logits, sign = logit(p), 2.0 * happened - 1

    def loss(parts: FloatArray) -> float:
        return float(np.logaddexp(0, -sign * (parts[0] + parts[1] * logits)).mean())

    bounds = [(-MOST_SHIFT, MOST_SHIFT), (1 / MOST_SLOPE, MOST_SLOPE)]
    found = minimize(loss, np.array([0.0, 1.0]), method="L-BFGS-B", bounds=bounds)
    gain = loss(np.array([0.0, 1.0])) - float(found.fun) - 1 / len(p)
    return float(found.x[0]), float(found.x[1]), max(gain, 0.0)


def _recalibration(
    chance: FloatArray, happened: FloatArray, drawn: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Score statistics of a shift and a slope, of events (1, p) and (m, p)."""
    p = np.clip(chance, EDGE, 1 - EDGE)
    design = np.stack([np.ones_like(p), logit(p)])
    information = (design * p * (1 - p)) @ design.T
    inverse = np.linalg.pinv(information, hermitian=True)
    steps = [(events - p) @ design.T @ inverse for events in (happened, drawn)]
    statistics = [np.einsum("mi,ij,mj->m", one, information, one) for one in steps]
    return statistics[0], statistics[1]


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


def _classes(laws: ClassLaws, codes: IntArray, draws: IntArray) -> tuple[int, float, FloatArray]:
    """The class whose share is furthest off, by how much, and the same of each draw (m,)."""
    means = laws.chances.mean(axis=0)
    k = len(means)
    shares = np.stack([(draws == c).mean(axis=1) for c in range(k)], axis=1)
    own = np.array([(codes == c).mean() for c in range(k)])
    errors = np.maximum(shares.std(axis=0, ddof=1), 0.5 / len(codes))
    far = np.abs(own - means) / errors
    worst = int(far.argmax())
    return worst, float(far[worst]), (np.abs(shares - means) / errors).max(axis=1)


def _parts(chance: FloatArray, happened: FloatArray, order: IntArray, ends: IntArray) -> BrierParts:
    sizes = np.diff(ends, prepend=0)
    means = np.array([(chance[rows].mean(), happened[rows].mean())
                      for rows in np.split(order, ends[:-1])])  # fmt: skip
    share, weights = happened.mean(), sizes / sizes.sum()
    score = float(np.square(chance - happened).mean())
    reliability = float(weights @ np.square(means[:, 0] - means[:, 1]))
    resolution = float(weights @ np.square(means[:, 1] - share))
    uncertainty = float(share * (1 - share))
    within = score - reliability + resolution - uncertainty
    return BrierParts(score, reliability, resolution, uncertainty, within)


def _bin(chance: FloatArray, happened: FloatArray, rows: IntArray) -> Bin:
    n, right = len(rows), int(happened[rows].sum())
    own = chance[rows]
    return Bin(
        n, float(own.min()), float(own.max()), float(own.mean()), right / n,
        binomial_interval(right, n),
    )  # fmt: skip


def binomial_interval(happened: int, n: int) -> tuple[float, float]:
    """Interval of 95 % of the chance of an event that happened so often of n times."""
    tail = 0.5 * (1 - LEVEL)
    low = 0.0 if happened == 0 else float(betaincinv(happened, n - happened + 1, tail))
    high = 1.0 if happened == n else float(betaincinv(happened + 1, n - happened, 1 - tail))
    return low, high


def _share(value: float, draws: Sequence[float] | FloatArray) -> float:
    """Share of draws that are at least a value, rounding aside; the value counts as one."""
    found = np.asarray(draws)
    return float((1 + (found >= value * (1 - 1e-9)).sum()) / (1 + found.size))
