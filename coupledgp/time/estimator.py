"""Gaussian process regression of values at sites of a graph over time."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from coupledgp.core.options import estimator
from coupledgp.core.process import Data, GaussianProcess
from coupledgp.core.stored import MODEL_CLASSES, FittedModel
from coupledgp.core.transformed import TransformedGP
from coupledgp.core.transforms import Counts, TargetTransform
from coupledgp.core.wrapped import innermost
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.graphs.observations import informative_rows, warn_of_small
from coupledgp.ground.memory import named_exhaustion
from coupledgp.ground.progress import reporter, tell
from coupledgp.ground.threads import suited_threads
from coupledgp.ground.validation import check_choice, check_positive_int, check_sizes
from coupledgp.ground.visible import warn
from coupledgp.random import FloatArray, IntArray
from coupledgp.tables.members import is_auto
from coupledgp.time.answers import SpaceTimeAnswers
from coupledgp.time.axis import TimeAxis
from coupledgp.time.law import Posterior, fitted_law, started, units_of
from coupledgp.time.panel import Panel, as_panel, missing_numbers
from coupledgp.time.places import correlations_of, fitted_places, kernel_of, neighbours_of
from coupledgp.time.process import SensorsGP, kept_steps
from coupledgp.time.sites import SiteLabels, Sites, as_domain, sites_of
from coupledgp.time.usual_day import (
    FittedDay,
    UsualDay,
    days_of,
    fitted_usual_day,
    joined,
    steps_of_day,
    usual_day_of,
)

# Fewest times of a fit.
LEAST_TIMES = 3
# Transform of values that are counts, and none of others.
IF_COUNTS = "if-counts"
TRANSFORMS = (IF_COUNTS, "counts")
# Values are counts if this quantile is below this share of their mean.
LOW_QUANTILE, FAR_BELOW = 0.05, 0.25


@estimator
class GraphTimeGPRegressor(SpaceTimeAnswers):
    """Values of sensors at the nodes of a graph over time, with gaps.

    `y(i, t) = m_i(t) + level_i + sd_i x_it`: m a usual day, x a Gaussian vector autoregression of
    twelve lags, `x_t = sum_g A_g h_tg + e_t`, with own, neighbours' and all sensors' coefficients
    for groups g of lags; its variances move with level and volatility. Gaps have their exact
    conditional law, by the precision matrix of x. Other nodes have the law of a graph kernel, each
    step alone. See docs/space_time.md.

    Parameters
    ----------
    graph
        A `Graph` or networkx graph, whose kernel has no directions; or a `LaplaceOperator` of a
        road network with lengths or of a mesh, or a triangle mesh, whose vertices are the nodes.
    kernel
        Kernel of the nodes: of a graph as `GraphGPRegressor` takes it, but `"auto"`; of an operator
        `"matern"` (with a range in units of length) or a graph kernel.
    usual_day
        `True`: values are about a usual day of each sensor, with the kinds of days working day,
        weekend and holiday, and days of the week; from two whole days of timestamps on. Past days
        have the mean of the other days. `"auto"`: where the squared error of days left out falls by
        3 % and by two standard errors.
    holidays
        Dates of holidays, a kind of day of their own, such as `["2024-12-25"]`.
    target_transform
        `"counts"`: the law is that of `2 sqrt(y + 3/8)`. `"if-counts"`: where values are whole
        numbers of which many are far below their mean. None: none.
    missing_values
        A number, or several, that stands for a gap, such as 0 or `[0, -1]`, beside NaN.
    window
        Number of the last steps that `partial_fit` keeps, up to a fourth more, so that its cost
        does not grow; None: all.

    Attributes
    ----------
    kernel_
        Fitted kernel of the nodes.
    nodes_, time_axis_
        Labels of the sensors in the order of the fit, which forecasts and tables of sensors have
        too, and the axis of times.
    gaps_, outliers_
        Missing cells of the data, and observations far from their law.
    log_marginal_likelihood_value_
        Log density of the values in their units.
    usual_day_share_
        Share of the variance within days by part (all days, kind of day, weekday, day itself); None
        without a usual day.
    method_reason_
        What the law is made of, and why.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> road = cgp.Graph.from_edges(range(5), range(1, 6))
    >>> times = np.datetime64("2026-03-02T06:00") + np.arange(60) * np.timedelta64(5, "m")
    >>> speeds = 50 + np.cumsum(np.random.default_rng(0).normal(size=(4, 60)), axis=1)
    >>> speeds[1, 20:30] = np.nan  # a gap
    >>> model = cgp.GraphTimeGPRegressor(road, progress=False)
    >>> mean, std = model.fit([0, 2, 3, 5], speeds, times=times).forecast("15min")
    >>> mean.shape
    (4, 3)
    """

    graph: Any
    kernel: Any = "matern"
    _: KW_ONLY
    usual_day: Any = "auto"
    holidays: Any = None
    target_transform: str | None = IF_COUNTS
    missing_values: Any = None
    window: int | None = None

    def fit(
        self,
        data: Any,
        *further: Any,
        times: Any = None,
        values: Any = None,
        resolution: Any = None,
        zone: str | None = None,
    ) -> Self:
        """Find the law of the sensors and condition on their values.

        `fit(array)`, `fit(table)`, `fit(nodes, Y, times=t)` and `fit(nodes, times, values)` are the
        forms of the data. NaN is a gap.

        Parameters
        ----------
        data
            An `xarray.DataArray` of nodes and times; a wide table, rows times and columns nodes; or
            labels of nodes, (p,) beside values (p, n), or (m,) of a long table.
        further
            Values (p, n); or times (m,) and values (m,) of a long table. They may be named.
        times
            Times (n,) of the columns of values (p, n), or (m,) of a long table.
        values
            See `further`.
        resolution
            A duration to which times are rounded; values of one cell are averaged.
        zone
            Time zone of times that have none, such as `"Europe/Paris"`. Of the hour that comes
            twice when clocks are set back the first one in the order of rows is summer time.

        Raises
        ------
        InvalidInputError
            A parameter or the data are invalid, a node is unknown, or times are on no regular grid.

        Warns
        -----
        UserWarning
            Nodes without any value are left out, times were moved to a grid, a number far outside
            of all others is repeated, a sensor stands still for a day, or components with few
            sensors tell nothing of the kernel.
        ConvergenceWarning
            The recursion is such that disturbances do not die out.
        """
        return self._assigned(
            lambda: self._fit(self._read(data, further, times, values, resolution, zone))
        )

    def refitted(
        self,
        data: Any,
        *further: Any,
        times: Any = None,
        values: Any = None,
        resolution: Any = None,
        zone: str | None = None,
    ) -> Self:
        """Return the model fitted to other values, with the transform and the ridge of this fit.

        Parameters
        ----------
        data, further, times, values, resolution, zone
            As in `fit`.

        Raises
        ------
        InvalidInputError
            The data are invalid, or a node is unknown.
        """
        check_is_fitted(self)
        with named_exhaustion("refitted"):
            panel = self._read(data, further, times, values, resolution, zone)
            return clone(self).holding(clone(self)._fit(panel, self))

    def _read(
        self, data: Any, further: tuple[Any, ...], times: Any, values: Any, resolution: Any,
        zone: str | None,
    ) -> Panel:  # fmt: skip
        """The panel of the arguments of `fit`, given by name or, after the data, by position."""
        if len(further) > 2:
            raise InvalidInputError(
                f"data: expected nodes, times and values at most, got {len(further) + 1} arguments"
            )
        given = {"times": times, "values": values}
        free = [name for name, value in given.items() if value is None]
        if len(further) > len(free):
            name = next(name for name in given if name not in free)
            raise InvalidInputError(f"{name}: expected it once, got it by place and by name")
        if len(further) == 1 and free == ["times", "values"]:
            free = ["times"]
        given |= dict(zip(free, further, strict=False))
        return as_panel(
            data, given["times"], given["values"], resolution, self.missing_values, zone
        )

    def _fit(self, panel: Panel, kept: Self | None = None) -> FittedModel:
        sites = sites_of(self.graph, self.kernel)
        labels = SiteLabels(as_domain(self.graph))
        rows = rows_of(panel, labels)
        member = sites.components()[rows.sensors]
        warn_of_small(informative_rows(member, rows.sensors), member, "nodes")
        with suited_threads(panel.values, self.graph), reporter("fit", self.progress):
            transform = self._transform(rows.values) if kept is None else kept.transform_
            values = rows.values
            if transform is not None:
                there = ~np.isnan(values)
                values = np.full(values.shape, np.nan)
                values[there] = transform.forward(transform.check(rows.values[there]))
            ridge = None if kept is None else kept.grid_process_.law_.ridge
            found, reason = self._law(sites, rows, values, panel.axis, ridge)
        if not found.law_.is_stable:
            warn(
                "times: disturbances grow from step to step; forecasts far ahead mean nothing",
                ConvergenceWarning,
            )
        process: GaussianProcess = found
        if transform is not None:
            data = found.data
            targets = rows.values[found.observed][:, None]
            process = TransformedGP.of(found, (transform,), Data.of(data.points, targets))
        results = {"panel": panel, "sensors": labels.numbers(panel.nodes), "reasons": reason}
        return FittedModel(process, 1, results)

    def _law(
        self, sites: Sites, rows: Rows, values: FloatArray, axis: TimeAxis, ridge: float | None,
    ) -> tuple[SensorsGP, str]:  # fmt: skip
        """The law of values (p, n), NaN in gaps, and why it has a usual day or none."""
        observed, sensors, holidays = ~np.isnan(values), rows.sensors, days_of(self.holidays)
        known = np.where(observed, values, 0.0)
        day, reason = self._day(known, observed, axis, holidays)
        past = np.zeros(values.shape)
        if day is not None:
            past = day.means(axis.values) - day.levels[:, None]
        level, scale = (part[:, None] for part in units_of(known - past, observed))
        x = joined((known - past - level) / scale, observed)
        at = kept_steps(observed)
        x, seen = x[:, at], observed[:, at]
        tell("gaps")
        near = kernel_of(sites, sensors, x @ x.T / x.shape[1]).sites
        K, W = correlations_of(near, sensors), neighbours_of(near, sensors)
        x = started(x, seen, K)
        filled = known - past
        filled[:, at] = np.where(seen, filled[:, at], level + scale * x)
        if day is not None and not observed.all():
            lacking = np.ones(axis.n_times, dtype=bool)
            lacking[at] = False
            there = observed | ~lacking
            again = joined(filled, there)
            day = usual_day_of(day.axis, again + past, axis.values, holidays) or day
            new = day.means(axis.values) - day.levels[:, None]
            filled, past = filled + past - new, new
        law = fitted_law(sensors, filled[:, at], seen, past[:, at], W, K, ridge)
        posterior = Posterior(law, law.standardized(filled[:, at]), seen, past[:, at])
        tell("nodes without a sensor")
        x = posterior.gap_law[0]
        y = law.level[:, None] + past[:, at] + law.scale[:, None] * x
        places = fitted_places(sites, sensors, y)
        found = SensorsGP(law, places, day, past, axis.values, values, self.window)
        vars(found)["posterior"] = posterior
        return found, reason

    def _day(
        self, values: FloatArray, observed: Any, axis: TimeAxis, holidays: tuple[int, ...]
    ) -> tuple[UsualDay | None, str]:
        """The usual day of values (p, n) with gaps if it is wanted and worth it, and why."""
        if self.usual_day is False:
            return None, "usual_day=False"
        found = FittedDay(None)
        if steps_of_day(axis, axis.values) is not None:
            found = fitted_usual_day(axis, values, observed, axis.values, holidays)
        if found.usual is None:
            if self.usual_day is True:
                raise InvalidInputError(
                    "usual_day: expected two whole days of timestamps on a grid of which a day has "
                    f"a whole number of steps, 8 or more, got {axis.n_times} times"
                )
            return None, "no two whole days on a grid of timestamps"
        gain = f"squared errors of days left out fall by {found.gain:.1%} (+- {found.error:.1%})"
        if self.usual_day is True or found.is_worth_it:
            return found.usual, f"usual day: {gain}"
        return None, f"no usual day: {gain}"

    def _transform(self, values: FloatArray) -> TargetTransform | None:
        known = values[~np.isnan(values)]
        if self.target_transform is None:
            return None
        if self.target_transform == IF_COUNTS and not looks_like_counts(known):
            return None
        return Counts(0.5)

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.window is not None:
            check_positive_int(self.window, "window", minimum=2)
        if not (isinstance(self.usual_day, (bool, np.bool_)) or is_auto(self.usual_day)):
            raise InvalidInputError(
                f"usual_day: expected True, False or 'auto', got {self.usual_day!r}"
            )
        missing_numbers(self.missing_values)
        if self.target_transform is not None:
            check_choice(self.target_transform, TRANSFORMS, "target_transform")

    def partial_fit(
        self,
        data: Any,
        *further: Any,
        times: Any = None,
        values: Any = None,
        resolution: Any = None,
        zone: str | None = None,
    ) -> Self:
        """Add values, parameters kept; the first call is `fit`.

        The law is that of all values. A value for a cell that has one already is refused, as is one
        of a node that had none in the fit.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(
                data, *further, times=times, values=values, resolution=resolution, zone=zone
            )
        with warnings.catch_warnings():
            # That a sensor does not report for a step is no news.
            warnings.filterwarnings("ignore", "nodes: .* without any value")
            panel = self._read(data, further, times, values, resolution, zone)
        with named_exhaustion("partial_fit"):
            numbers = self._labels.numbers(panel.nodes)
            stamps = self.time_axis_.numbers(panel.axis.labels(panel.axis.values))
            rows, columns = np.nonzero(~np.isnan(panel.values))
            points = np.column_stack([numbers[rows], stamps[columns]]).astype(np.float64)
            return self._updated(Data.of(points, panel.values[rows, columns][:, None]))

    def _plain(self, name: str, value: Any) -> Any:
        if name == "graph":
            return self.grid_process_.places.sites.domain
        if name == "kernel":
            return value if isinstance(value, str) else type(value).__name__
        if name == "holidays" and value is not None:
            several = not isinstance(value, str) and hasattr(value, "__iter__")
            return [str(v) for v in value] if several else str(value)
        if name == "missing_values" and value is not None:
            return missing_numbers(value).tolist()
        return super()._plain(name, value)

    def _stored_results(self) -> dict[str, Any]:
        return {"axis": self.time_axis_, "sensors": self.fitted_.results["sensors"]}

    def check_restored(self) -> None:
        process, results = innermost(self.process_), self.fitted_.results
        if not isinstance(process, SensorsGP) or not isinstance(results.get("axis"), TimeAxis):
            raise ModelFileError("process: expected sensors over time, got another process")
        if not np.array_equal(np.sort(results["sensors"]), process.law_.sensors):
            raise ModelFileError("sensors: expected each sensor once, got others")


