"""The law of sensors about their usual day: its fit, gaps, later steps, draws and joint laws.

Values y of sensors are `level + scale x` about the usual day; x is a vector autoregression
(`recursion`) whose gaps its precision matrix fills (`precision`). Variances move with level and
volatility (`spread`). A gap is as hard as a forecast of the same depth, its variance times the
precision of the value given all others; deep ones are drawn to what the start fills in.

The start, before the coefficients are known, has one lag and a learned covariance:

    x_t = phi x_(t-1) + e_t ,   e_t ~ N(0, (1 - phi^2) C) ,
    C = (I I' / 2 (1 - phi^2) n + F F' / 2 n + K / 4) / 1.25 ,

I the errors of one step, F the filled series and K the correlations of the graph's kernel; C has a
mean diagonal of one. A few rounds lead from straight lines to the start.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from coupledgp.errors import ModelFileError
from coupledgp.ground.codec import check_range, check_shapes, stored
from coupledgp.ground.progress import tell
from coupledgp.ground.validation import LARGEST_PRODUCT, SMALLEST_PRODUCT
from coupledgp.random import FloatArray, IntArray
from coupledgp.time.precision import GapFactor, Markov
from coupledgp.time.recursion import (
    FAR,
    HORIZONS,
    LONGEST_LAG,
    MOST_DENSE,
    N_BLOCKS,
    N_GROUPS,
    SHARES,
    AheadErrors,
    FittedRecursion,
    Recursion,
    alone_residuals,
    errors_ahead,
    far_squares,
    few_values,
    fitted_recursion,
    shrunk_covariance,
)
from coupledgp.time.spread import (
    HEAVIEST,
    N_BENDS,
    N_COLUMNS,
    Bend,
    Spread,
    fitted_bend,
    fitted_scale,
    fitted_spread,
    log_volatility,
    mean_squares,
    own_volatility,
    volatility_after,
    volatility_around,
)

BoolArray = NDArray[np.bool_]
ROUNDS = 4
# Largest pooled coefficient.
MOST = 0.999


def one_lag(phi: float, C: FloatArray) -> Markov:
    """The law of one lag with the covariance C (p, p)."""
    coefficients = np.zeros((N_GROUPS, *C.shape))
    coefficients[0] = phi * np.eye(len(C))
    return Markov(Recursion(coefficients), (1.0 - phi**2) * C, C)


def start_law(x: FloatArray, K: FloatArray) -> Markov:
    """The law of one lag, from filled series (p, n)."""
    p, n = x.shape
    before = float((x[:, :-1] ** 2).sum())
    phi = float((x[:, 1:] * x[:, :-1]).sum()) / before if before > 0 else 0.0
    phi = min(max(phi, 0.0), MOST)
    steps = x[:, 1:] - phi * x[:, :-1]
    C = 0.5 * (steps @ steps.T) / ((1.0 - phi**2) * n) + 0.5 * (x @ x.T) / n + 0.25 * K
    return one_lag(phi, C * (p / float(np.trace(C))))


def started(x: FloatArray, observed: BoolArray, K: FloatArray) -> FloatArray:
    """Series (p, n) whose gaps the start fills."""
    for _ in range(0 if observed.all() else ROUNDS):
        x = GapFactor(start_law(x, K), x, observed).filled()
    return x


class FewSteps(NamedTuple):
    """The start as the law itself.

    Attributes
    ----------
    markov : Markov
    density : float
        Mean log density of an error of one step, left out.
    factor : float
        Variance of values given all others, left out, over that of that law.
    tail : float
        Inverse degrees of freedom of Student's law of such values.
    """

    markov: Markov
    density: float
    factor: float
    tail: float


def law_of_few_steps(x: FloatArray, observed: BoolArray, K: FloatArray) -> FewSteps:
    """The start as the law itself, its covariance that of errors, of filled series (p, n).

    Correlations are shrunk as those of innovations are.
    """
    phi = float(start_law(x, K).model.coefficients[0, 0, 0])
    steps = x[:, 1:] - phi * x[:, :-1]
    steps = np.where(observed[:, 1:] & observed[:, :-1], steps, np.nan)
    ends = np.linspace(0, steps.shape[1], min(N_BLOCKS, steps.shape[1]) + 1).astype(int)
    edges = list(itertools.pairwise(ends.tolist()))
    shrunk = shrunk_covariance(steps, edges, K)
    factor, tail = fitted_scale(alone_residuals(steps, edges, shrunk))
    markov = one_lag(phi, shrunk.covariance / (1.0 - phi**2))
    return FewSteps(markov, shrunk.density, factor, tail)


# Part of the mean variance of sensors below which one is constant.
CONSTANT = 1e-12
# Steps beyond which a forecast has come to rest, and steps of which volatility is made.
MOST_AHEAD, MEMORY = 1152, 110
# Depths between which the share of the start in the mean of a gap rises, and what it rises to.
DEPTHS, SHARE = (1.25, 2.5), 0.3
# Mean log squared error 48 steps ahead by which a level that stands must be better.
STANDS = 0.05
# Fewest steps for lags of several steps.
LEAST_STEPS = 200


@stored
@dataclass(frozen=True, eq=False)
class SensorLaw:
    """Parameters, found once.

    Attributes
    ----------
    sensors : IntArray (p,)
        Sites of the sensors, rising.
    markov : Markov
        Law of x.
    start : Markov or None
        Law of one lag that draws deep gaps; None where it is the law itself.
    level, scale : FloatArray (p,)
        Mean and standard deviation of a sensor about its usual day.
    spread_of_level : FloatArray (p,)
        Standard deviation of a sensor's values, usual day included.
    neighbours : FloatArray (p, p)
        Weights of the neighbours of each sensor.
    spread : Spread or None
        Law of the variance of forecasts; None: that of the recursion.
    bend : Bend or None
        What forecasts lack by level and last value.
    first : FloatArray (p,)
        Mean squared error of the recursion one step ahead, of which the volatility is.
    ridge : float
        Penalty of all sensors' lags, for 1100 rows; infinite without any.
    is_stable : bool
        Whether disturbances die out.
    density : float
        Mean log density of a value one step ahead, left out, nats, in units of y.
    shares : tuple of float
        Shares of the mean of recent steps in the level about which forecasts are, up to 12 and from
        48 steps ahead on: levels move.
    single : tuple of float
        Factor of the variance of single gaps and their inverse degrees of freedom, where there are
        too few steps for `spread`.
    """

    sensors: IntArray
    markov: Markov
    start: Markov | None
    level: FloatArray
    scale: FloatArray
    spread_of_level: FloatArray
    neighbours: FloatArray
    spread: Spread | None
    bend: Bend | None
    first: FloatArray
    ridge: float = field(metadata={"finite": False})
    is_stable: bool
    density: float
    shares: tuple[float, float] = (0.0, 0.0)
    single: tuple[float, float] = (1.0, 0.0)

    def check(self, p: int) -> None:
        """Refuse parts of a file that are none of p sensors; ModelFileError."""
        for part in (self.markov, self.start):
            if part is not None:
                check_shapes(part.model, coefficients=(N_GROUPS, p, p))
                check_shapes(part, innovations=(p, p), first=(p, p))
                for matrix in (part.innovations, part.first):
                    np.linalg.cholesky(matrix)  # which refuses what is no covariance
        check_shapes(
            self, level=(p,), scale=(p,), spread_of_level=(p,), neighbours=(p, p), first=(p,)
        )
        check_range(
            self, SMALLEST_PRODUCT, LARGEST_PRODUCT, "scale", "spread_of_level", "first"
        )  # fmt: skip
        check_range(self, 0.0, np.inf, "neighbours")
        known = set(self.shares) <= set(SHARES) and self.single[0] > 0
        if not known or not 0 <= self.single[1] <= HEAVIEST:
            raise ModelFileError(f"law: expected shares of {SHARES} and a factor, got others")
        moves = {self.spread is None, self.bend is None, self.start is None}
        if len(moves) > 1 or not self.ridge > 0:
            raise ModelFileError("law: expected a spread, a bend and a start, or none, got others")
        if self.spread is not None and self.bend is not None:
            horizons = len(HORIZONS)
            check_shapes(
                self.spread, variances=(horizons, p), coefficients=(horizons, N_COLUMNS),
                tails=(horizons,),
            )  # fmt: skip
            check_range(self.spread, 0.0, HEAVIEST, "tails")
            check_range(self.spread, SMALLEST_PRODUCT, LARGEST_PRODUCT, "variances", "far")
            check_shapes(self.bend, coefficients=(horizons, N_BENDS))

    def standardized(self, values: FloatArray) -> FloatArray:
        """X (p, n) of values (p, n) about the usual day."""
        return (values - self.level[:, None]) / self.scale[:, None]

    def levels_at(self, deviations: FloatArray, x: FloatArray) -> FloatArray:
        """Levels (p, n), in standard deviations, of x at deviations of the usual day (p, n)."""
        return (deviations + self.scale[:, None] * x) / self.spread_of_level[:, None]

    @cached_property
    def _own(self) -> dict[int, FloatArray]:
        return {}

    def own_variances(self, n_steps: int) -> FloatArray:
        """Variances (p, h) of the recursion itself some steps ahead."""
        if n_steps not in self._own:
            self._own[n_steps] = own_variances(self.markov, n_steps)
        return self._own[n_steps]


def own_variances(markov: Markov, n_steps: int) -> FloatArray:
    """Variances (p, h) of a recursion some steps ahead."""
    total, out = np.zeros(markov.n_sensors), []
    for response in markov.responses(n_steps):
        total = total + ((response @ markov.root) ** 2).sum(axis=1)
        out.append(total)
    return np.stack(out, axis=1)


def units_of(values: FloatArray, observed: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Means and standard deviations (p,) of observed values (p, n); of constant ones, of all.

    What a sensor lacks of values to be judged alone, it takes from the mean variance of all.
    """
    count = np.maximum(observed.sum(axis=1), 1)
    level = np.where(observed, values, 0.0).sum(axis=1) / count
    variances = (np.where(observed, values - level[:, None], 0.0) ** 2).sum(axis=1) / count
    usual = float(variances.mean()) or 1.0
    lacking = np.maximum(few_values(values.shape[1]) - count, 0)
    shrunk = (count * variances + lacking * usual) / (count + lacking)
    return level, np.sqrt(np.where(variances > CONSTANT * usual, shrunk, usual))


