"""The usual day of sensors: random effects of days, for each band of harmonics.

Whole days of P steps, standardised sensor by sensor, have harmonics `a_ik (D,)` over D days,
`a_idk = rfft(y_i over day d)_k / sqrt(P)`. In a band b of harmonics they are independent draws

    a_ik ~ N(mu_i 1, V_b) ,   V_b = v_all 11' + v_kind [same kind] + v_week [same weekday] + s I ,

with the kinds working day, weekend and holiday, and mu_i only at k = 0, where it has a flat prior.
Variances have the greatest (restricted) likelihood. The mean of a day given the other days is
`a_d - (P a)_d / P_dd`, P the inverse of V with the flat prior, its variance `1 / P_dd - s` (Dubrule
1983); that of a further day is its regression on all days.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft
from scipy.optimize import minimize

from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.ground.codec import check_range, check_shapes, stored
from coupledgp.linalg.matrices import positive_inverse
from coupledgp.random import FloatArray, IntArray
from coupledgp.time.axis import TimeAxis

# Bounds of logarithms of variances in units of the mean variance of an observation.
LIMITS = (-12.0, 3.0)


# Kinds of days, in the order of their numbers, and of the parts of the variance.
KINDS = ("working day", "weekend", "holiday")
PARTS = ("all days", "kind of day", "weekday", "day itself")


@dataclass(frozen=True, eq=False)
class DayMoments:
    """Variances of the bands, and the linear laws that they make.

    Attributes
    ----------
    same : FloatArray (4, D, D)
        Matrices C of the parts in the order of `PARTS`.
    variances : FloatArray (n_bands, 4)
        Variance of each part in each band.
    """

    same: FloatArray
    variances: FloatArray

    @cached_property
    def precisions(self) -> list[FloatArray]:
        """P (D, D) of each band."""
        ones = np.ones(self.same.shape[1])
        return [
            precision_of(np.tensordot(v, self.same, axes=1), ones if b == 0 else None)[0]
            for b, v in enumerate(self.variances)
        ]

    def left_out(self) -> tuple[FloatArray, FloatArray]:
        """Weights (n_bands, D, D) of the days in each one's mean, and its variance (n_bands, D)."""
        weights, spread = [], []
        for P, v in zip(self.precisions, self.variances, strict=True):
            diagonal = np.maximum(P.diagonal(), 1e-300)
            weight = -P / diagonal[:, None]
            np.fill_diagonal(weight, 0.0)
            weights.append(weight)
            spread.append(np.maximum(1.0 / diagonal - v[3], 0.0))
        return np.array(weights), np.array(spread)

    def further(self, alike: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weights (n_bands, D) of the days in the mean of a further one, its variance (n_bands,).

        `alike` (4, D) tells whether its parts are those of each day; the last row is zero.
        """
        weights, spread = [], []
        for b, v in enumerate(self.variances):
            V = np.tensordot(v, self.same, axes=1)
            inverse = np.linalg.inv(V)
            k = v @ alike
            own = float(v[:3].sum())
            weight = inverse @ k
            variance = own - float(k @ weight)
            if b == 0:
                ones = inverse.sum(axis=1)
                lacking = 1.0 - float(weight.sum())
                weight = weight + ones * lacking / ones.sum()
                variance += lacking**2 / float(ones.sum())
            weights.append(weight)
            spread.append(max(variance, 0.0))
        return np.array(weights), np.array(spread)


def parts_of_days(dates: IntArray, holidays: IntArray) -> FloatArray:
    """Matrices (4, D, D) of days that share a part: all, the kind, the weekday, the day itself."""
    kinds, weekdays = kinds_of(dates, holidays), weekdays_of(dates)
    return np.array([
        np.ones((dates.size, dates.size)),
        kinds[:, None] == kinds,
        weekdays[:, None] == weekdays,
        np.eye(dates.size),
    ], dtype=np.float64)  # fmt: skip


def weekdays_of(dates: IntArray) -> IntArray:
    """Days of the week (D,) of days since 1970, Monday is 0."""
    return np.asarray((dates + 3) % 7)


def kinds_of(dates: IntArray, holidays: IntArray) -> IntArray:
    """Kinds (D,) of days since 1970, as numbers in `KINDS`."""
    return np.where(np.isin(dates, holidays), 2, (weekdays_of(dates) >= 5).astype(np.int64))


def distinct_parts(same: FloatArray, *, flat: bool) -> list[int]:
    """Numbers of the parts whose matrices differ, the day itself last.

    With an unknown mean, matrices are compared after it is projected out, and that of all days is
    none. A part that is a multiple of another one adds nothing.
    """
    D = same.shape[1]
    project = np.eye(D) - 1.0 / D if flat else np.eye(D)
    seen = [project @ same[3] @ project]
    found = []
    for j in range(3):
        matrix = project @ same[j] @ project
        size = np.linalg.norm(matrix)
        if size <= 1e-9 * D:
            continue
        if any(abs((matrix * other).sum()) >= (1 - 1e-9) * size * np.linalg.norm(other)
               for other in seen):  # fmt: skip
            continue
        seen.append(matrix)
        found.append(j)
    return [*found, 3]


def fitted_variances(M: FloatArray, same: FloatArray, *, flat: bool) -> FloatArray:
    """Variances (4,) of the parts of greatest (restricted) likelihood of mean squares M (D, D)."""
    out = np.zeros(4)
    D = len(M)
    level = float(np.trace(M)) / D
    if flat:
        level -= float(M.sum()) / D**2
    if not level > 0.0:
        out[3] = 1.0
        return out
    chosen = distinct_parts(same, flat=flat)
    parts, scaled = same[chosen], M / level

    start = np.full(len(chosen), np.log(1.0 / len(chosen)))
    free = np.ones(D) if flat else None
    best = minimize(
        lambda logs: variance_loss(logs, parts, scaled, free), start, jac=True,
        bounds=[LIMITS] * len(parts), method="L-BFGS-B",
    )  # fmt: skip
    out[chosen] = level * np.exp(best.x)
    return out


def precision_of(V: FloatArray, free: FloatArray | None) -> tuple[FloatArray, float]:
    """P of a covariance (D, D), and `log|V|`, with `log X'V^-1 X` of a free column X (D,)."""
    inverse, logs = positive_inverse(V, "variances of effects: the covariance")
    if free is not None:
        solved = inverse @ free
        size = float(free @ solved)
        logs += float(np.log(size))
        inverse = inverse - np.outer(solved, solved) / size
    return inverse, logs


def variance_loss(
    logs: FloatArray, parts: FloatArray, M: FloatArray, free: FloatArray | None = None
) -> tuple[float, FloatArray]:
    """The loss at logarithms (j,) of the variances of parts (j, D, D), and its slopes.

    It is `log|V| (+ log 1'V^-1 1) + tr(P M)`, with slopes `tr(P C_j) - tr(P M P C_j)`.
    """
    v = np.exp(logs)
    P, size = precision_of(np.tensordot(v, parts, axes=1), free)
    inner = P - P @ M @ P
    return size + float((P * M).sum()), v * np.tensordot(parts, inner, axes=2)


BoolArray = NDArray[np.bool_]
DAY = 86400.0
# First harmonics of the bands; the last band ends with the last harmonic.
BANDS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 36, 54, 80)
# Fewest steps of a day, fewest whole days and most of them, the last ones.
LEAST_STEPS, LEAST_DAYS, MOST_DAYS = 8, 2, 366
# Part by which the squared error of a day left out must fall, and in standard errors.
LEAST_GAIN, BEYOND_CHANCE = 0.03, 2.0
# Rounds in which gaps are filled by the usual day and joined deviations.
ROUNDS = 3
# Longest part of a day without a step, as in the night that skips an hour.
LONGEST_SKIP = 1.0 / 23.0

# Most steps of a day, and days since 1970, in a file.
MOST_STEPS, MOST_DATES = 86400, 2**22


@stored
@dataclass(frozen=True, eq=False)
class UsualDay:
    """Means of sensors by the time of the day, for past and further days.

    Attributes
    ----------
    axis : TimeAxis
        Clock of the times; its own times do not matter.
    n_steps : int
        Steps P of a day.
    dates : IntArray (D,)
        The whole days, as days since 1970.
    values : FloatArray (p, D, P)
        Values of the sensors on these days, gaps filled.
    variances : FloatArray (n_bands, 4)
        Variance of each part in each band, for a sensor of scale one.
    holidays : IntArray (h,)
        Holidays, as days since 1970.
    """

    axis: TimeAxis
    n_steps: int
    dates: IntArray
    values: FloatArray
    variances: FloatArray
    holidays: IntArray

    def check(self, p: int) -> None:
        """Refuse a usual day of a file that is none of p sensors; ModelFileError."""
        check_range(self, LEAST_STEPS, MOST_STEPS, "n_steps")
        days = check_shapes(
            self, dates=("D",), values=(p, "D", self.n_steps), holidays=("h",),
            variances=(n_bands(self.n_steps), len(PARTS)),
        )["D"]  # fmt: skip
        check_range(self, -MOST_DATES, MOST_DATES, "dates", "holidays")
        check_range(self, 0.0, np.inf, "variances")
        if days < LEAST_DAYS or (np.diff(self.dates) <= 0).any():
            raise ModelFileError(f"dates: expected {LEAST_DAYS} rising days or more, got others")
        if self.axis.origin is None or not (self.variances[:, -1] > 0).all():
            raise ModelFileError("usual: expected an origin and variances above zero, got others")

    @cached_property
    def scale(self) -> FloatArray:
        """Standard deviation (p,) of the values of each sensor; one for constant ones."""
        found = self.values.std(axis=(1, 2))
        return np.where(found > 0, found, 1.0)

    @cached_property
    def levels(self) -> FloatArray:
        """Mean (p,) of each sensor over the whole days."""
        return np.asarray(self.values.mean(axis=(1, 2)))

    @cached_property
    def moments(self) -> DayMoments:
        """Laws of harmonics by band."""
        return DayMoments(parts_of_days(self.dates, self.holidays), self.variances)

    @cached_property
    def _harmonics(self) -> NDArray[np.complex128]:
        return np.asarray(rfft(self.values, axis=2))

    @cached_property
    def _band(self) -> IntArray:
        """Band (K,) of each harmonic."""
        return band_of_harmonics(self.n_steps)

    @cached_property
    def _left_out(self) -> FloatArray:
        """Mean (p, D, P) of each day given the other days."""
        weights = self.moments.left_out()[0]
        out = np.empty_like(self._harmonics)
        for b, weight in enumerate(weights):
            part = self._band == b
            out[:, :, part] = np.matmul(weight, self._harmonics[:, :, part])
        return np.asarray(irfft(out, self.n_steps, axis=2))

    def further_day(self, date: int) -> tuple[FloatArray, FloatArray]:
        """Mean (p, P) of a day that is none of the whole days, and its variance (p,)."""
        dates = np.append(self.dates, date)
        alike = parts_of_days(dates, self.holidays)[:, -1, :-1]
        return self._of_day(alike)

    def profile(self, kind: str) -> tuple[FloatArray, FloatArray]:
        """Mean (p, P) of a further day of a kind of `KINDS`, on no given weekday, and variances."""
        alike = np.zeros((4, self.dates.size))
        alike[0] = 1.0
        alike[1] = kinds_of(self.dates, self.holidays) == KINDS.index(kind)
        return self._of_day(alike)

    def _of_day(self, alike: FloatArray) -> tuple[FloatArray, FloatArray]:
        weights, spread = self.moments.further(alike)
        mean = np.einsum("idk,kd->ik", self._harmonics, weights[self._band])
        return np.asarray(irfft(mean, self.n_steps, axis=1)), self._spread(spread)

    def _spread(self, variances: FloatArray) -> FloatArray:
        """Variance (p,) of a step, from those (n_bands,) of harmonics."""
        counts = counts_of_harmonics(self.n_steps)
        return self.scale**2 * float(counts @ variances[self._band]) / self.n_steps

    def places(self, times: FloatArray) -> tuple[IntArray, IntArray]:
        """Day since 1970 (m,) and step of the day (m,) of times."""
        return days_and_steps(self.axis, times, self.n_steps)

    def means(self, times: FloatArray) -> FloatArray:
        """Means (p, m) at times: of past days given the other days, of others given all."""
        dates, steps = self.places(times)
        out = np.empty((len(self.values), times.size))
        rows = np.searchsorted(self.dates, dates)
        rows = np.minimum(rows, self.dates.size - 1)
        past = self.dates[rows] == dates
        out[:, past] = self._left_out[:, rows[past], steps[past]]
        by_kind: dict[tuple[int, int], FloatArray] = {}
        for date in np.unique(dates[~past]):
            one = np.array([date])
            key = int(kinds_of(one, self.holidays)[0]), int(weekdays_of(one)[0])
            if key not in by_kind:
                by_kind[key] = self.further_day(int(date))[0]
            there = dates == date
            out[:, there] = by_kind[key][:, steps[there]]
        return out

    @property
    def shares(self) -> dict[str, float]:
        """Share of the variance within days by part: what a usual day says, and the day itself."""
        counts = counts_of_harmonics(self.n_steps)
        total = np.bincount(self._band, counts, len(self.variances)) @ self.variances
        return {name: float(v) for name, v in zip(PARTS, total / total.sum(), strict=True)}

    @property
    def days_by_kind(self) -> dict[str, int]:
        """Number of whole days of each kind."""
        kinds = kinds_of(self.dates, self.holidays)
        return {name: int((kinds == k).sum()) for k, name in enumerate(KINDS)}

    def end_of(self, times: FloatArray) -> float:
        """The last of times (n,) that lie on a whole day of the usual day, or before one."""
        dates, _ = self.places(times)
        before = dates <= self.dates[-1]
        return float(times[before].max(initial=-np.inf))

    def with_days(self, filled: FloatArray, times: FloatArray) -> UsualDay:
        """The usual day, its variances kept, with the whole days that filled values (p, n) hold."""
        dates, values = whole_days(self.axis, filled, times, self.n_steps)
        kept = ~np.isin(self.dates, dates)
        joined = np.concatenate([self.dates[kept], dates])
        order = np.argsort(joined, kind="stable")[-MOST_DAYS:]
        both = np.concatenate([self.values[:, kept], values], axis=1)[:, order]
        return replace(self, dates=joined[order], values=both)


def n_bands(n_steps: int) -> int:
    """Number of bands of the harmonics of a day."""
    return int(band_of_harmonics(n_steps)[-1]) + 1


def band_of_harmonics(n_steps: int) -> IntArray:
    """Band (K,) of each harmonic of a day."""
    harmonics = np.arange(n_steps // 2 + 1)
    return np.asarray(np.searchsorted(np.array(BANDS), harmonics, side="right") - 1)


def counts_of_harmonics(n_steps: int) -> FloatArray:
    """Coefficients (K,) of the full transform that each harmonic stands for: one or two."""
    counts = np.full(n_steps // 2 + 1, 2.0)
    counts[0] = 1.0
    if n_steps % 2 == 0:
        counts[-1] = 1.0
    return counts


def days_and_steps(axis: TimeAxis, times: FloatArray, n_steps: int) -> tuple[IntArray, IntArray]:
    """Day since 1970 (m,) and step of the day (m,) of times, by local clocks."""
    seconds = axis.seconds_of_day(times)
    assert seconds is not None
    # A step that begins half a microsecond before midnight is the first one of the day.
    steps = np.floor(seconds * n_steps / DAY + 1e-6).astype(np.int64)
    dates = axis.days(times)
    return dates + steps // n_steps, steps % n_steps


def steps_of_day(axis: TimeAxis, times: FloatArray) -> int | None:
    """Steps of a day, if times are timestamps of a regular grid of which a day has a whole number.

    None if not, and where a day has fewer than `LEAST_STEPS` steps.
    """
    if axis.origin is None or times.size < 2:
        return None
    steps = np.diff(times)
    step = float(np.median(steps))
    if np.ptp(steps) > 1e-6 * step:
        return None
    count = round(DAY / step)
    if count < LEAST_STEPS or abs(count * step - DAY) > 1e-6 * DAY:
        return None
    return count


def whole_days(
    axis: TimeAxis, filled: FloatArray, times: FloatArray, n_steps: int
) -> tuple[IntArray, FloatArray]:
    """Dates (D,) and values (p, D, P) of the days of which all steps are among the times.

    An hour that a clock skips is joined by straight lines, an hour that it repeats is averaged.
    """
    dates, steps = days_and_steps(axis, times, n_steps)
    distinct, rows = np.unique(dates, return_inverse=True)
    cells = rows * n_steps + steps
    count = np.bincount(cells, minlength=distinct.size * n_steps).reshape(-1, n_steps)
    lacking = (count == 0).sum(axis=1)
    ends = (count[:, 0] > 0) & (count[:, -1] > 0)
    kept = np.flatnonzero(ends & (lacking <= LONGEST_SKIP * n_steps))[-MOST_DAYS:]
    p = len(filled)
    total = np.zeros((p, count.size))
    np.add.at(total.T, cells, filled.T)
    values = total.reshape(p, *count.shape)[:, kept] / np.maximum(count[kept], 1)
    for d, row in enumerate(kept):
        known = np.flatnonzero(count[row])
        for i in range(p if known.size < n_steps else 0):
            values[i, d] = np.interp(np.arange(n_steps), known, values[i, d, known])
    return distinct[kept], values


def usual_day_of(
    axis: TimeAxis, filled: FloatArray, times: FloatArray, holidays: Sequence[int] = ()
) -> UsualDay | None:
    """The usual day of filled values (p, n), its variances found; None with too few whole days."""
    n_steps = steps_of_day(axis, times)
    if n_steps is None:
        return None
    dates, values = whole_days(axis, filled, times, n_steps)
    if dates.size < LEAST_DAYS:
        return None
    off = np.unique(np.asarray(holidays, dtype=np.int64))
    same, band = parts_of_days(dates, off), band_of_harmonics(n_steps)
    start = UsualDay(axis, n_steps, dates, values, np.empty((n_bands(n_steps), 4)), off)
    a = rfft(values / start.scale[:, None, None], axis=2) / np.sqrt(n_steps)
    for b in range(len(start.variances)):
        part = np.moveaxis(a[:, :, band == b], 1, 0).reshape(dates.size, -1)
        M = (part.real @ part.real.T + part.imag @ part.imag.T) / part.shape[1]
        if b == 0:
            # The mean is not known: harmonics about it are all that the likelihood sees.
            M = M - M.mean(axis=0) - M.mean(axis=1)[:, None] + M.mean()
        start.variances[b] = fitted_variances(M, same, flat=b == 0)
    return start


class FittedDay(NamedTuple):
    """A usual day, the part by which squared errors of days left out fall, and its error."""

    usual: UsualDay | None
    gain: float = 0.0
    error: float = 0.0

    @property
    def is_worth_it(self) -> bool:
        """Whether squared errors fall by three per cent, and by two standard errors."""
        return self.usual is not None and self.gain >= max(LEAST_GAIN, BEYOND_CHANCE * self.error)


def fitted_usual_day(
    axis: TimeAxis,
    values: FloatArray,
    observed: BoolArray,
    times: FloatArray,
    holidays: Sequence[int] = (),
) -> FittedDay:
    """The usual day of values (p, n) with gaps.

    Gaps are first joined by straight lines; then deviations from the usual day are, so that a gap
    of hours has the shape of other days.
    """
    filled = joined(values, observed)
    usual = None
    for _ in range(1 if observed.all() else ROUNDS):
        usual = usual_day_of(axis, filled, times, holidays)
        if usual is None:
            return FittedDay(None)
        mean = usual.means(times)
        filled = np.where(observed, values, mean + joined(values - mean, observed))
    assert usual is not None
    return FittedDay(usual, *gain_of(usual, values, observed, times))


def gain_of(
    usual: UsualDay, values: FloatArray, observed: BoolArray, times: FloatArray
) -> tuple[float, float]:
    """Part by which squared errors of whole days left out fall beside the mean of other days.

    The second number is its standard error over days.
    """
    dates, _ = usual.places(times)
    there = observed & np.isin(dates, usual.dates)
    if not there.any():
        return 0.0, 0.0
    D = usual.dates.size
    of_days = usual.values.mean(axis=2)
    others = (of_days.sum(axis=1, keepdims=True) - of_days) / (D - 1)
    rows = np.minimum(np.searchsorted(usual.dates, dates), D - 1)
    squares = []
    for mean in (others[:, rows], usual.means(times)):
        errors = np.where(there, (values - mean) / usual.scale[:, None], 0.0)
        squares.append(np.bincount(rows, (errors**2).sum(axis=0), D))
    plain, with_day = squares
    if not plain.sum() > 0:
        return 0.0, 0.0
    gains = (plain - with_day) * D / plain.sum()
    return float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(D))


def joined(values: FloatArray, observed: BoolArray) -> FloatArray:
    """Values (p, n) with gaps joined by straight lines, zero for sensors without any."""
    out = np.zeros_like(values)
    places = np.arange(values.shape[1])
    for row, (line, there) in enumerate(zip(values, observed, strict=True)):
        if there.any():
            out[row] = np.interp(places, places[there], line[there])
    return out


def days_of(holidays: Any) -> tuple[int, ...]:
    """Days since 1970 of dates: texts by ISO 8601, `datetime.date`, `datetime64`.

    Raises
    ------
    InvalidInputError
        An entry is no date.
    """
    if holidays is None:
        return ()
    given = (
        [holidays] if isinstance(holidays, str) or not hasattr(holidays, "__iter__") else holidays
    )
    try:
        dates = [np.datetime64(day, "D") for day in given]
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"holidays: expected dates such as 2024-12-25, {error}") from None
    if any(np.isnat(day) for day in dates):
        raise InvalidInputError("holidays: expected dates such as 2024-12-25, got a missing one")
    return tuple(sorted({int(day.astype(np.int64)) for day in dates}))
