"""Fitted dynamics of sensors, and the law of gaps and of later steps that they make.

Values y of sensors are `level + scale x` about the usual day; x is a vector autoregression
(`autoregression`) whose gaps its precision matrix fills (`precision`). In gaps, regressions on the
other sensors have a share, and variances move with level and volatility (`pseudo_gaps`, `spread`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from coupledgp.inference.space_time.autoregression import (
    LONGEST_LAG,
    FittedAutoregression,
    fitted_autoregression,
    fitted_innovations,
    gain_of,
)
from coupledgp.inference.space_time.bend import Bend, fitted_bend
from coupledgp.inference.space_time.markov import Markov
from coupledgp.inference.space_time.precision import (
    FilledSeries,
    GapChunks,
    GapFactor,
    ahead,
    filled_series,
)
from coupledgp.inference.space_time.pseudo_gaps import (
    GapLaw,
    fitted_gap_law,
    volatility_around,
)
from coupledgp.inference.space_time.spread import (
    HORIZONS,
    AheadErrors,
    Spread,
    errors_ahead,
    first_factors,
    fitted_spread,
    log_volatility,
    own_volatility,
    volatility_after,
)
from coupledgp.random import FloatArray, IntArray

BoolArray = NDArray[np.bool_]
# Part of the mean variance of sensors below which one is constant.
CONSTANT = 1e-12
# Standard errors of a gain beyond which it is more than chance.
BEYOND_CHANCE = 2.0
# Steps beyond which a forecast has come to rest.
MOST_AHEAD = 4032
# Steps before new ones that are looked at again when these come.
LOOKED_AT = 2 * LONGEST_LAG


@dataclass(frozen=True, eq=False)
class SensorDynamics:
    """Parameters, found once.

    Attributes
    ----------
    sensors : IntArray (p,)
        Sites of the sensors, rising.
    law : Markov
        Law of x.
    level, scale : FloatArray (p,)
        Mean and standard deviation of a sensor about its usual day.
    spread_of_level : FloatArray (p,)
        Standard deviation of a sensor's values, usual day included.
    neighbours : FloatArray (p, p)
        Weights of the neighbours of each sensor.
    spread : Spread or None
        Law of the variance of forecasts; None: that of the recursion.
    bend : Bend or None
        What forecasts lack by level and last value; None: nothing is added.
    gaps : GapLaw or None
        What is added inside gaps; None: nothing.
    peers : FloatArray (p, p)
        Matrix O of the regressions on peers.
    ridge : float
        Penalty of all sensors' lags, for the number of rows at hand.
    is_stable : bool
        Whether disturbances die out.
    density : float
        Mean log density of a value one step ahead, left out, nats, in units of y.
    """

    sensors: IntArray
    law: Markov
    level: FloatArray
    scale: FloatArray
    spread_of_level: FloatArray
    neighbours: FloatArray
    spread: Spread | None
    bend: Bend | None
    gaps: GapLaw | None
    peers: FloatArray
    ridge: float
    is_stable: bool
    density: float

    def standardized(self, values: FloatArray) -> FloatArray:
        """X (p, n) of values (p, n) about the usual day."""
        return (values - self.level[:, None]) / self.scale[:, None]

    def levels_at(self, deviations: FloatArray, x: FloatArray) -> FloatArray:
        """Levels (p, n), in standard deviations, of x at deviations of the usual day (p, n)."""
        return (deviations + self.scale[:, None] * x) / self.spread_of_level[:, None]

    def peers_of(self, x: FloatArray) -> FloatArray:
        """Regressions (p, n) of each series on the others."""
        return np.asarray(x - (self.peers @ x) / self.peers.diagonal()[:, None])


def fitted_dynamics(
    sensors: IntArray,
    filled: FloatArray,
    observed: BoolArray,
    deviations: FloatArray,
    neighbours: FloatArray,
    graph: FloatArray,
    moves: bool,
    seed: int,
    report: Callable[[str], None],
    kept: SensorDynamics | None = None,
    ways: FloatArray | None = None,
) -> tuple[SensorDynamics, FloatArray, str]:
    """SensorDynamics of values (p, n) about the usual day, gaps filled, and errors left out (p, n).

    The third result says what the directions of the graph are worth; it is empty without any.

    Parameters
    ----------
    filled, observed
        Values about the usual day, of which gaps are filled, and which were observed.
    deviations
        The usual day (p, n), without the level of the sensors.
    neighbours, graph
        Weights of neighbours, and correlations of the graph's kernel (p, p).
    moves
        Whether variances move with level and volatility.
    kept
        Dynamics of which the ridge and the law in gaps are taken; None: both are found.
    ways
        Weights (2, p, p) of the next sensors upstream and downstream, which take the place of the
        neighbours' in the recursion where errors left out fall by more than chance.
    """
    count = observed.sum(axis=1)
    level = np.where(observed, filled, 0.0).sum(axis=1) / np.maximum(count, 1)
    away = np.where(observed, filled - level[:, None], 0.0)
    variances = (away**2).sum(axis=1) / np.maximum(count, 1)
    usual = max(float(variances.mean()), 1e-300)
    scale = np.sqrt(np.where(variances > CONSTANT * usual, variances, usual))
    x = (filled - level[:, None]) / scale[:, None]
    ridge, gaps = (None, None) if kept is None else (kept.ridge, kept.gaps)
    fit, words = fitted_autoregression(x, observed, neighbours, report, ridge), ""
    if ways is not None:
        fit, words = _along(fit, fitted_autoregression(x, observed, ways, report, ridge))
    edges = [(block.first, block.last) for block in fit.blocks]
    innovations = fitted_innovations(fit.errors, edges, graph)
    roots = np.sqrt(innovations.covariance.diagonal())
    law = Markov(fit.model, innovations.covariance, innovations.covariance / np.outer(roots, roots))
    whole = np.where(observed, filled + deviations - level[:, None], 0.0)
    of_level = np.sqrt((whole**2).sum(axis=1) / np.maximum(count, 1))
    dynamics = SensorDynamics(
        sensors, law, level, scale, np.maximum(of_level, scale), neighbours, None, None, None,
        np.eye(len(x)), fit.ridge, fit.is_stable,
        innovations.density - float(count @ np.log(scale)) / max(int(count.sum()), 1),
    )  # fmt: skip
    if moves:
        report("dynamics: variances")
        dynamics = _with_spread(dynamics, fit, x, observed, deviations, seed, gaps)
    return dynamics, fit.errors, words


def _along(
    plain: FittedAutoregression, along: FittedAutoregression
) -> tuple[FittedAutoregression, str]:
    """The recursion with lags upstream and downstream where it is better, and why, in words."""
    gain, error = gain_of(plain, along)
    percent = 100.0 * (1.0 - np.exp(-0.5 * gain))
    words = f"errors left out are {percent:.1f} % (+- {50.0 * error:.1f}) smaller"
    if gain > BEYOND_CHANCE * error and along.is_stable:
        return along, f"lags upstream and downstream: {words} than with undirected ones"
    return plain, f"undirected lags: with those upstream and downstream {words}"


def _with_spread(
    dynamics: SensorDynamics, fit: FittedAutoregression, x: FloatArray, observed: BoolArray,
    deviations: FloatArray, seed: int, gaps: GapLaw | None,
) -> SensorDynamics:  # fmt: skip
    base = deviations / dynamics.spread_of_level[:, None]
    gain = dynamics.scale / dynamics.spread_of_level
    plain = errors_ahead(x, observed, fit.blocks, HORIZONS)
    volatility = volatility_after(plain.errors[0], dynamics.neighbours)
    bend, errors = fitted_bend(plain, x, volatility, base, gain, fit.blocks)
    spread = fitted_spread(errors, volatility, base, gain)
    peers: FloatArray = dynamics.peers
    if gaps is None and not observed.all():
        gaps = fitted_gap_law(
            x, observed, dynamics.law, fit.blocks, fit.errors, bend.first,
            dynamics.neighbours, base, gain, seed,
        )  # fmt: skip
    if gaps is not None:
        peers = np.asarray(np.linalg.inv(x @ x.T + gaps.ridge * np.eye(len(x))), dtype=np.float64)
    density = moving_density(dynamics, spread, errors, volatility, base, gain)
    return replace(dynamics, spread=spread, bend=bend, gaps=gaps, peers=peers, density=density)


def moving_density(
    dynamics: SensorDynamics, spread: Spread, ahead: AheadErrors, volatility: FloatArray,
    base: FloatArray, gain: FloatArray,
) -> float:  # fmt: skip
    """Mean log density of errors one step ahead, left out, nats, in units of y.

    They are normal of covariance `D^1/2 Q D^1/2`, D the factors of the variances at each step.
    """
    errors = ahead.errors[0]
    known = ~np.isnan(errors)
    factors = first_factors(spread, ahead, volatility, base, gain)
    D = factors * (spread.variances[0] / dynamics.law.innovations.diagonal())[:, None]
    z = np.where(known, errors, 0.0) / np.sqrt(D)
    count = int(known.sum())
    log_size = 2.0 * float(np.log(dynamics.law.root.diagonal()).sum()) / len(errors)
    quad = float((z * (dynamics.law.inverse @ z)).sum())
    logs = count * (log_size + float(np.log(2 * np.pi))) + float(np.log(D)[known].sum()) + quad
    logs += 2.0 * float(known.sum(axis=1) @ np.log(dynamics.scale))
    return -0.5 * logs / max(count, 1)


@dataclass(frozen=True, eq=False)
class MovingPosterior:
    """Law of x in gaps and in later steps, given observations.

    Attributes
    ----------
    dynamics : SensorDynamics
    observed : BoolArray (p, n)
        Which cells were observed.
    filled : FilledSeries
        Series by the recursion alone.
    mean, variance : FloatArray (p, n)
        Law of a value in gaps; elsewhere the observation, and zero.
    own : FloatArray (p,)
        Volatility of each sensor after the last step.
    """

    dynamics: SensorDynamics
    observed: BoolArray
    filled: FilledSeries
    mean: FloatArray
    variance: FloatArray
    own: FloatArray

    @classmethod
    def given(
        cls,
        dynamics: SensorDynamics,
        x: FloatArray,
        observed: BoolArray,
        deviations: FloatArray,
        errors: FloatArray | None = None,
    ) -> MovingPosterior:
        """Condition on series x (p, n) where they are observed.

        `errors` (p, n) one step ahead are those of the recursion, if they are not given.
        """
        filled = filled_series(dynamics.law, x, observed)
        return cls._of(dynamics, observed, filled, deviations, errors, np.ones(len(x)))

    @classmethod
    def _of(
        cls, dynamics: SensorDynamics, observed: BoolArray, filled: FilledSeries,
        deviations: FloatArray, errors: FloatArray | None, start: FloatArray,
    ) -> MovingPosterior:  # fmt: skip
        mean, variance = filled.values, filled.variances
        if dynamics.spread is None:
            return cls(dynamics, observed, filled, mean, variance, start)
        if errors is None:
            errors = dynamics.law.errors(filled.values)
            errors[:, 0] = np.nan
        errors = np.where(observed, errors, np.nan)
        of_first = dynamics.spread.variances[0]
        if dynamics.bend is not None:
            of_first = dynamics.bend.first
        own = own_volatility(errors, of_first, start)[:, -1]
        gaps = ~observed
        if gaps.any() and dynamics.gaps is not None:
            alone = dynamics.law.interior[0].diagonal()
            depths = np.maximum(variance * alone[:, None], 1.0)[gaps]
            z, peer = filled.values[gaps], dynamics.peers_of(filled.values)[gaps]
            mean = filled.values.copy()
            mean[gaps] = dynamics.gaps.means(z, peer, depths)
            calm = volatility_around(errors, of_first, dynamics.neighbours)[gaps]
            level = dynamics.levels_at(deviations, mean)[gaps]
            factor = dynamics.gaps.factors(level, mean[gaps], calm, depths)
            variance = variance.copy()
            variance[gaps] *= factor
        return cls(dynamics, observed, filled, mean, variance, own)

    def ahead(self, deviations: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means and variances (p, h) of x in later steps, at deviations (p, h) of the usual day."""
        h = deviations.shape[1]
        n_steps = min(h, MOST_AHEAD)
        found = ahead(self.dynamics.law, self.filled, self.observed, n_steps)
        mean, variance = found.mean, found.variance
        if h > n_steps:
            more = ((0, 0), (0, h - n_steps))
            mean, variance = np.pad(mean, more, mode="edge"), np.pad(variance, more, mode="edge")
        spread = self.dynamics.spread
        if spread is None:
            return mean, variance
        level = self.dynamics.levels_at(deviations, mean)
        calm = log_volatility(self.own, self.dynamics.neighbours)
        if self.dynamics.bend is not None:
            gain = self.dynamics.scale / self.dynamics.spread_of_level
            last = self.filled.values[:, -1]
            mean = mean + self.dynamics.bend.means(level, mean, last, gain, calm)
            level = self.dynamics.levels_at(deviations, mean)
        return mean, spread.levels_of(variance) * spread.factors(level, mean, calm)

    def updated(
        self, x: FloatArray, observed: BoolArray, deviations: FloatArray
    ) -> MovingPosterior:
        """The law with further steps (p, k) of x, observed or not, at deviations (p, n + k).

        Gaps of the last 24 steps before them are filled anew; older ones are as they were.
        """
        k = x.shape[1]
        if not k:
            return self
        old = self.observed.shape[1]
        first = max(old - LOOKED_AT, 0)
        base = max(first - LONGEST_LAG, 0)
        # Steps before the first one that is looked at again count as observed, as they are final.
        known = np.concatenate([self.observed[:, base:], observed], axis=1)
        known[:, : first - base] = True
        values = np.concatenate([self.filled.values[:, base:], x], axis=1)
        part = filled_series(self.dynamics.law, values, known)
        both = np.concatenate([self.observed, observed], axis=1)
        new = type(self)._of(
            self.dynamics, known, part, deviations[:, base:], self._errors(part, known, old - base),
            self.own,
        )  # fmt: skip
        kept = slice(first - base, None)

        def joined(before: FloatArray, after: FloatArray) -> FloatArray:
            return np.concatenate([before[:, :first], after[:, kept]], axis=1)

        filled = FilledSeries(
            joined(self.filled.values, part.values), joined(self.filled.variances, part.variances),
            part.last, self.filled.log_evidence,
        )  # fmt: skip
        return replace(
            new, observed=both, filled=filled, mean=joined(self.mean, new.mean),
            variance=joined(self.variance, new.variance),
        )  # fmt: skip

    def last_steps(self, n: int) -> MovingPosterior:
        """The law of the last n steps, where those before them are not kept."""
        kept = slice(self.observed.shape[1] - n, None)
        filled = replace(
            self.filled,
            values=self.filled.values[:, kept],
            variances=self.filled.variances[:, kept],
        )
        return replace(
            self, observed=self.observed[:, kept], filled=filled, mean=self.mean[:, kept],
            variance=self.variance[:, kept],
        )  # fmt: skip

    def _errors(self, part: FilledSeries, known: BoolArray, old: int) -> FloatArray:
        """Errors of the new steps, NaN before them, whose volatility is known."""
        errors = self.dynamics.law.errors(part.values)
        errors[:, :old] = np.nan
        return errors

    def longer(self, h: int) -> tuple[GapFactor, BoolArray]:
        """Factors of the gaps and h later steps, and the mask (p, n + h) of these cells."""
        unknown = np.concatenate([~self.observed, np.ones((len(self.observed), h), bool)], axis=1)
        return GapFactor.of(GapChunks(self.dynamics.law, unknown)), unknown

    def law_with(self, deviations: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means and variances (p, n + h) with h later steps, at deviations (p, h)."""
        if not deviations.shape[1]:
            return self.mean, self.variance
        mean, variance = self.ahead(deviations)
        return (
            np.concatenate([self.mean, mean], axis=1),
            np.concatenate([self.variance, variance], axis=1),
        )

    def ratios(self, deviations: FloatArray, variance: FloatArray) -> FloatArray:
        """Roots (p, n + h) of the variances over those of the recursion itself."""
        h = deviations.shape[1]
        plain = self.filled.variances
        if h:
            later = ahead(self.dynamics.law, self.filled, self.observed, min(h, MOST_AHEAD))
            more = ((0, 0), (0, h - later.variance.shape[1]))
            plain = np.concatenate([plain, np.pad(later.variance, more, mode="edge")], axis=1)
        return np.sqrt(variance / np.where(plain > 0, plain, 1.0))

    def draws(self, m: int, rng: np.random.Generator, deviations: FloatArray) -> FloatArray:
        """Draws (m, p, n + h) of x, the observations themselves where there are some.

        Deviations of the recursion are scaled to the variances of the law.
        """
        mean, variance = self.law_with(deviations)
        factor, unknown = self.longer(deviations.shape[1])
        ratio = self.ratios(deviations, variance)
        return np.where(unknown, mean + ratio * factor.draws(m, rng), mean)

    def covariance(self, rows: IntArray, steps: IntArray, deviations: FloatArray) -> FloatArray:
        """Covariance (m, m) of x in unknown cells, also of later steps; h deviations (p, h)."""
        _, variance = self.law_with(deviations)
        factor, _ = self.longer(deviations.shape[1])
        out = np.empty((rows.size, rows.size))
        for start in range(0, rows.size, 64):
            part = slice(start, start + 64)
            right = np.zeros((rows[part].size, *variance.shape))
            right[np.arange(rows[part].size), rows[part], steps[part]] = 1.0
            out[:, part] = factor.solve(right)[:, rows, steps].T
        ratio = self.ratios(deviations, variance)[rows, steps]
        return np.asarray((out + out.T) / 2 * np.outer(ratio, ratio))

    @cached_property
    def left_out(self) -> tuple[FloatArray, FloatArray]:
        """Means and variances (p, n) of each observed x given all others, gaps as they are filled.

        `x - (Lam x - B'Q^-1 c)_it / Lam_it,it`; variances move as those of single gaps do.
        """
        law = self.dynamics.law
        diagonal = law.diagonal(self.observed.shape[1])
        mean = self.filled.values - law.gradient(self.filled.values) / diagonal
        return mean, 1.0 / diagonal
