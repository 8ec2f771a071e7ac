"""Coverage and transforms of predictive distributions beside the chance that a right one gives.

Errors of near points go together where the function is uncertain, so that chance is larger than for
independent points. It is measured by 2000 draws of the joint distribution. Where that is unknown
and errors are known to go together in clusters, tests are t-tests with clustered standard errors.

The empirical distribution of transforms has a simultaneous envelope: the counts of n independent
uniform values are `R(z) ~ Bin(n, z)`, and pointwise intervals of the chance `1 - gamma` hold all of
them with a chance of their own (Säilynoja, Bürkner and Vehtari, 2022, Statistics and Computing 32).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import minimize_scalar
from scipy.special import gammainc, gammaincc, gammaln, ndtr, ndtri, xlogy
from scipy.stats import binom
from scipy.stats import t as student

from coupledgp.diagnostics.predictions import Law, Predictions
from coupledgp.linalg.matrices import cholesky
from coupledgp.random import FloatArray, IntArray

# Nominal levels of central intervals: half of the targets, most, and all but few.
LEVELS = (0.5, 0.8, 0.95)
# Share of right distributions whose spread is called off, and of those whose coverage, worst group,
# place or shape is: together about one right distribution in a hundred.
SURE, SURE_OF_DETAIL = 0.003, 0.001
# Draws of the distribution, which settle a standard error to two per cent, and those of the
# envelope.
N_DRAWS, N_ECDF = 2000, 1000
# Fewest points of a group.
MIN_GROUP = 8
# Transforms nearer to 0 or 1 than this are beyond eight standard deviations.
EDGE = 1e-15
# Ends of the logarithm of a scale that is sought between the ends of intervals.
MOST_LOG_SCALE = (-5.0, 5.0)
# Places of an envelope at most, its level, and halvings of gamma.
N_PLACES, ENVELOPE, HALVINGS = 50, 0.95, 18
# Parts of the points, by standard deviation, mean and inputs, among which the worst is sought.
N_PARTS = 3


class Intervals(NamedTuple):
    """Intervals of transforms `F(y)`: nominal levels, and the chances (l,) below both ends."""

    levels: tuple[float, ...]
    low: FloatArray
    high: FloatArray

    @classmethod
    def central(cls, levels: tuple[float, ...] = LEVELS) -> Intervals:
        """Central intervals of nominal levels."""
        half = 0.5 * np.array(levels)
        return cls(levels, 0.5 - half, 0.5 + half)

    def hold(self, residuals: FloatArray) -> FloatArray:
        """Whether standard normal residuals of any shape lie in each, (l, ...)."""
        ends = zip(ndtri(self.low), ndtri(self.high), strict=True)
        return np.array([(residuals >= low) & (residuals <= high) for low, high in ends])


@dataclass(frozen=True)
class GroupShare:
    """Share of the targets of a group in the intervals of one level, and its chance."""

    grouping: str
    group: str
    n: int
    level: float
    share: float
    error: float

    @property
    def off(self) -> float:
        """Standard errors by which the share is above (positive) or below the level."""
        return (self.share - self.level) / self.error


@dataclass(frozen=True, eq=False)
class Calibration:
    """Coverage of intervals and transforms, and their chance.

    Attributes
    ----------
    levels, shares, errors : tuple of float
        Nominal levels, shares of the targets inside, and their standard deviations over draws.
    coverage_p : float
        Share of draws with a level at least as many standard errors off as the worst one here.
    pit_distance, pit_p : float
        Largest distance of the distribution of `F(y)` from the uniform one.
    worst : GroupShare or None
        The group and level that is most standard errors off.
    worst_p : float
    groups : tuple of GroupShare
        All groups and levels.
    rescaling, rescaling_gain : float
        Best factor s on all standard deviations, the root mean square of the residuals
        `r = Phi^-1(F(y))`, and the nats per point that it gains, `(s^2 - 1 - log s^2) / 2`. Without
        a density, the likeliest factor for the counts between ends of intervals, and its gain.
    spread_p : float
        Two-sided, of the mean squared residual; by the chi-square distribution where points are
        independent and their scale is known.
    shift, shift_p : float
        Mean residual, and the share of draws whose mean is as far from zero over its root mean
        square.
    pit : DataFrame
        place, share, low, high.
    n : int
    """

    levels: tuple[float, ...]
    shares: tuple[float, ...]
    errors: tuple[float, ...]
    coverage_p: float
    pit_distance: float
    pit_p: float
    worst: GroupShare | None
    worst_p: float
    groups: tuple[GroupShare, ...]
    rescaling: float
    rescaling_gain: float
    spread_p: float
    shift: float
    shift_p: float
    pit: pd.DataFrame
    n: int

    @property
    def off(self) -> FloatArray:
        """Standard errors (l,) by which shares are above (positive) or below their levels."""
        gaps = np.subtract(self.shares, self.levels)
        return np.asarray(gaps / np.maximum(self.errors, 1e-12))

    @property
    def tails(self) -> str:
        """`"heavier"` or `"lighter"` than stated, else empty.

        Heavier: the narrowest intervals hold too many targets, and the widest too few, or squared
        residuals are too large on average; lighter: the reverse.
        """
        off = self.off
        if off[0] > 0.5 and (off.min() < -0.5 or self.rescaling > 1):
            return "heavier"
        return "lighter" if off[0] < -0.5 and (off.max() > 0.5 or self.rescaling < 1) else ""


def residuals_of(law: Law, y: FloatArray) -> FloatArray:
    """Residuals `Phi^-1(F(y))` (p, k), standard normal where the distribution is right.

    Those of normal distributions are `(y - m) / s`, others are within eight standard deviations.
    """
    if hasattr(law, "slack"):  # normal
        gaps = y - law.mean
        return np.divide(gaps, law.std, out=np.zeros_like(gaps), where=law.std > 0)
    return np.asarray(ndtri(np.clip(law.cdf(y), EDGE, 1 - EDGE)))


def calibration_of(p: Predictions, groups: Mapping[str, Any] | None = None) -> Calibration:
    """Calibration of predictions with targets.

    Parameters
    ----------
    p
        Predictions. `correlation` are those of the draws; None: points are independent, or go
        together in `cluster`. The scale of a distribution that was fitted to `n_train` rows is
        known up to a relative error of `(2 n_train)^-1/2`, by which draws are scaled at random.
    groups
        Labels (p,) of the points by the name of what groups them. Groups of fewer than 8 points are
        left out.
    """
    assert p.y is not None
    z = residuals_of(p.law, p.y)
    intervals = getattr(p.law, "intervals", Intervals.central())
    found = _of_residuals(z, p, groups or {}, intervals)
    if p.law.has_density:
        return found
    factor, gain = _scale_between(z, intervals)
    return _replaced(found, rescaling=factor, rescaling_gain=gain)


def _replaced(found: Calibration, **changes: Any) -> Calibration:
    return Calibration(**{**vars(found), **changes})


def _of_residuals(
    z: FloatArray, p: Predictions, groups: Mapping[str, Any], intervals: Intervals
) -> Calibration:
    levels = intervals.levels
    draws = drawn(z.shape, p.correlation, p.n_train)
    inside, own = intervals.hold(draws), intervals.hold(z.ravel())
    shares, own_shares = inside.mean(axis=2), own.mean(axis=1)
    errors = shares.std(axis=1, ddof=1)
    each, worst, worst_p = _groups(own, inside, _members(groups, z.shape), levels)
    distances = distances_from_uniform(ndtr(draws))
    distance = float(distances_from_uniform(ndtr(z.reshape(1, -1)))[0])
    square = float(np.mean(np.square(z)))
    known = p.correlation is not None or p.n_train is not None
    found = Calibration(
        levels=levels,
        shares=tuple(own_shares.tolist()),
        errors=tuple(errors.tolist()),
        coverage_p=_share_beyond(
            _furthest(own_shares[:, None], errors, levels), _furthest(shares, errors, levels)
        ),
        pit_distance=distance,
        pit_p=float((1 + (distances >= distance).sum()) / (1 + N_DRAWS)),
        worst=worst,
        worst_p=worst_p,
        groups=each,
        rescaling=float(np.sqrt(square)),
        rescaling_gain=scale_gain(square),
        spread_p=_spread_p(z, draws if known else None),
        shift=float(z.mean()),
        shift_p=_share_beyond(float(_one_sided(z.reshape(1, -1))[0]), _one_sided(draws)),
        pit=envelope_table(ndtr(z.ravel()), ndtr(draws[:N_ECDF]) if known else None),
        n=z.size,
    )
    if p.correlation is not None or p.cluster is None:
        return found
    return _clustered(found, z, p.cluster, own)


def scale_gain(square: float) -> float:
    """Nats per point that the best scale gains for a mean squared residual."""
    return 0.5 * (square - 1 - np.log(max(square, 1e-300)))


def _clustered(
    found: Calibration, z: FloatArray, cluster: pd.DataFrame, inside: FloatArray
) -> Calibration:
    """Tests by clustered standard errors; shape and groups are not tested.

    Shares in intervals and squares are skewed, so that few clusters may all be alike by chance.
    They go together no more than the residuals do: for values of variance v under a right law the
    error is `v^1/2 se(z) / sd(z)` at least, with the clustered error of the mean residual.
    """
    labels = [pd.factorize(cluster[name])[0] for name in cluster]
    k = z.shape[1]
    each = [np.repeat(one, k) for one in labels]

    flat = z.ravel()
    relative = clustered_error(flat, each)[0] / max(float(flat.std()), 1e-300)

    def p_value(values: FloatArray, expected: float, variance: float) -> tuple[float, float]:
        error, freedom = clustered_error(values, each)
        error = max(error, float(np.sqrt(variance)) * relative)
        t = abs(values.mean() - expected) / max(error, 1e-300)
        return float(2 * student.sf(t, freedom)), error

    shares = [
        p_value(one.astype(float), c, c * (1 - c))
        for one, c in zip(inside, found.levels, strict=True)
    ]
    return _replaced(
        found,
        errors=tuple(error for _, error in shares),
        coverage_p=min(1.0, len(shares) * min(p for p, _ in shares)),
        spread_p=p_value(np.square(flat), 1.0, 2.0)[0],
        shift_p=p_value(flat, 0.0, 0.0)[0],
        pit_p=1.0,
        worst_p=1.0,
    )


def clustered_error(values: FloatArray, clusters: Sequence[IntArray]) -> tuple[float, int]:
    """Standard error of a mean of values (n,) that go together in clusters, and degrees of freedom.

    Each of `clusters` (n,) numbers groups whose errors go together, as sensors and times. The
    variance is the sum of theirs, less that of independent values for every further one (Cameron,
    Gelbach and Miller, 2011), that of the largest at least. With one it is that of Liang and Zeger
    (1986), `se^2 = G / (G - 1) sum_g (sum_(i in g) (v_i - mean))^2 / n^2`. Degrees of freedom are
    one less than the fewest groups.
    """
    away = values - values.mean()
    found, freedom = [], []
    for one in clusters:
        sums = np.bincount(one, away)
        sums = sums[np.bincount(one) > 0]
        n_groups = max(sums.size, 2)
        found.append(float(np.square(sums).sum() * n_groups / (n_groups - 1)))
        freedom.append(n_groups - 1)
    alone = float(np.square(away).sum())
    total = max(sum(found) - (len(found) - 1) * alone, *found)
    return float(np.sqrt(total)) / values.size, min(freedom)


def drawn(
    shape: tuple[int, ...], correlation: FloatArray | None, n_train: int | None
) -> FloatArray:
    """Standardised draws (2000, p k) of a distribution with correlations (p, p, k)."""
    p, k = shape
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((N_DRAWS, k, p))
    if correlation is not None:
        matrices = correlation.reshape(p, p, -1)
        for j in range(k):
            matrix = matrices[..., min(j, matrices.shape[2] - 1)]
            draws[:, j] = draws[:, j] @ np.asarray(cholesky(matrix, "correlation")).T
    if n_train is not None:
        draws *= np.exp(rng.standard_normal((N_DRAWS, k, 1)) / np.sqrt(2 * n_train))
    return draws.transpose(0, 2, 1).reshape(N_DRAWS, -1)


def usual_groups(mean: FloatArray, std: FloatArray) -> dict[str, Any]:
    """Thirds of the points by predicted standard deviation and by predicted mean, both (p, k)."""
    named = {"its standard deviation": std.mean(axis=1), "its mean": mean.mean(axis=1)}
    return {
        name: thirds(values)
        for name, values in named.items()
        if np.ptp(values) > 0.05 * np.abs(values).mean()
    }


def thirds(values: FloatArray) -> Any:
    """Labels (p,) of the thirds of values (p,); equal values are in one of them."""
    limits = np.quantile(values, np.arange(1, N_PARTS) / N_PARTS)
    names = np.array(["in the least third", "in the middle", "in the largest third"])
    return names[np.searchsorted(limits, values)]


def _members(groups: Mapping[str, Any], shape: tuple[int, ...]) -> list[tuple[str, str, IntArray]]:
    """Grouping, name and targets of each group that is large enough."""
    found = []
    for grouping, labels in groups.items():
        values, number = np.unique(np.asarray(labels).astype(str), return_inverse=True)
        each = np.repeat(number.reshape(-1), shape[1])
        for place, name in enumerate(values):
            rows = np.flatnonzero(each == place)
            if MIN_GROUP <= rows.size < each.size:
                found.append((str(grouping), str(name), rows))
    return found


def _groups(
    own: FloatArray,
    inside: FloatArray,
    members: list[tuple[str, str, IntArray]],
    levels: tuple[float, ...],
) -> tuple[tuple[GroupShare, ...], GroupShare | None, float]:
    """Shares of groups, the one that is furthest off, and the share of draws (l, N, m) as far."""
    found: list[GroupShare] = []
    furthest = np.zeros(N_DRAWS)
    for grouping, name, rows in members:
        shares = inside[:, :, rows].mean(axis=2)
        # A share of few targets that never varies among draws is not certain.
        errors = np.maximum(shares.std(axis=1, ddof=1), 0.5 / rows.size)
        furthest = np.maximum(furthest, _furthest(shares, errors, levels))
        for level, share, error in zip(levels, own[:, rows].mean(axis=1), errors, strict=True):
            found.append(GroupShare(grouping, name, rows.size, level, float(share), float(error)))
    if not found:
        return (), None, 1.0
    worst = max(found, key=lambda one: abs(one.off))
    return tuple(found), worst, _share_beyond(abs(worst.off), furthest)


def _furthest(shares: FloatArray, errors: FloatArray, levels: Sequence[float]) -> FloatArray:
    """Largest number (m,) of standard errors (l,) by which shares (l, m) are off their levels."""
    gaps = np.abs(shares - np.array(levels)[:, None])
    return np.asarray((gaps / np.maximum(errors, 1e-12)[:, None]).max(axis=0))


def _scale_between(residuals: FloatArray, intervals: Intervals) -> tuple[float, float]:
    """The likeliest scale of normal residuals of which ends of intervals alone are known, a gain.

    The gain is in nats per point over the scale one.
    """
    ends = ndtri(np.unique([*intervals.low, *intervals.high]))
    ends = ends[np.isfinite(ends)]
    counts = np.bincount(np.searchsorted(ends, residuals.ravel()), minlength=len(ends) + 1)

    def loss(log_scale: float) -> float:
        between = np.diff(ndtr(np.r_[-np.inf, ends / np.exp(log_scale), np.inf]))
        return float(-counts @ np.log(np.maximum(between, 1e-300)) / residuals.size)

    found = minimize_scalar(loss, bounds=MOST_LOG_SCALE, method="bounded")
    return float(np.exp(found.x)), max(loss(0.0) - loss(float(found.x)), 0.0)


def _spread_p(residuals: FloatArray, draws: FloatArray | None) -> float:
    """Twice the chance of a mean square as large as of residuals (p, k), or as small."""
    total, half = float(np.square(residuals).sum()), 0.5 * residuals.size
    if draws is None:
        return float(min(1.0, 2 * min(gammainc(half, total / 2), gammaincc(half, total / 2))))
    return two_sided(total, np.square(draws).sum(axis=1))


def two_sided(value: float, draws: FloatArray) -> float:
    """Twice the share of draws that are as large, or as small; the value counts as one."""
    size = 1e-9 * abs(value)
    above, below = (draws >= value - size).sum(), (draws <= value + size).sum()
    return float(min(1.0, 2 * (1 + min(above, below)) / (1 + len(draws))))


def _share_beyond(value: Any, draws: FloatArray) -> float:
    """Share of draws (N,) that are at least a value, rounding aside; the value counts as one."""
    return float((1 + (draws >= np.max(value) * (1 - 1e-9)).sum()) / (1 + draws.size))


def _one_sided(residuals: FloatArray) -> FloatArray:
    """Magnitudes (k,) of the means of rows (k, n) over their root mean squares."""
    size = np.sqrt(np.square(residuals).mean(axis=1))
    means = np.abs(residuals.mean(axis=1))
    return np.divide(means, size, out=np.zeros_like(size), where=size > 0)


def distances_from_uniform(transforms: FloatArray) -> FloatArray:
    """Largest distances (m,) of distributions of rows (m, n) from the uniform one."""
    ordered = np.sort(transforms, axis=1)
    n = ordered.shape[1]
    above, below = np.arange(1, n + 1) / n - ordered, ordered - np.arange(n) / n
    return np.maximum(above.max(axis=1), below.max(axis=1))


def envelope_table(
    values: FloatArray, draws: FloatArray | None = None, level: float = ENVELOPE
) -> pd.DataFrame:
    """Distribution of values (n,) on the unit interval, with the envelope of uniform ones.

    `draws` (N, n) are values of a right distribution where these go together; None: independent
    ones.
    """
    n = values.size
    places = np.arange(1, min(N_PLACES, n) + 1) / (min(N_PLACES, n) + 1)
    if draws is None:
        low, high = envelope(n, len(places), level)
    else:
        low, high = envelope_of_draws(counts_below(draws, places), level)
    shares = counts_below(values[None], places)[0] / n
    return pd.DataFrame({"place": places, "share": shares, "low": low / n, "high": high / n})


def counts_below(values: FloatArray, places: FloatArray) -> IntArray:
    """Numbers (N, K) of the values (N, n) of each row that are at most each place (K,)."""
    ordered = np.sort(values, axis=1)
    return np.stack([np.searchsorted(row, places, side="right") for row in ordered])


@lru_cache(maxsize=64)
def envelope(n: int, n_places: int, level: float = ENVELOPE) -> tuple[IntArray, IntArray]:
    """Limits (K,) of the counts of n independent uniform values at places `k / (K + 1)`.

    The chance of all counts within them is at least `level`, by as little as counts allow.
    """
    places = np.arange(1, n_places + 1) / (n_places + 1)
    inner, outer = 0.0, 1.0 - level
    for _ in range(HALVINGS):
        gamma = 0.5 * (inner + outer)
        if chance_inside(n, places, *_pointwise(n, places, gamma)) >= level:
            inner = gamma
        else:
            outer = gamma
    return _pointwise(n, places, inner)


def chance_inside(n: int, places: FloatArray, low: IntArray, high: IntArray) -> float:
    """Chance that the counts of n uniform values are within limits (K,) at all places (K,).

    Given `R(z_i)`, `R(z_(i+1)) - R(z_i)` is binomial, so that chances go on from place to place.
    """
    log_factorial = gammaln(np.arange(n + 1) + 1.0)
    start, before = np.array([0]), 0.0
    chances = np.ones(1)
    for place, least, most in zip(places.tolist(), low.tolist(), high.tolist(), strict=True):
        share = (place - before) / (1.0 - before)
        ends = np.arange(least, most + 1)
        steps, left = ends[None] - start[:, None], (n - start)[:, None]
        possible = steps >= 0
        k = np.where(possible, steps, 0)
        logs = log_factorial[left] - log_factorial[k] - log_factorial[left - k]
        logs = logs + xlogy(k, share) + xlogy(left - k, 1.0 - share)
        chances = chances @ np.where(possible, np.exp(logs), 0.0)
        start, before = ends, place
    return float(chances.sum())


def envelope_of_draws(counts: IntArray, level: float = ENVELOPE) -> tuple[IntArray, IntArray]:
    """Limits (K,) of counts such that a share `level` of draws (N, K) is within all of them."""
    ordered = np.sort(counts, axis=0)
    n_draws = len(counts)
    pairs = list(zip(ordered.T, counts.T, strict=True))
    # The rank from either end of the place where a draw is furthest out.
    below = np.stack([np.searchsorted(a, b, side="right") for a, b in pairs], axis=1)
    above = np.stack([n_draws - np.searchsorted(a, b, side="left") for a, b in pairs], axis=1)
    depth = np.minimum(below, above).min(axis=1)
    rank = max(int(np.quantile(depth, 1.0 - level, method="lower")), 1)
    return ordered[rank - 1], ordered[n_draws - rank]


def _pointwise(n: int, places: FloatArray, gamma: float) -> tuple[IntArray, IntArray]:
    """Central intervals of the chance `1 - gamma` of counts at each place."""
    low = binom.ppf(gamma / 2, n, places) if gamma > 0 else np.zeros(len(places))
    high = binom.ppf(1 - gamma / 2, n, places) if gamma > 0 else np.full(len(places), float(n))
    return np.maximum(low, 0).astype(np.int64), high.astype(np.int64)
