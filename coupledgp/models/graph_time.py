"""Gaussian process regression of values at sites of a graph over time."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.gp.graph_time import GraphTimeGP, SpaceTimeSettings
from coupledgp.gp.graph_time_prior import SpaceTimeRows, informative_sensors, units_of
from coupledgp.gp.protocol import Arrays, Data, GaussianProcess, Header
from coupledgp.gp.schema import Entries, axis_from, axis_state
from coupledgp.gp.transformed import TransformedGP
from coupledgp.gp.transforms import TARGET_TRANSFORMS, Counts, Identity, TargetTransform
from coupledgp.gp.units import Units
from coupledgp.gp.usual_days import UsualDayGP
from coupledgp.gp.wrapped import innermost
from coupledgp.graphs.directions import read_directions
from coupledgp.ground.memory import named_exhaustion
from coupledgp.ground.progress import Progress, reporter
from coupledgp.ground.threads import suited_threads
from coupledgp.ground.validation import check_choice, check_positive, check_positive_int
from coupledgp.ground.visible import warn
from coupledgp.inference.nodes.groups import warn_of_small
from coupledgp.inference.space_time.dynamics import SensorDynamics
from coupledgp.inference.space_time.learned_sites import under_kernel
from coupledgp.inference.space_time.site_labels import SiteLabels
from coupledgp.inference.space_time.sites import Sites, as_domain, domain_of, sites_of
from coupledgp.inference.space_time.whittle import SpaceTimeParameters
from coupledgp.kernels.time import Matern12, Matern32, TimeKernel, TimeKernelLike, parse_time_kernel
from coupledgp.models.graph_time_laws import SpaceTimeLaws
from coupledgp.models.graph_time_parts import (
    no_outliers,
    observations,
    read_panel,
    restored_grid,
    results_of,
    rows_of,
    transformed_rows,
)
from coupledgp.models.options import estimator
from coupledgp.models.stored import FittedModel, restored_parameters, restored_results
from coupledgp.models.tables import TransformLike
from coupledgp.random import IntArray, draw_seed
from coupledgp.search.space_time.days import (
    DayOptions,
    days_of,
    filled_values,
    found_dynamics,
    found_usual_day,
    refined,
)
from coupledgp.search.space_time.fitter import (
    FittedSpaceTime,
    SpaceTimeModel,
    fit_space_time,
)
from coupledgp.search.space_time.transforms import (
    TransformSearch,
    candidates,
    chosen_transform,
    looks_like_counts,
)
from coupledgp.selection.members import is_auto
from coupledgp.series import Panel

OUTLIER_CHOICES = ("reject", "student-t")
SENSOR_NOISE = ("shared", "own")
# Parameters that are True, False or "auto".
TRUTHS = ("usual_day", "dynamics", "spread")
RESULTS_OF_SEARCH = ("n_rounds_", "n_evaluations_", "converged_")
SENSOR_COVARIANCES = ("kernel", "learned")
# Transform of values that are counts, and none of others.
IF_COUNTS = "if-counts"


@estimator
class GraphTimeGPRegressor(SpaceTimeLaws):
    """Gaussian process of values at the nodes of a graph over time, with gaps.

    `y(i, t) = m + f(i, t) + e`, `f = sum_c f_c`, `cov f_c = v_c B_c (x) k_c`: values that move
    along the graph (B a graph kernel, k a Matern kernel of time), the usual value of each node (B
    the graph kernel, k constant), and a part of each sensor alone (B = I), about a usual day.
    Complete data are independent Kalman smoothers in the eigenvectors of the sensors' covariance;
    gaps are unknowns that conjugate gradients solve for. Hyperparameters have the greatest
    evidence, found from draws of the gaps by the debiased Whittle likelihood (Sykulski et al.
    2019). See docs/space_time.md.

    Parameters
    ----------
    graph
        A `Graph` or networkx graph, whose kernel has no directions; or a `LaplaceOperator` of a
        road network with lengths or of a mesh, or a triangle mesh, whose vertices are the nodes.
    kernel
        Kernel of the nodes: of a graph as `GraphGPRegressor` takes it, but `"auto"`; of an operator
        `"matern"` (with a range in units of length) or a graph kernel.
    time_kernel
        Kernel of the part that moves: `"matern-1/2"`, `"matern-3/2"`, a `TimeKernel`, or `"auto"`,
        the Matern kernel of the two with greater evidence.
    node_effects
        Whether sensors have terms of their own.
    noise
        Noise variance in units of y squared, kept; None: fitted.
    target_transform
        A transform of the values before all else, as `GPRegressor` takes it: `"yeo-johnson"`,
        `"log"`, ..., with the shape of greatest evidence; `"auto"`: that of Yeo and Johnson, or of
        counts if no value is negative, where its evidence is greater, else none. `"if-counts"`:
        that of counts where values are whole numbers of which many are far below their mean and its
        evidence is greater, else none. None: none. Variances in `terms_` and `noise_` are of
        transformed values then. Skewed values, such as speeds, have better laws with a transform;
        means at single missing values may be a little worse (docs/space_time.md).
    sensor_noise
        `"shared"`, or `"own"`: the variances of the noise and of the own terms of each sensor are
        multiplied by a number D_i that is fitted, of geometric mean one.
    sensor_covariance
        `"learned"`: after the search the covariance of the sensors is learned from their values,
        near the kernel's covariance; the other hyperparameters do not change. Other nodes have,
        given the sensors, the law of the kernel. The learned covariance is used only if each half
        of the times, of 32 steps or more, predicts the other half better (`process_.sites`), on
        regular axes and for at most 1500 sensors. `"kernel"`: the covariance of the kernel.
    outliers
        `"reject"`: observations farther than four standard deviations from their law given the
        others are left out, and hyperparameters found anew, in up to four rounds. `"student-t"`:
        noise of Student's law of 4 degrees of freedom, by weights, with the hyperparameters of the
        Gaussian law. None: outliers are only counted (`outliers_`).
    usual_day
        `True`: values are about a usual day of each sensor, with the kinds of days working day,
        weekend and holiday, and days of the week; from two whole days of timestamps on. Past days
        have the mean of the other days. `"auto"`: where the squared error of days left out falls by
        1 %.
    dynamics
        `True`: gaps of sensors and their later steps have the law of a vector autoregression about
        the usual day, with own, neighbours' and all sensors' lags; for 4 to 600 sensors on a
        regular axis of 200 steps or more, and no fewer than sensors. `"auto"`: where the log
        density of values one step ahead, left out, is greater than that of the separable law.
    spread
        Whether variances of the dynamics move with level and volatility, forecasts bend by level
        and last value, and other sensors have a share in gaps, all fitted to errors left out;
        `"auto"` is `True`.
    holidays
        Dates of holidays, a kind of day of their own, such as `["2024-12-25"]`.
    directions
        Ways along which values move: a directed networkx graph over the labels, with traffic counts
        or shares at junctions as the attribute `"count"` of its edges; or a matrix (n_nodes,
        n_nodes) of counts from rows to columns. The dynamics then have lags of the next sensors
        upstream and downstream, with coefficients of their own, where errors left out fall by more
        than chance (`method_reason_`). None: those of `graph`, if it is a directed networkx graph,
        and else none. A file does not hold them, but the fitted dynamics.
    n_variance_samples
        Draws of the gaps, from which their part of variances is estimated.
    window
        Number of the last steps that `partial_fit` keeps, so that its cost does not grow; None:
        all.
    random_state
        Seed of draws.

    Attributes
    ----------
    kernel_
        Fitted kernel of the nodes.
    terms_
        Terms with time kernels (lengthscales in the unit of the time axis, seconds for timestamps)
        and variances in units of y squared.
    noise_
        Noise variance in units of y squared.
    sensor_scales_
        Relative variances D (p,) of the sensors, in the order of `nodes_`.
    nodes_, time_axis_
        Labels of the sensors in the order of the fit, which forecasts and tables of sensors have
        too, and the axis of times.
    gaps_, outliers_
        Missing cells of the data, and observations far from their law.
    log_marginal_likelihood_value_, log_marginal_likelihood_error_
        Log evidence of the values in their units, and its standard error.
    usual_day_share_
        Share of the variance within days by part (all days, kind of day, weekday, day itself); None
        without a usual day.
    n_rounds_, n_evaluations_, converged_, n_iterations_
        Rounds and evaluations of the search, whether its last round gained less than one nat, and
        steps of conjugate gradients of the mean.
    method_, method_reason_
        How the law is computed, and why.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> road = cgp.Graph.from_edges(range(5), range(1, 6))
    >>> times = np.datetime64("2026-03-02T06:00") + np.arange(60) * np.timedelta64(5, "m")
    >>> speeds = 50 + np.cumsum(np.random.default_rng(0).normal(size=(4, 60)), axis=1)
    >>> speeds[1, 20:30] = np.nan  # a gap
    >>> model = cgp.GraphTimeGPRegressor(road, random_state=0, progress=False)
    >>> mean, std = model.fit([0, 2, 3, 5], speeds, times=times).forecast("15min")
    >>> mean.shape
    (4, 3)
    """

    graph: Any
    kernel: Any = "matern"
    time_kernel: TimeKernelLike = "matern-1/2"
    node_effects: bool = True
    noise: float | None = None
    _: KW_ONLY
    target_transform: TransformLike = IF_COUNTS
    sensor_noise: str = "shared"
    sensor_covariance: str = "learned"
    outliers: str | None = None
    usual_day: Any = "auto"
    dynamics: Any = "auto"
    spread: Any = "auto"
    holidays: Any = None
    directions: Any = None
    normalize_y: bool = True
    n_variance_samples: int = 64
    window: int | None = None
    random_state: Any = 0

    _stored: ClassVar[tuple[str, ...]] = RESULTS_OF_SEARCH

    def fit(
        self,
        data: Any,
        *further: Any,
        times: Any = None,
        values: Any = None,
        resolution: Any = None,
    ) -> Self:
        """Find hyperparameters and condition on the values.

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

        Raises
        ------
        InvalidInputError
            A parameter or the data are invalid, or a node is unknown.

        Warns
        -----
        UserWarning
            Nodes without any value are left out, times were moved to a grid, or components with few
            sensors tell nothing of hyperparameters.
        ConvergenceWarning
            The last round of the search still found better hyperparameters, or the dynamics are
            such that disturbances do not die out.
        """
        return self._assigned(
            lambda: self._fit(read_panel(data, further, times, values, resolution))
        )

    def refitted(
        self,
        data: Any,
        *further: Any,
        times: Any = None,
        values: Any = None,
        resolution: Any = None,
    ) -> Self:
        """Return the model fitted to other values, with hyperparameters of this fit.

        Kept are lengthscales, variances relative to that of the values, the transform, the ridge of
        the dynamics and their law in gaps: some thirty numbers. What is learned of single sensors
        is learned anew: their covariance, usual days, dynamics and variances. It takes about a
        third of a fit.

        Parameters
        ----------
        data, further, times, values, resolution
            As in `fit`; times are of the same kind as those of the fit.

        Raises
        ------
        InvalidInputError
            The data are invalid, or a node is unknown.
        """
        check_is_fitted(self)
        with named_exhaustion("refitted"):
            panel = read_panel(data, further, times, values, resolution)
            return clone(self).holding(clone(self)._fit(panel, self))

    def _fit(self, panel: Panel, kept: Self | None = None) -> FittedModel:
        sites = sites_of(self.graph, self.kernel)
        settings = self._settings()
        labels = SiteLabels(as_domain(self.graph))
        rows = rows_of(panel, labels)
        model = self._model(settings.seed)
        options = self._day_options(settings.seed, labels, sites.n_sites)
        warn_of_small(informative_sensors(sites, rows), sites.components()[rows.sensors], "nodes")
        with suited_threads(panel.values, self.graph), reporter("fit", self.progress) as report:
            transform = (
                self._transform(sites, rows, model, report) if kept is None else kept.transform_
            )
            plain = rows if transform is None else transformed_rows(rows, transform)
            day = found_usual_day(plain, panel.axis, options)
            inner = plain if day.usual is None else replace(plain, values=plain.values - day.past)
            units = units_of(sites, inner, self.normalize_y)
            parameters = dynamics = None
            if kept is not None:
                parameters, units, dynamics = kept.parameters_for(rows.sensors)
                options = replace(options, dynamics=dynamics is not None and "auto")
            found = fit_space_time(
                sites, inner, units, self.normalize_y, model, settings, report, parameters
            )
            grid, later = refined(found.process, day, options)
            start = filled_values(found.process) + day.past - later.past
            moving = found_dynamics(found.process, start, later.past, options, report, dynamics)
        process: GaussianProcess = grid
        if later.usual is not None or moving.dynamics is not None:
            process = UsualDayGP.of(
                grid, observations(grid, plain), later.usual, later.past, moving.dynamics,
                moving.errors,
            )  # fmt: skip
        self._warn_of(found, moving.dynamics)
        if transform is not None:
            process = TransformedGP.of(process, (transform,), observations(grid, rows))
        results = results_of(found, panel, labels)
        results["reasons"] = f"{day.reason}; {moving.reason}"
        return FittedModel(process, 1, results)

    def parameters_for(
        self, sensors: IntArray
    ) -> tuple[SpaceTimeParameters, Units, SensorDynamics | None]:
        """Hyperparameters for some sensors (p,), the units that they are in, and the dynamics."""
        process, days = self.grid_process_, self.days_process_
        point = replace(
            process.parameters, theta=under_kernel(process.sites).theta,
            roots=np.sqrt(process.scales.at(sensors)),
        )  # fmt: skip
        return point, process.units, days.dynamics if isinstance(days, UsualDayGP) else None

    def _transform(
        self, sites: Sites, rows: SpaceTimeRows, model: SpaceTimeModel, report: Progress
    ) -> TargetTransform | None:
        """The transform of the values, its shape of greatest evidence; None: there is none."""
        asked, values = self.target_transform, rows.values[rows.observed]
        if isinstance(asked, str) and asked == IF_COUNTS:
            if self.noise is not None or not looks_like_counts(values):
                return None
            found = chosen_transform([Counts()], sites, rows, model, report)
            return None if isinstance(found, Identity) else found
        if asked is None:
            return None
        if self.noise is not None:
            raise InvalidInputError(
                "noise: expected None beside target_transform, since it is in units of y and the "
                "noise is that of transformed values"
            )
        if is_auto(asked):
            return chosen_transform(candidates(values), sites, rows, model, report)
        given = TARGET_TRANSFORMS.parse(asked, "target_transform")
        given.check(values)
        return TransformSearch(sites, rows, model, report).shaped(given)

    def check_parameters(self) -> None:
        super().check_parameters()
        check_choice(self.sensor_noise, SENSOR_NOISE, "sensor_noise")
        check_choice(self.sensor_covariance, SENSOR_COVARIANCES, "sensor_covariance")
        if self.outliers is not None:
            check_choice(self.outliers, OUTLIER_CHOICES, "outliers")
        if self.noise is not None:
            check_positive(self.noise, "noise")
        if self.window is not None:
            check_positive_int(self.window, "window", minimum=2)
        check_positive_int(self.n_variance_samples, "n_variance_samples", minimum=2)
        for name in TRUTHS:
            value = getattr(self, name)
            if not (isinstance(value, (bool, np.bool_)) or is_auto(value)):
                raise InvalidInputError(f"{name}: expected True, False or 'auto', got {value!r}")
        if not (self.target_transform in (None, IF_COUNTS) or is_auto(self.target_transform)):
            TARGET_TRANSFORMS.parse(self.target_transform, "target_transform")
        self._time_kernels()

    def _time_kernels(self) -> tuple[TimeKernel, ...]:
        if isinstance(self.time_kernel, str) and self.time_kernel == "auto":
            return Matern12(), Matern32()
        return (parse_time_kernel(self.time_kernel),)

    def _settings(self) -> SpaceTimeSettings:
        return SpaceTimeSettings(
            self.n_variance_samples, window=self.window, seed=draw_seed(self.random_state)
        )

    def _day_options(self, seed: int, labels: SiteLabels, n_sites: int) -> DayOptions:
        chosen = {name: getattr(self, name) for name in TRUTHS}
        given, directions = self.directions, None
        if given is None and getattr(self.graph, "is_directed", bool)():
            given = self.graph
        if given is not None:
            directions = read_directions(given, labels.numbers, n_sites)
        holidays = days_of(self.holidays)
        return DayOptions(**chosen, holidays=holidays, seed=seed, directions=directions)

    def _model(self, seed: int) -> SpaceTimeModel:
        return SpaceTimeModel(
            self._time_kernels(), bool(self.node_effects), self.noise, self.sensor_noise == "own",
            self.outliers, seed, self.sensor_covariance == "learned",
        )  # fmt: skip

    def _warn_of(self, found: FittedSpaceTime, dynamics: SensorDynamics | None) -> None:
        if dynamics is not None and not dynamics.is_stable:
            warn(
                "dynamics: disturbances grow from step to step; forecasts far ahead mean nothing",
                ConvergenceWarning,
            )
        if not found.fit.converged:
            warn(
                f"round {found.fit.n_rounds} of the search still found better hyperparameters; its "
                "are used",
                ConvergenceWarning,
            )

    def partial_fit(
        self,
        data: Any,
        *further: Any,
        times: Any = None,
        values: Any = None,
        resolution: Any = None,
    ) -> Self:
        """Add values, hyperparameters kept; the first call is `fit`.

        With `window` steps before the last ones are dropped, so that the cost does not grow with
        the past. A value for a cell that has one already is refused.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(data, *further, times=times, values=values, resolution=resolution)
        with warnings.catch_warnings():
            # That a sensor does not report for a step is no news.
            warnings.filterwarnings("ignore", "nodes: .* without any value")
            panel = read_panel(data, further, times, values, resolution)
        with named_exhaustion("partial_fit"):
            return self._updated(self._data_of(panel))

    def _data_of(self, panel: Panel) -> Data:
        """Observations of a panel as points on the axis of the fit."""
        numbers = self._labels.numbers(panel.nodes)
        stamps = self.time_axis_.numbers(panel.axis.labels(panel.axis.values))
        there = ~np.isnan(panel.values)
        sensors, columns = np.nonzero(there)
        points = np.column_stack([numbers[sensors], stamps[columns]]).astype(np.float64)
        return Data.of(points, panel.values[there][:, None])

    def _plain(self, name: str, value: Any) -> Any:
        if name in ("kernel", "time_kernel"):
            return value if isinstance(value, str) else type(value).__name__
        if name == "holidays" and value is not None:
            several = not isinstance(value, str) and hasattr(value, "__iter__")
            return [str(v) for v in value] if several else str(value)
        if name in TRUTHS:
            return "auto" if is_auto(value) else str(bool(value))
        return super()._plain(name, value)

    def _state(self, include_data: bool) -> tuple[Header, Arrays]:
        header, arrays = super()._state(include_data)
        header["axis"] = axis_state(self.time_axis_)
        arrays["order"] = self._order
        return header, arrays

    @classmethod
    def from_state(cls, header: Header, arrays: Arrays) -> Any:
        """Return the fitted model of a file; predictions are arrays."""
        parameters = {**restored_parameters(cls, header)}
        for name in set(TRUTHS) & set(parameters):
            parameters[name] = {"True": True, "False": False}.get(parameters[name], "auto")
        whole = restored_grid(header, arrays)
        process = innermost(whole)
        assert isinstance(process, GraphTimeGP)
        model = cls(domain_of(process.sites), **parameters)
        axis = axis_from(header.get("axis"), process.rows.times)
        fitted = restored_results(header, cls._section, cls._stored)
        rows = process.rows.sensors
        order = Entries(header, arrays).integers("order", rows.size, low=0, high=rows.size - 1)
        if np.unique(order).size < rows.size:
            raise ModelFileError("order: expected each sensor once, got one twice")
        sensors = rows[order]
        results = {"axis": axis, "outliers": no_outliers(), "sensors": sensors, **fitted}
        return model.holding(FittedModel(whole, 1, results))
