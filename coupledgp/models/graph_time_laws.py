"""Laws, draws and forecasts of a fitted space-time model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from coupledgp.diagnostics.space_time.map_readings import sensor_series
from coupledgp.diagnostics.space_time.sensor_table import (
    SensorTable,
    moments_back,
    spread_sensors,
)
from coupledgp.errors import InvalidInputError
from coupledgp.gp.graph_time import GraphTimeGP
from coupledgp.gp.protocol import GaussianProcess
from coupledgp.gp.target_maps import mapped_back
from coupledgp.gp.usual_days import UsualDayGP
from coupledgp.gp.wrapped import WrappedGP
from coupledgp.ground.memory import check_memory, named_exhaustion
from coupledgp.ground.validation import check_choice, check_positive_int
from coupledgp.inference.nodes.forecast import Budget
from coupledgp.inference.space_time.day_moments import KINDS
from coupledgp.inference.space_time.left_out import (
    SensorsLeftOut,
    first_left_out,
    sensors_left_out,
)
from coupledgp.inference.space_time.usual_day import DAY as SECONDS_OF_DAY
from coupledgp.models.estimator import check_probabilities, interval_ends
from coupledgp.models.frames import law_frame
from coupledgp.models.graph_time_parts import DAY, term_names
from coupledgp.models.graph_time_record import DayProfile, Grid, SpaceTimeRecord
from coupledgp.random import FloatArray, IntArray, draw_seed

if TYPE_CHECKING:
    import pandas as pd

# Seconds that a forecast may take beyond those of one step where no budget is given.
FORECAST_SECONDS = 60.0


class SpaceTimeLaws(SpaceTimeRecord):
    """Answers of a fitted model of values over time; `GraphTimeGPRegressor` fits it."""

    def predict(  # type: ignore[override]
        self,
        nodes: Any = None,
        times: Any = None,
        return_std: bool = False,
        *,
        latent: bool = False,
    ) -> Any:
        """Predictive law of observations at nodes and times.

        Parameters
        ----------
        nodes
            Labels (a,), in whose order the answer is; None: all nodes in the order of the graph.
        times
            Times (b,) in any order; None: the times of the fit. Later times are forecasts.
        return_std
            Also return the standard deviation. At a gap its part from inside the run is exact; the
            part from other gaps is estimated from `n_variance_samples` draws.
        latent
            Leave the noise out.

        Returns
        -------
        Any
            In the form of the data: a `DataArray` of the mean, or a `Dataset` with `mean` and
            `std`; wide tables; or an array (a, b), with `return_std` a pair of arrays.
        """
        check_is_fitted(self)
        grid = self.grid(nodes, times)
        with named_exhaustion("predict"):
            mean, std = self.law_on_grid(grid.sites, grid.times, return_std, latent=latent)
        found = {"mean": mean} if std is None else {"mean": mean, "std": std}
        return self.panel_.restored(grid.labels, grid.times, **found)

    def predict_interval(  # type: ignore[override]
        self, nodes: Any = None, times: Any = None, level: float = 0.95
    ) -> Any:
        """Central intervals that hold an observation with the probability `level`.

        Parameters
        ----------
        nodes
            Labels (a,), all of the graph if left out; or, without times, a pair of labels (m,) and
            times (m,) of single points, None for those observed, sensor by sensor in the order of
            the fit.
        times
            Times (b,) in any order; those of the data if left out beside labels.
        level
            Probability in (0, 1); for single points it may be the second argument.

        Returns
        -------
        Any
            Lower and upper ends (a, b) in the form of the data: a `Dataset` with `lower` and
            `upper`, or a pair of tables or arrays. Of single points a pair of arrays (m,).

        Raises
        ------
        InvalidInputError
            `level` is not between 0 and 1, or a node or time is none of the model.
        """
        if isinstance(times, float) or (times is None and (nodes is None or _is_pair(nodes))):
            return super().predict_interval(nodes, level if times is None else times)
        check_is_fitted(self)
        grid = self.grid(nodes, times)
        with named_exhaustion("predict"):
            ends = self.quantiles_on_grid(grid.sites, grid.times, interval_ends(level))
        return self.panel_.restored(grid.labels, grid.times, lower=ends[..., 0], upper=ends[..., 1])

    def predict_frame(  # type: ignore[override]
        self, nodes: Any = None, times: Any = None, level: float = 0.95
    ) -> pd.DataFrame:
        """Predictive law of observations as a pandas data frame, a row for each node and time.

        Parameters
        ----------
        nodes, times
            Labels (a,) and times (b,), as in `predict`.
        level
            Probability in (0, 1) that an observation lies between `lower` and `upper`.

        Returns
        -------
        pandas.DataFrame
            Columns `mean`, `std`, `lower` and `upper`; the index has the levels `node` and `time`.

        Raises
        ------
        InvalidInputError
            `level` is not between 0 and 1, or a node or time is none of the model.
        MissingLibraryError
            pandas is not installed.
        """
        check_is_fitted(self)
        ends, grid = interval_ends(level), self.grid(nodes, times)
        with named_exhaustion("predict"):
            mean, std = self.law_on_grid(grid.sites, grid.times)
            bounds = self.quantiles_on_grid(grid.sites, grid.times, ends)
        assert std is not None
        node, time = np.indices(mean.shape).reshape(2, -1)
        stamps = self.time_axis_.labels(grid.times)
        index = {"node": [grid.labels[k] for k in node], "time": np.asarray(stamps)[time]}
        return law_frame(mean.ravel(), std.ravel(), bounds.reshape(-1, 2), index)

    def _picture(self, X: Any) -> Any:
        return sensor_series(self, X)

    def law_on_grid(
        self, sites: IntArray, stamps: FloatArray, with_std: bool = True, *, latent: bool = False
    ) -> tuple[FloatArray, FloatArray | None]:
        """Mean and standard deviation (a, b), units of y, at site numbers and times of the axis."""
        transform = self.transform_
        if transform is None:
            return self.modelled_law_on_grid(sites, stamps, with_std, latent)
        mean, std = self.modelled_law_on_grid(sites, stamps, True, latent)
        assert std is not None
        mean, variance = moments_back(transform, mean, std)
        return mean, np.sqrt(variance) if with_std else None

    def modelled_law_on_grid(
        self,
        sites: IntArray,
        stamps: FloatArray,
        with_std: bool = True,
        latent: bool = False,
        wanted: NDArray[np.bool_] | None = None,
    ) -> tuple[FloatArray, FloatArray | None]:
        """Mean and standard deviation (a, b) of the values, transformed if they are modelled so.

        Where `wanted` (a, b) is given, other cells may be NaN; times are rising then.
        """
        grid = Grid([], sites, stamps)
        mean, variance = self.days_process_.grid_law(
            grid.cells, with_std, latent=latent, wanted=wanted
        )
        mean = mean[:, grid.places]
        return mean, None if variance is None else np.sqrt(variance[:, grid.places])

    def quantiles_on_grid(
        self, sites: IntArray, stamps: FloatArray, probabilities: ArrayLike, *, latent: bool = False
    ) -> FloatArray:
        """Quantiles (a, b, q), units of y, at site numbers and times of the axis."""
        wanted = check_probabilities(probabilities, "probabilities")
        mean, std = self.modelled_law_on_grid(sites, stamps, True, latent)
        assert std is not None
        found = mean[..., None] + std[..., None] * special.ndtri(wanted)
        return found if self.transform_ is None else mapped_back(self.transform_, found)

    def forecast(
        self,
        ahead: Any,
        nodes: Any = None,
        return_std: bool = True,
        *,
        budget: float | str | None = None,
    ) -> Any:
        """Predictive law after the last time of the data.

        Parameters
        ----------
        ahead
            A duration such as `"1h"`, or a number in the unit of the times; every step of the axis
            up to it is forecast.
        nodes, return_std
            As in `predict`; the sensors if left out, in the order of the fit.
        budget
            Seconds and bytes that it may take, as the budget of a fit; None: a minute more than one
            step ahead, and the memory that is free. A longer forecast is refused before the work
            begins.

        Raises
        ------
        InvalidInputError
            An argument is invalid, or it takes more seconds by forecast than it may.
        MemoryLimitError
            It takes more memory than it may.
        """
        check_is_fitted(self)
        labels = self.nodes_ if nodes is None else nodes
        stamps = self.times_ahead(ahead, budget, self._labels.numbers(labels).size, return_std)
        return self.predict(labels, self.time_axis_.labels(stamps), return_std)

    def times_ahead(
        self,
        ahead: Any,
        budget: float | str | None = None,
        n_nodes: int | None = None,
        with_std: bool = True,
    ) -> FloatArray:
        """Times (b,) of the axis after the last one, step by step up to a duration.

        They are refused if the law of some nodes there, by default of the sensors, takes more than
        the budget, see `forecast`.
        """
        times = self.grid_process_.rows.times
        step = float(np.median(np.diff(times))) if times.size > 1 else 1.0
        count = self.time_axis_.steps(ahead, step, "ahead")
        p = self.grid_process_.rows.sensors.size if n_nodes is None else n_nodes
        limit = Budget.of(budget)
        process = self.days_process_
        needed = process.law_forecast(p, count, with_std)
        if limit.seconds is None:
            least = process.law_forecast(p, 1, with_std).seconds
            limit = replace(limit, seconds=least + FORECAST_SECONDS)
        what = f"laws of {p} nodes at {count:.4g} steps of {step:g} {self.time_axis_.unit}"
        advice = (
            "ask for a shorter time, fewer nodes, means alone, or some later times by "
            "predict(times=...)"
        )
        check_memory(needed.bytes, f"ahead: {what}", advice)
        limit.check(needed, what, advice)
        return np.asarray(times[-1] + step * np.arange(1, count + 1))

    def sample_y(  # type: ignore[override]
        self,
        nodes: Any = None,
        times: Any = None,
        n_samples: int = 1,
        random_state: Any = 0,
        *,
        latent: bool = False,
    ) -> Any:
        """Draw from the posterior, jointly at nodes and times.

        Returns
        -------
        Any
            Draws (a, b, n_samples), in the form of the data.
        """
        check_is_fitted(self)
        check_positive_int(n_samples, "n_samples")
        process, grid = self.days_process_, self.grid(nodes, times)
        rng = np.random.default_rng(draw_seed(random_state))
        with named_exhaustion("sample"):
            if isinstance(process, UsualDayGP):
                drawn = self._drawn(process, grid, n_samples, rng, latent)
            else:
                found = process.posterior.draws(grid.cells, n_samples, rng)[:, :, grid.places]
                if not latent:
                    noise = process.parameters.noise * process.scales.at(grid.sites)
                    found = found + np.sqrt(noise)[:, None] * rng.standard_normal(found.shape)
                drawn = process.units.offset[0] + process.units.scale[0] * np.moveaxis(found, 0, 2)
        if self.transform_ is not None:
            drawn = mapped_back(self.transform_, drawn)
        return self.panel_.restored(grid.labels, grid.times, sample=drawn)

    @staticmethod
    def _drawn(
        process: UsualDayGP, grid: Grid, n_samples: int, rng: np.random.Generator, latent: bool
    ) -> FloatArray:
        """Draws (a, b, n_samples) at a grid, its times in any order."""
        sites, times = grid.cells.sites, grid.cells.times
        points = np.column_stack([np.repeat(sites, times.size), np.tile(times, sites.size)])
        drawn = process.sample(points.astype(np.float64), n_samples, rng, latent=latent)[:, 0]
        return drawn.reshape(sites.size, times.size, n_samples)[:, grid.places]

    def log_density(  # type: ignore[override]
        self, nodes: Any, times: Any, values: ArrayLike
    ) -> FloatArray:
        """Log predictive density (m,), nats, of values (m,) at nodes (m,) and times (m,)."""
        return super().log_density((nodes, times), values)

    def components(self, nodes: Any = None, times: Any = None) -> dict[str, Any]:
        """Means of the terms by name, in units of y, in the form of the data.

        They are deviations from the mean of all values, which is under `"mean"` as a number; the
        sum of all is the mean of the function. With a transform they are in its units.
        """
        check_is_fitted(self)
        process, grid = self.grid_process_, self.grid(nodes, times)
        labels = self._labels.labels(grid.sites)
        found: dict[str, Any] = {"mean": float(process.units.offset[0])}
        days = self.days_process_
        if isinstance(days, UsualDayGP) and days.usual is not None:
            part = days.usual_at(grid.sites, grid.times)[0]
            found[DAY] = self.panel_.restored(labels, grid.times, **{"mean": part})
        for number, name in enumerate(term_names(process.parameters.terms)):
            where = process.parameters.terms[number].where
            graph, node = ((number,), ()) if where == "graph" else ((), (number,))
            alpha = process.posterior.alpha[None]
            part = process.posterior.term_means(grid.cells, graph, node, alpha)[0]
            values = process.units.scale[0] * part[:, grid.places]
            found[name] = self.panel_.restored(labels, grid.times, **{"mean": values})
        return found

    def day_profile(self, nodes: Any = None, kind: str = "working day") -> DayProfile:
        """The usual day of sensors that a further day of a kind would have.

        Parameters
        ----------
        nodes
            Labels (a,) of sensors; None: all.
        kind
            `"working day"`, `"weekend"` or `"holiday"`.

        Returns
        -------
        DayProfile
            Means in units of y, transformed if values are, and their standard deviations.

        Raises
        ------
        InvalidInputError
            The model has no usual day, a node is no sensor, or the kind is unknown.
        """
        check_is_fitted(self)
        check_choice(kind, KINDS, "kind")
        process = self.days_process_
        if not isinstance(process, UsualDayGP) or process.usual is None or process.field is None:
            raise InvalidInputError(
                f"model: expected one with a usual day, got none ({self.method_reason_})"
            )
        usual, sensors = process.usual, process.field.sensors
        labels = self.nodes_ if nodes is None else list(nodes)
        sites = self._labels.numbers(labels)
        rows = np.minimum(np.searchsorted(sensors, sites), sensors.size - 1)
        lacking = np.flatnonzero(sensors[rows] != sites)
        if lacking.size:
            raise InvalidInputError(
                f"nodes: expected sensors of the fit, got {labels[int(lacking[0])]!r}"
            )
        mean, variance = usual.profile(kind)
        seconds = SECONDS_OF_DAY * np.arange(usual.n_steps) / usual.n_steps
        return DayProfile(
            labels, seconds, mean[rows], np.sqrt(variance[rows]), usual.days_by_kind[kind]
        )

    def leave_one_sensor_out(self, most: int | None = None) -> SensorTable:
        """Laws of the values of each sensor given all other sensors, with scores.

        Parameters
        ----------
        most
            Number of sensors, of which each costs two to three products with the inverse
            covariance; None: all. Some are spread evenly over the ranks of a first estimate of the
            errors, which neglects that gaps of other sensors change; and those that deviate all the
            time by that estimate are among them.

        Notes
        -----
        Hyperparameters are those of all sensors. Where the covariance of the sensors was learned,
        laws are those under the kernel: nothing would be learned of a sensor that was not there.
        Its usual day is the regression on that of the others, and dynamics have no part.
        Means are solved for to a residual of 1e-3 of the change that leaving out makes; variances
        are those far from the ends of the series.
        """
        check_is_fitted(self)
        if most is not None:
            check_positive_int(most, "most")
        process = self.grid_process_
        nodes = self._labels.labels(process.rows.sensors)
        with named_exhaustion("leave_one_sensor_out"), self._reporter("sensors") as report:
            posterior = process.under_kernel().posterior
            rows = np.arange(len(nodes))
            if most is not None and most < rows.size:
                first = self._sensors_out(first_left_out(posterior), rows)
                rows = np.sort(spread_sensors(first, nodes, most))
            found = sensors_left_out(posterior, rows, report)
        return self._sensors_out(found, rows)

    def _sensors_out(self, found: SensorsLeftOut, rows: IntArray) -> SensorTable:
        """The table of sensors (m,) by their laws in normalised units."""
        process, days = self.grid_process_, self.days_process_
        offset, scale = float(process.units.offset[0]), float(process.units.scale[0])
        mean, variance = offset + scale * found.mean, scale**2 * found.variance
        values = process.rows.values[rows]
        if isinstance(days, UsualDayGP):
            known, of_known = (part[rows] for part in days.others_known())
            values = values + days.usual_at(process.rows.sensors[rows], process.rows.times)[0]
            mean, variance = mean + known, variance + of_known
        labels = self._labels.labels(process.rows.sensors[rows])
        return SensorTable.of(labels, values, mean, np.sqrt(variance), self.transform_)

    def with_variance_samples(self, n_draws: int) -> Self:
        """Return the same model, whose variances are from another number of draws of the gaps.

        Parameters
        ----------
        n_draws
            Number of draws, at least 2. The part of a variance that gaps add is known to a relative
            error of `sqrt(2 / n_draws)`.
        """
        check_is_fitted(self)
        check_positive_int(n_draws, "n_draws", minimum=2)

        def changed(process: GaussianProcess) -> GaussianProcess:
            if isinstance(process, WrappedGP):
                return process.around(changed(process.inner))
            assert isinstance(process, GraphTimeGP)
            return process.with_draws(n_draws)

        found = clone(self).set_params(n_variance_samples=n_draws)
        return found.holding(replace(self.fitted_, process=changed(self.process_)))

    def prior_covariance(self, nodes: Any, times: Any) -> FloatArray:  # type: ignore[override]
        """Prior covariance (m, m) of f at nodes (m,) and times (m,), units of y squared."""
        return super().prior_covariance((nodes, times))


def _is_pair(nodes: Any) -> bool:
    """Whether nodes are a pair of labels (m,) and times (m,)."""
    return isinstance(nodes, (tuple, list)) and len(nodes) == 2 and np.ndim(nodes[0]) == 1