def fitted_law(
    sensors: IntArray,
    filled: FloatArray,
    observed: BoolArray,
    deviations: FloatArray,
    neighbours: FloatArray,
    graph: FloatArray,
    kept: float | None = None,
) -> SensorLaw:
    """The law of values (p, n) about the usual day, gaps filled.

    Parameters
    ----------
    filled, observed
        Values about the usual day, of which gaps are filled, and which were observed.
    deviations
        The usual day (p, n), without the level of the sensors.
    neighbours, graph
        Weights of neighbours, and correlations of the graph's kernel (p, p).
    kept
        Ridge of lags of all sensors that is not searched for.
    """
    level, scale = units_of(filled, observed)
    x = (filled - level[:, None]) / scale[:, None]
    count = np.maximum(observed.sum(axis=1), 1)
    whole = np.where(observed, filled + deviations - level[:, None], 0.0)
    of_level = np.maximum(np.sqrt((whole**2).sum(axis=1) / count), scale)
    start = start_law(x, graph)
    if x.shape[1] < LEAST_STEPS:
        few = law_of_few_steps(x, observed, graph)
        density = few.density - float(count @ np.log(scale)) / int(count.sum())
        return SensorLaw(
            sensors, few.markov, None, level, scale, of_level, neighbours, None, None,
            few.markov.innovations.diagonal(), np.inf, True, density,
            single=(few.factor, few.tail),
        )  # fmt: skip
    fit = fitted_recursion(x, observed, sparse.csr_array(neighbours), kept)
    edges = [(block.first, block.last) for block in fit.blocks]
    covariance, density, *_ = shrunk_covariance(fit.ahead.errors[0], edges, graph)
    density -= float(count @ np.log(scale)) / int(count.sum())
    first = 0.5 * (x @ x.T / x.shape[1] + np.eye(len(x)))
    tell("dynamics: variances")
    volatility = volatility_after(fit.ahead.errors[0], neighbours)
    base, gain = deviations / of_level[:, None], scale / of_level
    shares, ahead, squares = moved_levels(fit, x, observed)
    bend, ahead = fitted_bend(ahead, x, volatility, base, gain, fit.blocks)
    spread = fitted_spread(ahead, volatility, base, gain)
    markov = Markov(fit.model, covariance, first)
    if squares is not None:
        plain = spread.levels_of(own_variances(markov, FAR))[:, -1]
        spread = replace(spread, far=max(float((squares / plain).mean()), 1.0))
    return SensorLaw(
        sensors, markov, start, level, scale, of_level, neighbours,
        spread, bend, mean_squares(fit.ahead.errors[:1])[0], fit.ridge, fit.is_stable, density,
        shares,
    )  # fmt: skip