MODEL_CLASSES["GraphTimeGPRegressor"] = GraphTimeGPRegressor


class Rows(NamedTuple):
    """Rising sites (p,) of the sensors, and their values (p, n)."""

    sensors: IntArray
    values: FloatArray


def rows_of(panel: Panel, labels: SiteLabels) -> Rows:
    """The values of a panel by rising sites.

    Raises
    ------
    InvalidInputError
        A node comes twice, or times are on no regular grid.
    """
    numbers = labels.numbers(panel.nodes)
    order = np.argsort(numbers, kind="stable")
    rising = numbers[order]
    same = np.flatnonzero(np.diff(rising) == 0)
    if same.size:
        label = panel.nodes[order[same[0]]]
        raise InvalidInputError(f"nodes: expected each node once, got {label!r} twice")
    if panel.axis.n_times < LEAST_TIMES:
        raise InvalidInputError(
            f"times: expected {LEAST_TIMES} times or more, got {panel.axis.n_times}"
        )
    check_sizes(np.diff(panel.axis.values), "times: steps")
    if panel.axis.step is None:
        raise InvalidInputError(
            "times: expected a regular grid, got steps of "
            f"{np.diff(panel.axis.values).min():.4g} to {np.diff(panel.axis.values).max():.4g} "
            f"{panel.axis.unit}; resolution= rounds times to one"
        )
    return Rows(rising, panel.values[order])


def looks_like_counts(values: FloatArray) -> bool:
    """Whether values (n,) are whole numbers from zero on of which many are far below the mean.

    Rounded measurements, such as speeds, are whole numbers too, but stay near their mean.
    """
    if not values.size or values.min() < 0 or (values != np.round(values)).any():
        return False
    return bool(np.quantile(values, LOW_QUANTILE) < FAR_BELOW * values.mean())
