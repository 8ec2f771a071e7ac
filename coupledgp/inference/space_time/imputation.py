"""Values of sensors over time, and draws of their missing cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coupledgp.inference.space_time.basis import Basis
from coupledgp.inference.space_time.filters import SeriesFilter
from coupledgp.inference.space_time.gaps import BoolArray, CompleteSystem, GapSystem
from coupledgp.inference.space_time.whittle import Gram, SpaceTimeParameters
from coupledgp.random import FloatArray

# Draws of the gaps in a round, and relative residuals of their means and deviations.
N_IMPUTATIONS, IMPUTATION_TOLERANCE, DEVIATION_TOLERANCE = 2, 1e-3, 1e-2


@dataclass(frozen=True, eq=False)
class SpaceTimeData:
    """Values of sensors over time, and the cells at which they were observed.

    Attributes
    ----------
    values : FloatArray (p, n)
        Observations in normalised units; zero where there is none.
    observed : BoolArray (p, n)
        Which cells were observed.
    times : FloatArray (n,)
        Rising times.
    """

    values: FloatArray
    observed: BoolArray
    times: FloatArray

    @property
    def seen(self) -> BoolArray:
        """Times (n,) at which some sensor reports."""
        return np.asarray(self.observed.any(axis=0))

    @property
    def gaps(self) -> BoolArray:
        """Cells (p, n) without an observation, at times at which another sensor reports."""
        return ~self.observed & self.seen

    @property
    def step(self) -> float:
        """Median time from one step to the next."""
        return float(np.median(np.diff(self.times))) if self.times.size > 1 else 1.0

    @property
    def is_regular(self) -> bool:
        """Whether steps are alike."""
        steps = np.diff(self.times)
        return bool(not steps.size or np.ptp(steps) <= 1e-6 * steps.mean())

    def interpolated(self) -> FloatArray:
        """Values (p, n) with gaps filled linearly along time, beyond the ends by the last value."""
        out = np.empty_like(self.values)
        for row, (values, there) in enumerate(zip(self.values, self.observed, strict=True)):
            known = self.times[there]
            out[row] = np.interp(self.times, known, values[there]) if known.size else 0.0
        return out


class Imputer:
    """Draws of the cells without an observation, given the observations and parameters."""

    def __init__(self, data: SpaceTimeData, gram: Gram, rng: np.random.Generator) -> None:
        self.data, self.gram, self.rng = data, gram, rng

    def gap_system(self, parameters: SpaceTimeParameters) -> GapSystem:
        """The equations of complete data and gaps at parameters."""
        return gap_system(self.data, self.gram(parameters.theta), parameters)

    def drawn(self, parameters: SpaceTimeParameters, m: int) -> FloatArray:
        """Complete data (m, p, n): observed values, and draws of the missing cells."""
        data = self.data
        if data.observed.all():
            return data.values[None]
        gaps = self.gap_system(parameters)
        system = gaps.system
        filled, _ = gaps.filled(data.values[None], IMPUTATION_TOLERANCE)
        out = np.repeat(filled, m, axis=0)
        if gaps.size:
            d, _ = gaps.deviations(m, self.rng, DEVIATION_TOLERANCE)
            out += gaps.scattered(d)
        dark = ~data.seen
        if dark.any():
            alphas = system.solve(out)
            out[:, :, dark] = self._dark(system, alphas, dark)
        return out

    def _dark(self, system: CompleteSystem, alphas: FloatArray, dark: BoolArray) -> FloatArray:
        """Draws (m, p, dark) of observations at times at which nothing was observed."""
        drawn = system.drawn(len(alphas), self.rng)
        seen = np.where(dark, 0.0, drawn)
        rest = alphas - system.solve(seen)
        # `drawn` is a function with noise; the correction is that of the function alone.
        return drawn[:, :, dark] + system.applied(rest)[:, :, dark]


def gap_system(
    data: SpaceTimeData,
    gram: FloatArray,
    parameters: SpaceTimeParameters,
    extra: FloatArray | None = None,
) -> GapSystem:
    """The equations of complete data and gaps of data with a covariance (p, p) of the sensors.

    `extra` (p, n) is the variance of extra noise of observed cells; zero where there is none.
    """
    basis = Basis.of(gram, parameters.roots)
    series = SeriesFilter(
        parameters.terms, parameters.noise, basis.eigenvalues, data.times, data.seen
    )
    unknown, precision = data.gaps, None
    if extra is not None:
        noisy = data.observed & (extra > 0)
        unknown = unknown | noisy
        inverse = np.zeros(extra.shape)
        inverse[noisy] = 1.0 / extra[noisy]
        precision = inverse[unknown]
    return GapSystem(CompleteSystem(basis, series), unknown, precision)
