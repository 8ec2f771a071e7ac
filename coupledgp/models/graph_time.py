"""Gaussian process regression of values at sites of a graph over time."""

from __future__ import annotations

import warnings
import zoneinfo
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.gp.graph_time import GraphTimeGP, SpaceTimeRows, SpaceTimeSettings
from coupledgp.gp.graph_time_fit import (
    FittedSpaceTime,
    Outliers,
    SpaceTimeModel,
    fit_space_time,
)
from coupledgp.gp.graph_time_transform import chosen_transform
from coupledgp.gp.protocol import Arrays, Data, GaussianProcess, Header, Points
from coupledgp.gp.state import text_of
from coupledgp.gp.transformed import TransformedGP, mapped_back, untransformed
from coupledgp.gp.transforms import TARGET_TRANSFORMS, TargetTransform
from coupledgp.gp.units import Units
from coupledgp.inference.space_time.field_sites import FieldSites
from coupledgp.inference.space_time.filters import Term
from coupledgp.inference.space_time.left_out import sensors_left_out
from coupledgp.inference.space_time.posterior import Cells
from coupledgp.inference.space_time.sites import Sites, as_domain, sites_of
from coupledgp.kernels.time import Matern12, Matern32, TimeKernel, TimeKernelLike, parse_time_kernel
from coupledgp.memory import named_exhaustion
from coupledgp.models.estimator import (
    FittedModel,
    ProcessRegressor,
    check_probabilities,
    plain_seed,
    restored_parameters,
)
from coupledgp.models.sensor_table import SensorTable, moments_back
from coupledgp.models.site_labels import SiteLabels
from coupledgp.models.targets import TransformLike
from coupledgp.progress import Progress, reporter
from coupledgp.random import FloatArray, IntArray, draw_seed
from coupledgp.selection.protocol import is_auto
from coupledgp.series import Panel, TimeAxis, as_panel
from coupledgp.validation import check_choice, check_positive, check_positive_int

OUTLIER_CHOICES = ("reject", "student-t")
SENSOR_NOISE = ("shared", "own")
# Number of cycles of a period that the data should hold.
LEAST_CYCLES = 14
# Part of a term that is called by another name in `components`.
MOVING, USUAL, OWN, BIAS = "moving", "usual", "own moving", "own usual"


class Gaps(NamedTuple):
    """What the data lack.

    Attributes
    ----------
    share : float
        Share of the cells of sensors and times without an observation.
    longest_run : int
        Steps of the longest run of them.
    n_dark : int
        Times at which no sensor reports.
    """

    share: float
    longest_run: int
    n_dark: int


class OutlyingCells(NamedTuple):
    """Observations farther than four standard deviations from their law given the others.

    Attributes
    ----------
    node : list
        Labels (c,) of their sensors.
    time : Any
        Their times (c,), in the form of the data.
    score : FloatArray (c,)
        Standardised residuals.
    rejected : bool
        Whether they were left out.
    """

    node: list[Any]
    time: Any
    score: FloatArray
    rejected: bool


