"""Effects of covariates, found before the law of what is left, and once more with it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from coupledgp.gp.graph_time import GraphTimeGP
from coupledgp.gp.graph_time_prior import SpaceTimeRows, units_of
from coupledgp.gp.units import Units
from coupledgp.ground.progress import Progress
from coupledgp.inference.space_time.effect_columns import EffectColumns
from coupledgp.inference.space_time.effects import SensorEffects, check_columns, fitted_effects
from coupledgp.inference.space_time.sensor_scores import SensorLaw
from coupledgp.inference.space_time.sites import Sites
from coupledgp.inference.space_time.usual_day import UsualDay, whole_days
from coupledgp.inference.space_time.whittle import SpaceTimeParameters
from coupledgp.random import FloatArray
from coupledgp.search.space_time.days import DayOptions, FoundDay, found_usual_day
from coupledgp.search.space_time.fitter import FittedSpaceTime, SpaceTimeModel
from coupledgp.series import TimeAxis
from coupledgp.series.covariates import Covariate


@dataclass(frozen=True, eq=False)
class EffectSearch:
    """Covariates at the sensors and times of observations.

    Attributes
    ----------
    sites : Sites
        Covariances between sites.
    rows : SpaceTimeRows
        Observations y.
    axis : TimeAxis
        Axis of the times.
    columns : tuple of EffectColumns
        Columns of the covariates.
    values : list of FloatArray (k, p or 1, n or 1)
        Their values at the sensors and times.
    """

    sites: Sites
    rows: SpaceTimeRows
    axis: TimeAxis
    columns: tuple[EffectColumns, ...]
    values: list[FloatArray]

    @classmethod
    def of(
        cls, sites: Sites, rows: SpaceTimeRows, axis: TimeAxis, covariates: tuple[Covariate, ...]
    ) -> EffectSearch:
        """The search of covariates.

        Raises
        ------
        InvalidInputError
            One is not known at a sensor or a time of the grid, or there are too many columns.
        """
        columns = tuple(EffectColumns.of(one, axis, rows.sensors, rows.times) for one in covariates)
        check_columns(columns)
        values = [one.at(axis, rows.sensors, rows.times) for one in columns]
        return cls(sites, rows, axis, columns, values)

    def fitted(
        self, sites: Sites, parameters: SpaceTimeParameters, units: Units, values: FloatArray,
        usual: UsualDay | None, report: Progress,
    ) -> SensorEffects:  # fmt: skip
        """The effects on values (p, n) about a usual day, under a law about both."""
        observed = ~np.isnan(values)
        offset, scale = float(units.offset[0]), float(units.scale[0])
        known = (np.where(observed, values, offset) - offset) / scale
        law = SensorLaw(
            parameters.terms, parameters.noise, sites.gram(self.rows.sensors), parameters.roots,
            self.rows.times,
        )  # fmt: skip
        return fitted_effects(
            law, self.axis, self.rows.sensors, self.columns, known, observed, self.about(usual),
            self.values, scale, report,
        )  # fmt: skip

    def about(self, usual: UsualDay | None) -> list[FloatArray]:
        """Columns about their own usual day, which a usual day of values takes with it."""
        if usual is None:
            return self.values
        found = []
        for one, Z in zip(self.columns, self.values, strict=True):
            found.append(Z if one.is_static else np.stack([self._about_day(usual, z) for z in Z]))
        return found

    def _about_day(self, usual: UsualDay, z: FloatArray) -> FloatArray:
        dates, days = whole_days(self.axis, z, self.rows.times, usual.n_steps)
        kept = np.isin(dates, usual.dates)
        own = replace(usual, dates=dates[kept], values=days[:, kept])
        return np.asarray(z - own.means(self.rows.times) + own.levels[:, None])

    def field(self, effects: SensorEffects | None) -> FloatArray:
        """Effects (p, n) on the observations."""
        if effects is None:
            return np.zeros(self.rows.values.shape)
        return effects.fields(self.rows.sensors, self.values, self.rows.times.size)

    def before(
        self, model: SpaceTimeModel, normalize: bool, options: DayOptions, report: Progress
    ) -> SensorEffects:
        """Effects under the law at which the search of hyperparameters starts."""
        day = found_usual_day(self.rows, self.axis, options)
        values = self.rows.values - day.past
        about = replace(self.rows, values=values)
        units = units_of(self.sites, about, normalize)
        start = model.starts(about.normalized(units), self.sites.theta, units)[0]
        at = self.sites.with_theta(start.theta)
        return self.fitted(at, start, units, values, day.usual, report)

    def after(
        self, found: FittedSpaceTime, day: FoundDay, effects: SensorEffects, report: Progress
    ) -> tuple[FittedSpaceTime, SensorEffects]:
        """Effects under the law that was found, and that law about them, hyperparameters kept."""
        process = found.process
        values = process.rows.values + effects.fields(
            self.rows.sensors, self.about(day.usual), self.rows.times.size
        )
        new = self.fitted(
            process.sites, process.parameters, process.units, values, day.usual, report
        )
        moved = process.rows.values + self.field(effects) - self.field(new)
        return replace(found, process=about_values(process, moved)), new


def about_values(process: GraphTimeGP, values: FloatArray) -> GraphTimeGP:
    """The process of other values (p, n) at the same cells, hyperparameters kept."""
    rows = replace(process.rows, values=values)
    units = units_of(process.sites, rows, process.normalize)
    return replace(process, rows=rows, units=units)
