"""What a linear forecast lacks, by the level that it forecasts and the value that it starts from.

The error h steps ahead, left out, has the mean `G beta_h`, G hats (piecewise linear functions, one
at one knot and zero at the others) of three numbers and their products with a fourth:

* y, the forecast level; u, its part about the usual day; and w, the level if the last value would
  stay as it is about the usual day, all in standard deviations;
* d, the last value less the forecast.

Roads in free flow stay there, and those in a jam do not: a linear recursion draws both to the mean.
beta is a ridge regression over all sensors, kept where the squared error of blocks of time that
are left out falls by more than its standard error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coupledgp.core.codec import stored
from coupledgp.random import FloatArray
from coupledgp.time.recursion import HORIZONS, AheadErrors, Block
from coupledgp.time.spread import between

# Knots of the hats, and clip of the difference d.
KNOTS, MOST_CHANGE = np.array([-4.0, -2.0, -1.0, -0.4, 0.0, 0.4, 0.8, 3.0]), 4.0
# Number of columns, and the ridge of a regression on rows of about unit variance.
N_COLUMNS, RIDGE = 3 + 8 * KNOTS.size, 100.0


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
    coefficients = np.zeros((len(HORIZONS), N_COLUMNS))
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
        if not gains.mean() > error + N_COLUMNS / max(count, 1):
            continue
        coefficients[k] = _solved(gram, right)
        for (steps, there, *_), correction in zip(parts, made_up, strict=True):
            change = np.zeros(there.shape)
            change[there] = correction
            errors[k][:, steps] -= change
            forecasts[k][:, steps] += change
    return Bend(coefficients), AheadErrors(errors, forecasts)


def _solved(gram: FloatArray, right: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.solve(gram + RIDGE * np.eye(len(gram)), right))