class GraphTimeGPRegressor(ProcessRegressor):
    """Gaussian process of values at the nodes of a graph over time, with gaps.

    `y(i, t) = m + f(i, t) + e`, `f = sum_c f_c`, `cov f_c = v_c B_c (x) k_c`: values that move
    along the graph (B a graph kernel, k a Matern kernel of time), the usual value of each node (B
    the graph kernel, k constant), cycles of given periods, and what only one sensor sees (B = I).
    Complete data are independent Kalman smoothers in the eigenvectors of the sensors' covariance;
    gaps are unknowns that conjugate gradients solve for. Hyperparameters have the greatest
    evidence, found from draws of the gaps by the debiased Whittle likelihood (Sykulski et al.
    2019). See docs/space_time.md.

    Parameters
    ----------
    graph
        A `Graph` or networkx graph; or a `LaplaceOperator` of a road network with lengths or of a
        mesh, or a triangle mesh, whose vertices are the nodes.
    kernel
        Kernel of the nodes: of a graph as `GraphGPRegressor` takes it, but `"auto"`; of an operator
        `"matern"` (with a range in units of length) or a graph kernel.
    time_kernel
        Kernel of what moves: `"matern-1/2"`, `"matern-3/2"`, a `TimeKernel`, or `"auto"`, the
        one of both Matern kernels of greater evidence.
    periods
        Periods of cycles, such as `("1D", "7D")`, or numbers in the unit of the times. A warning is
        given where the data hold fewer than 14 cycles of one: few days do not tell a working day
        from a Sunday.
    n_harmonics
        Harmonics of each cycle.
    node_effects
        Whether sensors have terms of their own.
    noise
        Noise variance in units of y squared, kept; None: fitted.
    target_transform
        A transform of the values before all else, as `GPRegressor` takes it: `"yeo-johnson"`,
        `"log"`, ..., its shape of greatest evidence; `"auto"`: that of Yeo and Johnson where its
        evidence is greater, else none. Variances in `terms_` and `noise_` are of transformed
        values then. Skewed values, such as speeds, have better laws; means at single missing
        values may be a little worse (docs/space_time.md).
    sensor_noise
        `"shared"`, or `"own"`: the variances of the noise and of the own terms of each sensor are
        multiplied by a number D_i that is fitted, of geometric mean one.
    outliers
        `"reject"`: observations farther than four standard deviations from their law given the
        others are left out and hyperparameters found anew, in up to four rounds; `"student-t"`:
        noise of Student's law of 4 degrees of freedom, by weights, hyperparameters of the Gaussian
        law kept; None: they are counted (`outliers_`).
    normalize_y
        Subtract the mean of the values and divide by their standard deviation before fitting.
    n_variance_samples
        Draws of the gaps, from which their part of variances is estimated.
    window
        Number of the last steps that `partial_fit` keeps, so that its cost does not grow; None:
        all.
    random_state
        Seed of draws.
    progress
        Show progress on stderr; None does so on a terminal.

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
        Labels of the sensors, and the axis of times.
    gaps_, outliers_
        What the data lack, and observations far from their law.
    log_marginal_likelihood_value_, log_marginal_likelihood_error_
        Log evidence of the values in their units, and its standard error.
    n_rounds_, n_evaluations_, converged_, n_iterations_
        Rounds and evaluations of the search, whether its last round left the hyperparameters where
        they were, and steps of conjugate gradients of the mean.
    method_, method_reason_
        How the law is computed, and why.
    """

    def __init__(
        self,
        graph: Any,
        kernel: Any = "matern",
        time_kernel: TimeKernelLike = "matern-1/2",
        periods: Any = None,
        n_harmonics: int = 2,
        node_effects: bool = True,
        noise: float | None = None,
        *,
        target_transform: TransformLike = None,
        sensor_noise: str = "shared",
        outliers: str | None = None,
        normalize_y: bool = True,
        n_variance_samples: int = 64,
        window: int | None = None,
        random_state: Any = 0,
        progress: bool | None = None,
    ) -> None:
        self.graph = graph
        self.kernel = kernel
        self.time_kernel = time_kernel
        self.periods = periods
        self.n_harmonics = n_harmonics
        self.node_effects = node_effects
        self.noise = noise
        self.target_transform = target_transform
        self.sensor_noise = sensor_noise
        self.outliers = outliers
        self.normalize_y = normalize_y
        self.n_variance_samples = n_variance_samples
        self.window = window
        self.random_state = random_state
        self.progress = progress

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
            Nodes without any value are left out, times were moved to a grid, or the data hold few
            cycles of a period.
        ConvergenceWarning
            The last round of the search still moved the hyperparameters.
        """
        sites = sites_of(self.graph, self.kernel)
        settings = self._settings()
        panel = read_panel(data, further, times, values, resolution)
        labels = SiteLabels(as_domain(self.graph))
        rows = rows_of(panel, labels)
        model = self._model(panel.axis, settings.seed)
        with named_exhaustion("fit"), reporter("fit", self.progress) as report:
            transform = self._transform(sites, rows, model, report)
            inner = rows if transform is None else transformed_rows(rows, transform)
            units = Units.of(inner.values[inner.observed][:, None], self.normalize_y)
            found = fit_space_time(sites, inner, units, self.normalize_y, model, settings, report)
        self._warn_of(found, panel.axis, model)
        process: GaussianProcess = found.process
        if transform is not None:
            process = TransformedGP.of(process, (transform,), observations(found.process, rows))
        self._fitted = FittedModel(process, 1, results_of(found, panel, labels))
        return self

    def _transform(
        self, sites: Sites, rows: SpaceTimeRows, model: SpaceTimeModel, report: Progress
    ) -> TargetTransform | None:
        """The transform of the values, its shape of greatest evidence; None: there is none."""
        if self.target_transform is None:
            return None
        if self.noise is not None:
            raise InvalidInputError(
                "noise: expected None beside target_transform, since it is in units of y and the "
                "noise is that of transformed values"
            )
        given = None
        if not is_auto(self.target_transform):
            given = TARGET_TRANSFORMS.parse(self.target_transform, "target_transform")
            given.check(rows.values[rows.observed])
        return chosen_transform(given, sites, rows, model, report)

    def _settings(self) -> SpaceTimeSettings:
        check_choice(self.sensor_noise, SENSOR_NOISE, "sensor_noise")
        if self.outliers is not None:
            check_choice(self.outliers, OUTLIER_CHOICES, "outliers")
        if self.noise is not None:
            check_positive(self.noise, "noise")
        if self.window is not None:
            check_positive_int(self.window, "window", minimum=2)
        return SpaceTimeSettings(
            check_positive_int(self.n_variance_samples, "n_variance_samples", minimum=2),
            window=self.window,
            seed=draw_seed(self.random_state),
        )

    def _model(self, axis: TimeAxis, seed: int) -> SpaceTimeModel:
        kernels: tuple[TimeKernel, ...] = (Matern12(), Matern32())
        if not (isinstance(self.time_kernel, str) and self.time_kernel == "auto"):
            kernels = (parse_time_kernel(self.time_kernel),)
        given = self.periods
        if given is None:
            given = ()
        elif isinstance(given, (str, bytes)) or not hasattr(given, "__iter__"):
            given = (given,)
        periods = tuple(axis.duration(period, "periods") for period in given)
        harmonics = check_positive_int(self.n_harmonics, "n_harmonics")
        return SpaceTimeModel(
            kernels, periods, harmonics, bool(self.node_effects), self.noise,
            self.sensor_noise == "own", self.outliers, seed,
        )  # fmt: skip

    def _warn_of(self, found: FittedSpaceTime, axis: TimeAxis, model: SpaceTimeModel) -> None:
        span = float(np.ptp(axis.values))
        for period in model.periods:
            if span < LEAST_CYCLES * period:
                warnings.warn(
                    f"periods: the data hold {span / period:.3g} cycles of {period:g} "
                    f"{axis.unit}, fewer than {LEAST_CYCLES}; a cycle learned from few of them may "
                    "harm forecasts",
                    stacklevel=3,
                )
        if not found.fit.converged:
            warnings.warn(
                f"the hyperparameters still moved in round {found.fit.n_rounds} of the search; "
                "the last ones are used",
                ConvergenceWarning,
                stacklevel=3,
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
        panel = read_panel(data, further, times, values, resolution)
        with named_exhaustion("partial_fit"):
            return self._updated(self._data_of(panel))

    def _data_of(self, panel: Panel) -> Data:
        """Observations of a panel as points on the axis of the fit."""
        numbers = SiteLabels(as_domain(self.graph)).numbers(panel.nodes)
        stamps = self.time_axis_.numbers(panel.axis.labels(panel.axis.values))
        there = ~np.isnan(panel.values)
        sensors, columns = np.nonzero(there)
        points = np.column_stack([numbers[sensors], stamps[columns]]).astype(np.float64)
        return Data.of(points, panel.values[there][:, None])

    def points(self, X: Any) -> Points:
        """Points (m, 2) of a pair of labels (m,) and times (m,); the observed ones for None."""
        if X is None:
            return self.process_.data.points
        if not isinstance(X, (tuple, list)) or len(X) != 2:
            raise InvalidInputError(
                "X: expected a pair (nodes, times) of one length, one entry for each point"
            )
        numbers = self._labels.numbers(X[0])
        stamps = self.time_axis_.numbers(X[1])
        if len(numbers) != len(stamps):
            raise InvalidInputError(
                f"times: expected {len(numbers)} times to match nodes, got {len(stamps)}"
            )
        return np.column_stack([numbers, stamps]).astype(np.float64)

    def checked(self, X: Any, y: ArrayLike) -> tuple[Data, int, None]:
        """Return points with targets (n, 1), one as the dimension of y, and None."""
        return self._further_data(X, y), 1, None

    def _further_data(self, X: Any, y: ArrayLike) -> Data:
        points = self.points(X)
        targets = np.asarray(y, dtype=np.float64)
        if targets.shape != (len(points),) or not np.isfinite(targets).all():
            raise InvalidInputError(
                f"y: expected {len(points)} finite values, got an array of shape {targets.shape}"
            )
        return Data.of(points, targets[:, None])

    @property
    def _labels(self) -> SiteLabels:
        return SiteLabels(as_domain(self.graph))

    @property
    def grid_process_(self) -> GraphTimeGP:
        """The process on the grid: `process_`, or that of transformed values."""
        process = untransformed(self.process_)
        assert isinstance(process, GraphTimeGP)
        return process

    @property
    def transform_(self) -> TargetTransform | None:
        """The transform of the values; None where there is none."""
        process = self.process_
        return process.transforms[0] if isinstance(process, TransformedGP) else None

    @property
    def panel_(self) -> Panel:
        """The form of the data of the last fit; its values are those of that fit."""
        panel: Panel = self.fitted_.results["panel"]
        return panel

    @property
    def time_axis_(self) -> TimeAxis:
        """The axis of times of the last fit, whose numbers the process computes with."""
        return self.panel_.axis

    @property
    def nodes_(self) -> list[Any]:
        """Labels of the sensors, in the order of their sites."""
        return self._labels.labels(self.grid_process_.rows.sensors)

    @property
    def kernel_(self) -> Any:
        """Fitted kernel of the nodes."""
        return self.grid_process_.sites.kernel

    @property
    def terms_(self) -> tuple[Term, ...]:
        """Terms with their variances in units of y squared."""
        scale = float(self.grid_process_.units.scale[0]) ** 2
        terms = self.grid_process_.parameters.terms
        return tuple(Term(term.where, term.kernel, term.variance * scale) for term in terms)

    @property
    def sensor_scales_(self) -> FloatArray:
        """Relative variances D (p,) of noise and own terms of the sensors."""
        return np.asarray(self.grid_process_.parameters.roots**2)

    @property
    def gaps_(self) -> Gaps:
        """What the data lack."""
        process = self.grid_process_
        observed = process.rows.observed
        dark = int((~observed.any(axis=0)).sum())
        return Gaps(float(1.0 - observed.mean()), longest_run(observed), dark)

    @property
    def outliers_(self) -> OutlyingCells:
        """Observations of the last fit far from their law given the others."""
        found: Outliers = self.fitted_.results["outliers"]
        panel = self.panel_
        nodes = [panel.nodes[k] for k in self.fitted_.results["order"][found.sensors]]
        return OutlyingCells(
            nodes, panel.axis.labels(panel.axis.values[found.columns]), found.scores, found.rejected
        )

    @property
    def log_marginal_likelihood_error_(self) -> float:
        """Standard error of the log evidence, zero where it is exact."""
        return self.grid_process_.evidence_with_error[1]

    @property
    def n_rounds_(self) -> int:
        """Rounds of the search."""
        return int(self.fitted_.results["n_rounds_"])

    @property
    def n_iterations_(self) -> int:
        """Steps of conjugate gradients of the mean; zero for complete data."""
        return int(getattr(self.grid_process_.posterior.gaps, "n_iterations", 0))

    @property
    def method_(self) -> str:
        """`"dense"`, `"filters"` or `"leading filters"`."""
        process = self.grid_process_
        if not process.posterior.system.basis.is_complete:
            return "leading filters"
        return "dense" if process.is_dense else "filters"

    @property
    def method_reason_(self) -> str:
        """The reason for the method in use, with its cost."""
        return self.grid_process_.reason

    def predict(
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
            Labels (a,); all of the graph if left out.
        times
            Times (b,) in any order; those of the fit if left out. Later ones are forecasts.
        return_std
            Also return the standard deviation. At a gap its part from inside the run is exact, and
            what other gaps add is estimated from `n_variance_samples` draws.
        latent
            Leave the noise out.

        Returns
        -------
        Any
            In the form of the data: a `DataArray` of the mean, or a `Dataset` with `mean` and
            `std`; wide tables; or arrays (a, b), a pair of them with `return_std`.
        """
        check_is_fitted(self)
        sites = self._labels.numbers(nodes)
        process = self.grid_process_
        stamps = process.rows.times if times is None else self.time_axis_.numbers(times)
        with named_exhaustion("predict"):
            mean, std = self.law_on_grid(sites, stamps, return_std, latent=latent)
        labels = list(nodes) if nodes is not None else self._labels.labels(sites)
        if std is None:
            return self.panel_.restored(labels, stamps, mean=mean)
        return self.panel_.restored(labels, stamps, mean=mean, std=std)

    def law_on_grid(
        self, sites: IntArray, stamps: FloatArray, with_std: bool = True, *, latent: bool = False
    ) -> tuple[FloatArray, FloatArray | None]:
        """Mean and standard deviation (a, b), units of y, at site numbers and times of the axis."""
        transform = self.transform_
        if transform is None:
            return self._inner_law(sites, stamps, with_std, latent)
        mean, std = self._inner_law(sites, stamps, True, latent)
        assert std is not None
        mean, variance = moments_back(transform, mean, std)
        return mean, np.sqrt(variance) if with_std else None

    def _inner_law(
        self, sites: IntArray, stamps: FloatArray, with_std: bool, latent: bool
    ) -> tuple[FloatArray, FloatArray | None]:
        """Mean and standard deviation (a, b) in units of values, transformed where they are."""
        process = self.grid_process_
        distinct, places = np.unique(stamps, return_inverse=True)
        cells = Cells(np.asarray(sites, dtype=np.int64), distinct)
        offset, scale = float(process.units.offset[0]), float(process.units.scale[0])
        mean = offset + scale * process.posterior.means(cells)[0][:, places]
        if not with_std:
            return mean, None
        variance = process.grid_variances(cells)[:, places]
        if not latent:
            variance = variance + process.parameters.noise * process.scales.at(cells.sites)[:, None]
        return mean, scale * np.sqrt(variance)

    def quantiles_on_grid(
        self, sites: IntArray, stamps: FloatArray, probabilities: ArrayLike, *, latent: bool = False
    ) -> FloatArray:
        """Quantiles (a, b, q), units of y, at site numbers and times of the axis."""
        wanted = check_probabilities(probabilities, "probabilities")
        mean, std = self._inner_law(sites, stamps, True, latent)
        assert std is not None
        found = mean[..., None] + std[..., None] * special.ndtri(wanted)
        return found if self.transform_ is None else mapped_back(self.transform_, found)

    def forecast(self, ahead: Any, nodes: Any = None, return_std: bool = True) -> Any:
        """Predictive law after the last time of the data.

        Parameters
        ----------
        ahead
            A duration such as `"1h"`, or a number in the unit of the times; every step of the axis
            up to it is forecast.
        nodes, return_std
            As in `predict`; the sensors if left out.
        """
        check_is_fitted(self)
        stamps = self.times_ahead(ahead)
        labels = self.nodes_ if nodes is None else nodes
        return self.predict(labels, self.time_axis_.labels(stamps), return_std)

    def times_ahead(self, ahead: Any) -> FloatArray:
        """Times of the axis after the last one, step by step up to a duration."""
        times = self.grid_process_.rows.times
        step = float(np.median(np.diff(times))) if times.size > 1 else 1.0
        duration = self.time_axis_.duration(ahead, "ahead")
        count = int(np.floor(duration / step + 1e-9))
        if count < 1:
            raise InvalidInputError(
                f"ahead: expected a step of the data, {step:g} {self.time_axis_.unit}, or more, "
                f"got {ahead!r}"
            )
        return np.asarray(times[-1] + step * np.arange(1, count + 1))

    def sample_y(
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
        process, sites = self.grid_process_, self._labels.numbers(nodes)
        stamps = process.rows.times if times is None else self.time_axis_.numbers(times)
        distinct, places = np.unique(stamps, return_inverse=True)
        rng = np.random.default_rng(draw_seed(random_state))
        with named_exhaustion("sample"):
            drawn = process.posterior.draws(Cells(sites, distinct), n_samples, rng)[:, :, places]
        if not latent:
            noise = process.parameters.noise * process.scales.at(sites)
            drawn = drawn + np.sqrt(noise)[:, None] * rng.standard_normal(drawn.shape)
        drawn = process.units.offset[0] + process.units.scale[0] * np.moveaxis(drawn, 0, 2)
        if self.transform_ is not None:
            drawn = mapped_back(self.transform_, drawn)
        labels = list(nodes) if nodes is not None else self._labels.labels(sites)
        return self.panel_.restored(labels, stamps, sample=drawn)

    def log_density(self, nodes: Any, times: Any, values: ArrayLike) -> FloatArray:
        """Log predictive density (m,), nats, of values (m,) at nodes (m,) and times (m,)."""
        return self._log_density((nodes, times), values)

    def components(self, nodes: Any = None, times: Any = None) -> dict[str, Any]:
        """Means of the terms by name, in units of y, in the form of the data.

        They are deviations from the mean of all values, which is under `"mean"` as a number; the
        sum of all is the mean of the function. With a transform they are in its units.
        """
        check_is_fitted(self)
        process, sites = self.grid_process_, self._labels.numbers(nodes)
        stamps = process.rows.times if times is None else self.time_axis_.numbers(times)
        distinct, places = np.unique(stamps, return_inverse=True)
        cells, labels = Cells(sites, distinct), self._labels.labels(sites)
        found: dict[str, Any] = {"mean": float(process.units.offset[0])}
        for number, name in enumerate(term_names(process.parameters.terms)):
            where = process.parameters.terms[number].where
            graph, node = ((number,), ()) if where == "graph" else ((), (number,))
            alpha = process.posterior.alpha[None]
            part = process.posterior.term_means(cells, graph, node, alpha)[0]
            values = process.units.scale[0] * part[:, places]
            found[name] = self.panel_.restored(labels, stamps, **{"mean": values})
        return found

    def leave_one_sensor_out(self) -> SensorTable:
        """Laws of the values of each sensor given those of all others, with scores.

        Hyperparameters are those of all sensors. Means are solved for to a relative residual of
        1e-4; variances are those far from the ends of the series.
        """
        check_is_fitted(self)
        process = self.grid_process_
        with named_exhaustion("leave_one_sensor_out"), self._reporter("sensors") as report:
            found = sensors_left_out(process.posterior, report)
        offset, scale = float(process.units.offset[0]), float(process.units.scale[0])
        mean, std = offset + scale * found.mean, scale * np.sqrt(found.variance)
        return SensorTable.of(self.nodes_, process.rows.values, mean, std, self.transform_)

    def prior_covariance(self, nodes: Any, times: Any) -> FloatArray:
        """Prior covariance (m, m) of f at nodes (m,) and times (m,), units of y squared."""
        return self._prior_covariance((nodes, times))

    def _stored_parameters(self) -> dict[str, Any]:
        parameters = super()._stored_parameters()
        del parameters["graph"]
        return parameters

    def _plain(self, name: str, value: Any) -> Any:
        if name == "random_state":
            return plain_seed(value)
        if name == "target_transform" and value is not None:
            return value if isinstance(value, str) else text_of(value, name)
        if name in ("kernel", "time_kernel"):
            return value if isinstance(value, str) else type(value).__name__
        if name == "periods" and value is not None:
            several = not isinstance(value, str) and hasattr(value, "__iter__")
            return [str(v) for v in value] if several else str(value)
        return value

    def _state(self, include_data: bool) -> tuple[Header, Arrays]:
        header, arrays = super()._state(include_data)
        record, axis = self.fitted_, self.time_axis_
        header["axis"] = axis_state(axis)
        header["fitted"] = {
            name: record.results[name] for name in ("n_rounds_", "n_evaluations_", "converged_")
        }
        return header, arrays

    @classmethod
    def from_state(cls, header: Header, arrays: Arrays) -> Any:
        """Return the fitted model of a file; predictions are arrays."""
        parameters = restored_parameters(cls, header)
        whole = restored_grid(header, arrays)
        process = untransformed(whole)
        assert isinstance(process, GraphTimeGP)
        sites = process.sites
        domain = sites.operator if isinstance(sites, FieldSites) else sites.graph  # type: ignore[attr-defined]
        model = cls(domain, **parameters)
        axis = axis_from(header.get("axis"), process.rows.times)
        labels = SiteLabels(domain).labels(process.rows.sensors)
        panel = as_panel(labels, axis.labels(process.rows.times), process.rows.values)
        fitted = header.get("fitted") or {}
        results = {
            "panel": panel, "outliers": no_outliers(), "order": np.arange(len(labels)), **fitted,
        }  # fmt: skip
        return model.holding(FittedModel(whole, 1, results))


def read_panel(
    data: Any, further: tuple[Any, ...], times: Any, values: Any, resolution: Any
) -> Panel:
    """The panel of the arguments of `fit`: those after the data may be named or not."""
    if len(further) > 2:
        raise InvalidInputError(
            f"data: expected nodes, times and values at most, got {len(further) + 1} arguments"
        )
    if len(further) == 2:
        named = [
            name for name, value in (("times", times), ("values", values)) if value is not None
        ]
        if named:
            raise InvalidInputError(f"{named[0]}: expected it once, got it by place and by name")
        times, values = further
    elif len(further) == 1:
        if values is not None and times is not None:
            raise InvalidInputError("values: expected it once, got it by place and by name")
        if values is None and times is not None:
            values = further[0]
        else:
            times = further[0]
    return as_panel(data, times, values, resolution)


def transformed_rows(rows: SpaceTimeRows, transform: TargetTransform) -> SpaceTimeRows:
    """The same observations with transformed values."""
    values = np.full(rows.values.shape, np.nan)
    values[rows.observed] = transform.forward(transform.check(rows.values[rows.observed]))
    return replace(rows, values=values)


def observations(process: GraphTimeGP, rows: SpaceTimeRows) -> Data:
    """Observations of a process of transformed values, in units of y; without rejected ones."""
    data = process.data
    targets = rows.values[process.rows.observed][:, None]
    return Data.of(data.points, targets, weights=data.weights)


def restored_grid(header: Header, arrays: Arrays) -> GaussianProcess:
    """The process of a file: on the grid, or of transformed values."""
    if "target_transforms" in header:
        return TransformedGP.from_state(header, arrays)
    return GraphTimeGP.from_state(header, arrays)


def rows_of(panel: Panel, labels: SiteLabels) -> SpaceTimeRows:
    """The values of a panel by rising sites."""
    numbers = labels.numbers(panel.nodes)
    order = np.argsort(numbers, kind="stable")
    rising = numbers[order]
    same = np.flatnonzero(np.diff(rising) == 0)
    if same.size:
        label = panel.nodes[order[same[0]]]
        raise InvalidInputError(f"nodes: expected each node once, got {label!r} twice")
    return SpaceTimeRows(rising, panel.axis.values, panel.values[order])


def results_of(found: FittedSpaceTime, panel: Panel, labels: SiteLabels) -> dict[str, Any]:
    """Results of a fit by name."""
    return {
        "panel": panel,
        "order": np.argsort(labels.numbers(panel.nodes), kind="stable"),
        "outliers": found.outliers,
        "n_rounds_": found.fit.n_rounds,
        "n_evaluations_": found.fit.n_evaluations,
        "converged_": found.fit.converged,
    }


def no_outliers() -> Outliers:
    """No outliers, as of a model from a file."""
    none = np.empty(0, dtype=np.int64)
    return Outliers(none, none, np.empty(0), False)


def longest_run(observed: Any) -> int:
    """Steps of the longest run of cells (p, n) without an observation in a row."""
    longest = 0
    for row in ~observed:
        edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(np.int8), [0]])))
        longest = max(longest, int((edges[1::2] - edges[::2]).max(initial=0)))
    return longest


