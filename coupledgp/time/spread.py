"""Variances that move with the level of a sensor and with how calm its last steps were.

The squared error `E_h^2` of h steps ahead, left out, has the mean `S_ih exp(F phi_h)`, S_ih its
mean for the sensor i and F the columns 1, y, y^2, u, u^2 and log v:

* y is the forecast level, and u its part about the usual day, both in standard deviations and
  clipped;
* v is the volatility, `v_t = .8 v_(t-1) + .2 E_1t^2 / S_i1`, half of it of the sensor itself and
  half the mean over its neighbours.

phi maximises the gamma likelihood, that is minimises `sum F phi + r exp(-F phi)`, r the ratio of
the squared error to S_ih. Errors over their standard deviations have Student's law of variance one
(`student`), whose degrees of freedom have the greatest likelihood at each h.

Student's law of variance one, by tau, the inverse of its degrees of freedom nu (0 is normal), is

    log p(z) = log G((nu + 1) / 2) - log G(nu / 2) - log(pi (nu - 2)) / 2
               - (nu + 1) / 2 log(1 + z^2 / (nu - 2)) .

What a linear forecast lacks: the error h steps ahead, left out, has the mean `G beta_h`, G hats
(piecewise linear functions, one at one knot and zero at the others) of three numbers and their
products with a fourth: y; u; w, the level if the last value would stay as it is about the usual
day; and d, the last value less the forecast. Roads in free flow stay there, and those in a jam do
not: a linear recursion draws both to the mean. beta is a ridge regression over all sensors, kept
where the squared error of blocks of time left out falls by more than its standard error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import gammaln, ndtr, ndtri, stdtr, stdtrit

from coupledgp.ground.codec import stored
from coupledgp.random import FloatArray
from coupledgp.time.recursion import FAR, HORIZONS, AheadErrors, Block

# Greatest tau of a fit, the least that is not taken as zero, and the most values of a fit.
HEAVIEST, LIGHTEST, MOST_VALUES = 0.4, 1.0 / 30.0, 50_000
# Tau below which the normal law is taken.
NORMAL = 1e-6


def student_log_density(z: FloatArray, tau: ArrayLike) -> FloatArray:
    """Log densities at z, nats."""
    z, tau = np.broadcast_arrays(z, tau)
    found = np.array(-0.5 * (z**2 + np.log(2 * np.pi)))
    heavy = tau > NORMAL
    t = tau[heavy]
    ratio = t / (1.0 - 2.0 * t)  # 1 / (nu - 2)
    half = 0.5 / t
    found[heavy] = (
        gammaln(half + 0.5) - gammaln(half) + 0.5 * np.log(ratio / np.pi)
        - (half + 0.5) * np.log1p(z[heavy] ** 2 * ratio)
    )  # fmt: skip
    return found


def student_cdf(z: FloatArray, tau: ArrayLike) -> FloatArray:
    """Chances of at most z."""
    z, tau = np.broadcast_arrays(z, tau)
    found, heavy = np.array(ndtr(z)), tau > NORMAL
    t = tau[heavy]
    found[heavy] = stdtr(1.0 / t, z[heavy] / np.sqrt(1.0 - 2.0 * t))
    return found


def student_quantiles(p: FloatArray, tau: ArrayLike) -> FloatArray:
    """Quantiles at probabilities p."""
    p, tau = np.broadcast_arrays(p, tau)
    found, heavy = np.array(ndtri(p)), tau > NORMAL
    t = tau[heavy]
    found[heavy] = stdtrit(1.0 / t, p[heavy]) * np.sqrt(1.0 - 2.0 * t)
    return found


def fitted_scale(z: FloatArray) -> tuple[float, float]:
    """The variance and the tau of greatest likelihood of residuals (m,); one and zero of none."""
    some = z[:: -(-z.size // MOST_VALUES)] if z.size else z
    if not some.any():
        return 1.0, 0.0
    best = minimize(
        lambda at: at[0] / 2 - float(student_log_density(some * np.exp(-at[0] / 2), at[1]).mean()),
        (np.log((some**2).mean()), 0.2), method="Nelder-Mead",
        bounds=[(None, None), (0.0, HEAVIEST)], options={"xatol": 1e-3, "fatol": 1e-6},
    )  # fmt: skip
    tail = float(best.x[1])
    return float(np.exp(best.x[0])), tail if tail > LIGHTEST else 0.0


def fitted_tail(z: FloatArray) -> float:
    """The tau of greatest likelihood of residuals (m,) over their standard deviations."""
    some = z[:: -(-z.size // MOST_VALUES)] if z.size else z
    if not some.size:
        return 0.0
    best = minimize_scalar(
        lambda tau: -float(student_log_density(some, tau).mean()), bounds=(0.0, HEAVIEST),
        method="bounded", options={"xatol": 1e-4},
    )  # fmt: skip
    return float(best.x) if best.x > LIGHTEST else 0.0


BoolArray = NDArray[np.bool_]
# Columns of F.
N_COLUMNS = 6
# Rate of the volatility, most of a squared error in it, and what is added to it.
RATE, MOST_VOLATILE, FLOOR = 0.2, 50.0, 0.05
# Clips of the level, most of a ratio, and ridge of the coefficients but the constant.
LEVELS, MOST_RATIO, RIDGE, N_NEWTON = (-4.0, 3.0), 40.0, 15.0, 30
# Clips of the logarithm of the factor of a variance.
FACTORS = (-3.5, 2.5)


def gamma_coefficients(
    F: FloatArray, ratios: FloatArray, ridge: float | FloatArray = RIDGE
) -> FloatArray:
    """Phi (k,) of the gamma regression of ratios (m,) on columns F (m, k), the first constant.

    Ridges, one or (k,), pull to zero; the constant is free.
    """
    r = np.minimum(ratios, MOST_RATIO)
    phi = np.zeros(F.shape[1])
    pull = np.broadcast_to(2.0 * np.asarray(ridge), phi.shape).copy()
    pull[0] = 0.0
    if not r.any():
        return phi

    def loss(w: FloatArray) -> float:
        line = F @ w
        return float((line + r * np.exp(-line)).sum() + 0.5 * (pull * w**2).sum())

    value = loss(phi)
    for _ in range(N_NEWTON):
        weight = r * np.exp(-(F @ phi))
        slope = F.T @ (1.0 - weight) + pull * phi
        curve = (F * weight[:, None]).T @ F + np.diag(pull + 1e-8)
        step = np.linalg.solve(curve, slope)
        size, new = 1.0, value
        while size > 1e-4:
            new = loss(phi - size * step)
            if new <= value:
                break
            size *= 0.5
        if not new <= value:
            break
        phi = phi - size * step
        if value - new < 1e-9 * max(abs(value), 1.0):
            break
        value = new
    return phi


def columns(level: FloatArray, forecast: FloatArray, log_volatility: FloatArray) -> FloatArray:
    """F (..., 6) at levels (...), forecasts (...) about the usual day, and log volatilities (...).

    The first two are in standard deviations of the level and about the usual day.
    """
    y, u = np.clip(level, *LEVELS), np.clip(forecast, *LEVELS)
    return np.stack([np.ones(u.shape), y, y**2, u, u**2, log_volatility], axis=-1)


def own_volatility(errors: FloatArray, variances: FloatArray, start: FloatArray) -> FloatArray:
    """Volatility (p, n) after each step, of errors (p, n) one step ahead, NaN where unknown.

    A step without an error leaves it as it is. `start` (p,) is that before the first step.
    """
    known = ~np.isnan(errors)
    ratio = np.where(known, errors, 0.0) ** 2 / variances[:, None]
    ratio = np.minimum(ratio, MOST_VOLATILE)
    out = np.empty_like(ratio)
    at = start
    for t in range(ratio.shape[1]):
        at = np.where(known[:, t], (1 - RATE) * at + RATE * ratio[:, t], at)
        out[:, t] = at
    return out


def log_volatility(own: FloatArray, neighbours: FloatArray) -> FloatArray:
    """Logarithm (p, ...) of half the own volatility and half the mean of the neighbours."""
    with_some = neighbours.sum(axis=1) > 0
    around = np.where(with_some.reshape(-1, *[1] * (own.ndim - 1)), neighbours @ own, own)
    return np.log(0.5 * own + 0.5 * around + FLOOR)


@stored
@dataclass(frozen=True, eq=False)
class Spread:
    """The law of the variance of forecasts.

    Attributes
    ----------
    variances : FloatArray (4, p)
        S of each of `HORIZONS` and each sensor.
    coefficients : FloatArray (4, 6)
        phi of each of `HORIZONS`.
    tails : FloatArray (4,)
        Inverse degrees of freedom at each of `HORIZONS`; zero where residuals are normal.
    far : float
        What variances `FAR` steps ahead are multiplied by, 1 or more, as where levels shift.
    """

    variances: FloatArray
    coefficients: FloatArray
    tails: FloatArray
    far: float = 1.0

    def factors(
        self, level: FloatArray, forecast: FloatArray, volatility: FloatArray
    ) -> FloatArray:
        """Factors `exp(F phi)` (p, h) of the steps ahead.

        They are at levels (p, h) and forecasts (p, h) about the usual day, and the logarithm (p,)
        of the volatility at the last step.
        """
        n_steps = forecast.shape[1]
        phi = between(self.coefficients, n_steps)
        F = columns(level, forecast, np.repeat(volatility[:, None], n_steps, axis=1))
        return np.exp(np.clip(np.einsum("ihk,hk->ih", F, phi), *FACTORS))

    def gap_factors(
        self, level: FloatArray, mean: FloatArray, volatility: FloatArray, depth: FloatArray
    ) -> FloatArray:
        """Factors (m,) of the variances of gaps at levels, means, volatilities and depths (m,)."""
        phi = depth_coefficients(self.variances, self.coefficients, depth)
        F = columns(level, mean, volatility)
        return np.exp(np.clip((F * phi).sum(axis=1), *FACTORS))

    def tails_ahead(self, n_steps: int) -> FloatArray:
        """Inverse degrees of freedom (n_steps,) of the steps ahead, zero from `FAR` on."""
        h = np.log(np.arange(1, n_steps + 1))
        return np.asarray(np.interp(h, np.log([*HORIZONS, FAR]), [*self.tails, 0.0]))

    def gap_tails(self, depth: FloatArray) -> FloatArray:
        """Inverse degrees of freedom (m,) of gaps of depths (m,)."""
        return depth_coefficients(self.variances, self.tails[:, None], depth)[:, 0]

    def levels_of(self, own: FloatArray) -> FloatArray:
        """S (p, h) of the steps ahead, for the variances (p, h) of the recursion itself.

        The ratio of both is linear in log h, in logarithms, up to the last horizon, and grows by
        `far` until `FAR`.
        """
        places = np.minimum(np.array(HORIZONS), own.shape[1]) - 1
        ratios = np.log(self.variances / np.maximum(own[:, places].T, 1e-300))
        if own.shape[1] < HORIZONS[-1]:
            kept = np.array([h <= own.shape[1] for h in HORIZONS])
            ratios[~kept] = ratios[kept][-1]
        h = np.arange(1, own.shape[1] + 1)
        grown = np.interp(np.log(h), np.log([HORIZONS[-1], FAR]), [0.0, np.log(self.far)])
        return own * np.exp(between(ratios, own.shape[1]).T + grown)


def between(values: FloatArray, n_steps: int) -> FloatArray:
    """Values (4, k) of the horizons at all steps (n_steps, k), linear in log h."""
    at = np.log(np.arange(1, n_steps + 1))
    where = np.log(HORIZONS)
    return np.stack(
        [np.interp(at, where, column) for column in values.reshape(len(HORIZONS), -1).T], axis=1
    )


def depth_coefficients(
    variances: FloatArray, coefficients: FloatArray, depth: FloatArray
) -> FloatArray:
    """Phi (m, k) of gaps of depths (m,): that of the horizon whose variance is as many times S_1.

    It is linear in the logarithm of the depth.
    """
    ratios = np.log(variances / variances[0]).mean(axis=1)
    ratios = np.maximum.accumulate(ratios) + 1e-9 * np.arange(ratios.size)
    at = np.log(depth)
    return np.stack([np.interp(at, ratios, column) for column in coefficients.T], axis=1)


def mean_squares(errors: FloatArray) -> FloatArray:
    """Mean squares (h, p) of errors (h, p, n), NaN where there is none.

    A sensor of few errors has those of all.
    """
    known = ~np.isnan(errors)
    squares = np.where(known, errors, 0.0) ** 2
    counts = known.sum(axis=2)
    pooled = squares.sum(axis=(1, 2)) / np.maximum(counts.sum(axis=1), 1)
    return np.maximum((squares.sum(axis=2) + 2.0 * pooled[:, None]) / (counts + 2.0), 1e-12)


def volatility_around(
    errors: FloatArray, variances: FloatArray, neighbours: FloatArray
) -> FloatArray:
    """Log volatility (p, n) at each step, from errors of the steps before and after it.

    A side counts by the errors that are known on it.
    """
    ones, total, weights = np.ones(len(errors)), np.zeros(errors.shape), np.zeros(errors.shape)
    for way in (slice(None), slice(None, None, -1)):
        one = errors[:, way]
        weight = 1.0 - (1.0 - RATE) ** np.cumsum(~np.isnan(one), axis=1) + 1e-9
        total += (weight * own_volatility(one, variances, ones))[:, way]
        weights += weight[:, way]
    return log_volatility(total / weights, neighbours)


def volatility_after(errors: FloatArray, neighbours: FloatArray) -> FloatArray:
    """Log volatility (p, n) after each step, of errors (p, n) one step ahead."""
    own = own_volatility(errors, mean_squares(errors[None])[0], np.ones(len(errors)))
    return log_volatility(own, neighbours)


def fitted_spread(
    ahead: AheadErrors, volatility: FloatArray, base: FloatArray, gain: FloatArray
) -> Spread:
    """The variance of forecasts, from errors left out at each of `HORIZONS`.

    The level of a forecast x is `base + gain x`, with base (p, n) and gain (p,); log volatilities
    (p, n) are those after each step.
    """
    known = ~np.isnan(ahead.errors)
    squares = np.where(known, ahead.errors, 0.0) ** 2
    variances = mean_squares(ahead.errors)
    coefficients, tails = np.zeros((len(HORIZONS), N_COLUMNS)), np.zeros(len(HORIZONS))
    for k, h in enumerate(HORIZONS):
        before = np.zeros_like(volatility)
        before[:, h:] = volatility[:, :-h]
        there = known[k]
        level = base + gain[:, None] * ahead.forecasts[k]
        F = columns(level[there], ahead.forecasts[k][there], before[there])
        ratio = (squares[k] / variances[k][:, None])[there]
        coefficients[k] = gamma_coefficients(F, ratio)
        errors = ahead.errors[k] / np.sqrt(variances[k])[:, None]
        half = 0.5 * np.clip(F @ coefficients[k], *FACTORS)
        tails[k] = fitted_tail(errors[there] * np.exp(-half))
    return Spread(variances, coefficients, tails)


# Knots of the hats, and clip of the difference d.
KNOTS, MOST_CHANGE = np.array([-4.0, -2.0, -1.0, -0.4, 0.0, 0.4, 0.8, 3.0]), 4.0
# Number of columns, and the ridge of a regression on rows of about unit variance.
N_BENDS, BEND_RIDGE = 3 + 8 * KNOTS.size, 100.0


def hats(values: FloatArray) -> FloatArray:
    """Weights (..., 8) of the knots, of sum one, linear between them."""
    at = np.clip(values, KNOTS[0], KNOTS[-1])
    place = np.clip(np.searchsorted(KNOTS, at, side="right") - 1, 0, KNOTS.size - 2)
    share = (at - KNOTS[place]) / (KNOTS[place + 1] - KNOTS[place])
    out = np.zeros((*at.shape, KNOTS.size))
    np.put_along_axis(out, place[..., None], 1.0 - share[..., None], axis=-1)
    np.put_along_axis(out, place[..., None] + 1, share[..., None], axis=-1)
    return out


def bend_columns(
    level: FloatArray, forecast: FloatArray, last: FloatArray, gain: FloatArray,
    log_volatility: FloatArray,
) -> FloatArray:  # fmt: skip
    """G (..., 67) at forecast levels and forecasts x, last values x, and d level / d x."""
    d = np.clip(last - forecast, -MOST_CHANGE, MOST_CHANGE)[..., None]
    v = log_volatility[..., None]
    of_level, of_forecast = hats(level), hats(forecast)
    stays = hats(level + gain * (last - forecast))
    parts = [v, d, v * d, of_level, of_forecast, stays, stays * d, of_level * d, of_forecast * d,
             hats(last) * d, v * of_level]  # fmt: skip
    return np.concatenate(parts, axis=-1)


@stored
@dataclass(frozen=True, eq=False)
class Bend:
    """The mean of what a linear forecast lacks.

    Attributes
    ----------
    coefficients : FloatArray (4, 67)
        beta of each of `HORIZONS`; zero where squared errors do not fall in blocks left out.
    """

    coefficients: FloatArray

    def means(
        self, level: FloatArray, forecast: FloatArray, last: FloatArray, gain: FloatArray,
        volatility: FloatArray,
    ) -> FloatArray:  # fmt: skip
        """Corrections (p, h) of forecasts x (p, h) of the next steps.

        Levels are (p, h); last values, gains and log volatilities (p,). Beyond the last horizon H
        they fade with `(H / h)^2`.
        """
        h = forecast.shape[1]
        wide = [np.broadcast_to(part[:, None], forecast.shape) for part in (last, gain, volatility)]
        G = bend_columns(level, forecast, *wide)
        fade = np.minimum(1.0, HORIZONS[-1] / np.arange(1, h + 1)) ** 2
        return np.asarray(np.einsum("ihk,hk->ih", G, between(self.coefficients, h)) * fade)


def fitted_bend(
    ahead: AheadErrors, X: FloatArray, volatility: FloatArray, base: FloatArray, gain: FloatArray,
    blocks: Sequence[Block],
) -> tuple[Bend, AheadErrors]:  # fmt: skip
    """The correction of forecasts of series X (p, n), and the errors that it leaves.

    Levels are `base + gain x`, log volatilities (p, n) those after each step. The correction of a
    block of time comes from the others, so that the errors are still left out.
    """
    errors, forecasts = ahead.errors.copy(), ahead.forecasts.copy()
    coefficients = np.zeros((len(HORIZONS), N_BENDS))
    for k, h in enumerate(HORIZONS):
        parts = []
        for first, last, _ in blocks:
            steps = np.arange(max(first, h), last)
            there = ~np.isnan(ahead.errors[k][:, steps])
            made = ahead.forecasts[k][:, steps]
            wide = np.broadcast_to(gain[:, None], made.shape)
            given = (base[:, steps] + wide * made, made, X[:, steps - h], wide,
                     volatility[:, steps - h])  # fmt: skip
            G = bend_columns(*(part[there] for part in given))
            e = ahead.errors[k][:, steps][there]
            parts.append((steps, there, G, e, G.T @ G, G.T @ e))
        gram, right = (np.sum([part[j] for part in parts], axis=0) for j in (4, 5))
        before, after, made_up = [], [], []
        for _, _, G, e, own, of_errors in parts:
            correction = G @ _solved(gram - own, right - of_errors)
            before.append(float(e @ e))
            after.append(float(((e - correction) ** 2).sum()))
            made_up.append(correction)
        count = sum(part[3].size for part in parts)
        gains = 1.0 - np.array(after) / np.maximum(before, 1e-300)
        error = float(gains.std(ddof=1)) / np.sqrt(gains.size)
        if not gains.mean() > error + N_BENDS / max(count, 1):
            continue
        coefficients[k] = _solved(gram, right)
        for (steps, there, *_), correction in zip(parts, made_up, strict=True):
            change = np.zeros(there.shape)
            change[there] = correction
            errors[k][:, steps] -= change
            forecasts[k][:, steps] += change
    return Bend(coefficients), AheadErrors(errors, forecasts)


def _solved(gram: FloatArray, right: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.solve(gram + BEND_RIDGE * np.eye(len(gram)), right))