def moved_levels(
    fit: FittedRecursion, x: FloatArray, observed: BoolArray
) -> tuple[tuple[float, float], AheadErrors, FloatArray | None]:
    """Shares of the recent mean in levels, up to 12 and from 48 steps ahead on.

    Those of least mean log squared error over sensors, left out; far ahead a level stands only if
    that is less by `STANDS`. With the errors that the former leaves, and mean squares (p,) of the
    latter; None where blocks are short, or sensors many, whose variances far ahead take too long.
    """
    near, far, losses = [], [], []
    for share in SHARES if len(x) <= MOST_DENSE else ():
        squares = far_squares(x, observed, fit.blocks, share)
        if squares is None:
            break
        ahead = errors_ahead(x, observed, fit.blocks, share) if share else fit.ahead
        near.append(ahead)
        far.append(squares)
        logs = np.log(mean_squares(ahead.errors[-1:])).mean(), np.log(squares).mean()
        losses.append([float(logs[0]), float(logs[1]) + (0.0 if share else STANDS)])
    if not losses:
        return (0.0, 0.0), fit.ahead, None
    first, last = np.argmin(np.array(losses), axis=0).tolist()
    return (SHARES[first], SHARES[last]), near[first], far[last]


class Posterior:
    """The law of x given observations, in gaps of past steps and in later ones.

    Parameters
    ----------
    law
        Parameters.
    x, observed, deviations
        Series (p, n), where they are observed, and the usual day without levels (p, n).
    before
        The law of the first steps of these series, of which factors are taken over.
    """

    def __init__(
        self, law: SensorLaw, x: FloatArray, observed: BoolArray, deviations: FloatArray,
        before: Posterior | None = None,
    ) -> None:  # fmt: skip
        self.law, self.x, self.observed, self.deviations = law, x, observed, deviations
        kept: GapFactor | None = None if before is None else before.factor
        self.factor: GapFactor = GapFactor(law.markov, x, observed, kept)

    @property
    def n(self) -> int:
        """Number of steps."""
        return self.x.shape[1]

    @cached_property
    def filled(self) -> FloatArray:
        """Series (p, n), gaps filled by the recursion."""
        return self.factor.filled()

    @cached_property
    def variances(self) -> FloatArray:
        """Variances (p, n) of gaps under the recursion; zero elsewhere."""
        out = np.zeros(self.x.shape)
        for c, S in self.factor.covariances():
            out[self.factor.cells(c)] = S.diagonal()
        return out

    def recent(self, k: int) -> FloatArray:
        """Series (p, k) of the last steps, gaps filled; those before the first repeat it."""
        first = max(self.n - k, 0)
        return padded_to(self.factor.filled(first)[:, first:], k)

    @cached_property
    def gap_law(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means, variances and inverse degrees of freedom (p, n) of gaps; zero where observed."""
        law, gaps = self.law, ~self.observed
        mean, variance, tails = self.filled, self.variances.copy(), np.zeros(self.x.shape)
        if not gaps.any():
            return mean, variance, tails
        depth = np.maximum(variance * law.markov.alone[:, None], 1.0)[gaps]
        if law.start is None or law.spread is None:
            # Gaps as deep as a value of which nothing is known have no factor.
            most = (law.markov.first.diagonal() * law.markov.alone)[np.nonzero(gaps)[0]]
            part = np.clip(1.0 - np.log(depth) / np.maximum(np.log(most), 1e-9), 0.0, 1.0)
            variance[gaps] *= law.single[0] ** part
            tails[gaps] = law.single[1] * part
            return mean, variance, tails
        share = SHARE * np.interp(np.log(depth), np.log(DEPTHS), [0.0, 1.0])
        other = GapFactor(law.start, self.x, self.observed).filled()
        mean = mean.copy()
        mean[gaps] += share * (other[gaps] - mean[gaps])
        errors = law.markov.errors(self.filled)
        errors[:, 0] = np.nan
        errors = np.where(self.observed, errors, np.nan)
        calm = volatility_around(errors, law.first, law.neighbours)[gaps]
        level = law.levels_at(self.deviations, mean)[gaps]
        variance[gaps] *= law.spread.gap_factors(level, mean[gaps], calm, depth)
        tails[gaps] = law.spread.gap_tails(depth)
        return mean, variance, tails

    @cached_property
    def calm(self) -> FloatArray:
        """Log volatility (p,) after the last step, from the errors of some steps before it."""
        assert self.law.spread is not None
        k = min(MEMORY, self.n)
        recent = self.recent(k + LONGEST_LAG)
        errors = self.law.markov.model.errors(recent)
        errors = np.where(self.observed[:, self.n - k :], errors, np.nan)
        if k == self.n:
            errors[:, 0] = np.nan
        own = own_volatility(errors, self.law.first, np.ones(len(errors)))[:, -1]
        return log_volatility(own, self.law.neighbours)

    @cached_property
    def missing(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Steps among the last 12 and sensors (u,) of gaps there, and their covariance (u, u)."""
        k = min(LONGEST_LAG, self.n)
        steps, sensors = np.nonzero(~self.observed[:, self.n - k :].T)
        covariance = self.factor.covariance(sensors, steps + self.n - k)
        return steps + LONGEST_LAG - k, sensors, covariance

    def ahead(self, deviations: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means and variances (p, h) of x in later steps, and the recursion's own variances."""
        law, h = self.law, deviations.shape[1]
        n_steps = min(h, MOST_AHEAD)
        steps, sensors, covariance = self.missing
        start = max(self.n - FAR, 0)
        level = self.factor.filled(start)[:, start:].mean(axis=1)
        # Forecasts about the mean of all steps and about that of recent ones.
        last = self.recent(LONGEST_LAG).T - np.stack([np.zeros(level.size), level])[:, None]
        ends = np.log([HORIZONS[-1], FAR])
        weight = np.interp(np.log(np.arange(1, n_steps + 1)), ends, law.shares)
        carried = np.zeros((steps.size, LONGEST_LAG, len(self.x)))
        carried[np.arange(steps.size), steps, sensors] = 1.0
        mean = np.empty((len(self.x), n_steps))
        own = law.own_variances(n_steps).copy()
        for k in range(n_steps):
            new = law.markov.model.next(last)
            last = np.concatenate([last[:, 1:], new[:, None]], axis=1)
            mean[:, k] = (1.0 - weight[k]) * new[0] + weight[k] * (new[1] + level)
            if steps.size:
                moved = law.markov.model.next(carried)
                carried = np.concatenate([carried[:, 1:], moved[:, None]], axis=1)
                own[:, k] += ((covariance @ moved) * moved).sum(axis=0)
        if h > n_steps:
            more = ((0, 0), (0, h - n_steps))
            mean, own = np.pad(mean, more, mode="edge"), np.pad(own, more, mode="edge")
        if law.spread is None:
            return mean, own, own
        level = law.levels_at(deviations, mean)
        if law.bend is not None:
            gain, at_last = law.scale / law.spread_of_level, self.recent(1)[:, 0]
            mean = mean + law.bend.means(level, mean, at_last, gain, self.calm)
            level = law.levels_at(deviations, mean)
        factors = law.spread.factors(level, mean, self.calm)
        return mean, law.spread.levels_of(own) * factors, own

    def law_with(self, deviations: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means and variances (p, n + h) with h later steps, and the recursion's variances."""
        mean, variance, _ = self.gap_law
        if not deviations.shape[1]:
            return mean, variance, self.variances
        later = self.ahead(deviations)
        past = (mean, variance, self.variances)
        mean, variance, own = (
            np.concatenate(both, axis=1) for both in zip(past, later, strict=True)
        )
        return mean, variance, own

    def longer(self, h: int) -> GapFactor:
        """Factors of the gaps and of h later steps."""
        if not h:
            return self.factor
        more = np.zeros((len(self.x), h))
        return GapFactor(
            self.law.markov, np.concatenate([self.x, more], axis=1),
            np.concatenate([self.observed, more > 0], axis=1), self.factor,
        )  # fmt: skip

    def covariance(self, rows: IntArray, steps: IntArray, deviations: FloatArray) -> FloatArray:
        """Covariance (m, m) of x in unknown cells, also of later steps, exact up to their scale."""
        _, variance, own = self.law_with(deviations)
        found = self.longer(deviations.shape[1]).covariance(rows, steps)
        ratio = np.sqrt(variance / np.where(own > 0, own, 1.0))[rows, steps]
        return np.asarray(found * np.outer(ratio, ratio))

    @cached_property
    def left_out(self) -> tuple[FloatArray, FloatArray]:
        """Means and variances (p, n) of each observed x given all others, gaps as they are filled.

        `x - (Lam x)_it / Lam_it,it` and `1 / Lam_it,it`, times the factor of a gap of depth one.
        """
        law = self.law
        diagonal = law.markov.diagonal(self.n)
        mean = self.filled - law.markov.gradient(self.filled) / diagonal
        variance = 1.0 / diagonal
        if law.spread is not None:
            errors = law.markov.errors(self.filled)
            errors[:, 0] = np.nan
            errors = np.where(self.observed, errors, np.nan)
            calm = volatility_around(errors, law.first, law.neighbours)
            level = law.levels_at(self.deviations, mean)
            flat = (level.ravel(), mean.ravel(), calm.ravel(), np.ones(mean.size))
            variance = variance * law.spread.gap_factors(*flat).reshape(mean.shape)
        else:
            variance = variance * law.single[0]
        return mean, variance

    @property
    def log_evidence(self) -> float:
        """Log density of the observed x, nats."""
        n_gaps = int((~self.observed).sum())
        found = self.law.markov.log_density(self.filled) - 0.5 * self.factor.log_determinant
        return found + 0.5 * n_gaps * float(np.log(2 * np.pi))


def padded_to(X: FloatArray, k: int) -> FloatArray:
    """Series (p, k), the first value repeated before the first step where there are fewer."""
    lacking = k - X.shape[1]
    return X if lacking <= 0 else np.concatenate([np.repeat(X[:, :1], lacking, axis=1), X], axis=1)