def term_names(terms: tuple[Term, ...]) -> list[str]:
    """Names of terms in words."""
    found = []
    for term in terms:
        kind = type(term.kernel).__name__
        own = term.where == "node"
        if kind == "Constant":
            name = BIAS if own else USUAL
        elif kind == "Periodic":
            name = f"{'own ' if own else ''}cycle of {term.kernel.period:g}"  # type: ignore[attr-defined]
        else:
            name = OWN if own else MOVING
        found.append(name)
    return found


def axis_state(axis: TimeAxis) -> dict[str, Any]:
    """What a file holds of a time axis beside its numbers."""
    origin = None if axis.origin is None else str(axis.origin.astype("datetime64[ns]"))
    return {"origin": origin, "zone": axis.zone, "tick": axis.tick, "whole": axis.whole}


def axis_from(state: Any, times: FloatArray) -> TimeAxis:
    """The axis of `axis_state`."""
    try:
        origin = None if state["origin"] is None else np.datetime64(str(state["origin"]), "ns")
        zone = state["zone"]
        if zone is not None:
            zoneinfo.ZoneInfo(str(zone))
        return TimeAxis(times, origin, zone, int(state["tick"]), "numpy", bool(state["whole"]))
    except (TypeError, KeyError, ValueError, OSError) as error:
        raise ModelFileError(f"axis: expected a time axis, got another value ({error})") from None
