"""What a fitted space-time model answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from coupledgp.diagnostics.space_time.sensor_table import SensorTable, moments_back
from coupledgp.errors import InvalidInputError
from coupledgp.gp.back_transformed import mapped_back
from coupledgp.gp.graph_time import GraphTimeGP
from coupledgp.gp.protocol import Data, Points
from coupledgp.gp.transformed import TransformedGP, untransformed
from coupledgp.gp.transforms import TargetTransform
from coupledgp.ground.memory import check_memory, named_exhaustion
from coupledgp.ground.validation import check_magnitude, check_positive_int, check_vector
from coupledgp.inference.nodes.forecast import Budget
from coupledgp.inference.placement.objectives import Criterion
from coupledgp.inference.placement.result import Placement
from coupledgp.inference.space_time.field_sites import FieldSites
from coupledgp.inference.space_time.filters import Term
from coupledgp.inference.space_time.graph_sites import GraphSites
from coupledgp.inference.space_time.learned_sites import under_kernel
from coupledgp.inference.space_time.left_out import sensors_left_out
from coupledgp.inference.space_time.placement import stationary_placement
from coupledgp.inference.space_time.posterior import Cells
from coupledgp.inference.space_time.site_labels import SiteLabels
from coupledgp.models.estimator import (
    ProcessRegressor,
    check_probabilities,
)
from coupledgp.models.graph_time_parts import longest_run, term_names
from coupledgp.random import FloatArray, IntArray, draw_seed
from coupledgp.search.space_time.fitter import (
    Outliers,
)
from coupledgp.series import Panel, TimeAxis

# Seconds that a forecast may take beyond those of one step where no budget is given.
FORECAST_SECONDS = 60.0


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


class SpaceTimeLaws(ProcessRegressor):
    """Answers of a fitted model of values over time; `GraphTimeGPRegressor` fits it."""

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
        try:
            targets = check_vector(y, "y")
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(error, InvalidInputError):
                raise
            raise InvalidInputError(f"y: expected numbers, {error}") from None
        if targets.size != len(points):
            raise InvalidInputError(f"y: expected {len(points)} values, got {targets.size}")
        check_magnitude(targets, "y")
        return Data.of(points, targets[:, None])

    def score(self, X: Any, y: ArrayLike, sample_weight: Any = None) -> float:
        """Coefficient of determination of values y (m,) at a pair X of labels and times (m,)."""
        check_is_fitted(self)
        data = self._further_data(X, y)
        mean, _ = self.process_.law(data.points, "mean")
        return float(r2_score(data.targets[:, 0], mean[:, 0], sample_weight=sample_weight))

    @property
    def _labels(self) -> SiteLabels:
        sites = under_kernel(self.grid_process_.sites)
        assert isinstance(sites, (GraphSites, FieldSites))
        return SiteLabels(sites.operator if isinstance(sites, FieldSites) else sites.graph)

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
        panel: Panel | None = self.fitted_.results.get("panel")
        if panel is not None:
            return panel
        return Panel(self.nodes_, self.time_axis_, self.grid_process_.rows.values, None)

    @property
    def time_axis_(self) -> TimeAxis:
        """The axis of times of the last fit, whose numbers the process computes with."""
        axis: TimeAxis | None = self.fitted_.results.get("axis")
        return self.panel_.axis if axis is None else axis

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
        return self.grid_process_.posterior.n_iterations

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
            As in `predict`; the sensors if left out.
        budget
            Seconds and bytes that it may take, as the budget of a fit; None: a minute more than one
            step ahead, and the memory that is free. What is forecast to take more is refused before
            it begins.

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
        """Times of the axis after the last one, step by step up to a duration.

        They are refused if the law of some nodes there, by default of the sensors, takes more than
        the budget, see `forecast`.
        """
        times = self.grid_process_.rows.times
        step = float(np.median(np.diff(times))) if times.size > 1 else 1.0
        duration = self.time_axis_.duration(ahead, "ahead")
        count = int(np.floor(duration / step + 1e-9))
        if count < 1:
            raise InvalidInputError(
                f"ahead: expected a step of the data, {step:g} {self.time_axis_.unit}, or more, "
                f"got {ahead!r}"
            )
        p = self.grid_process_.rows.sensors.size if n_nodes is None else n_nodes
        limit = Budget.of(budget)
        process = self.grid_process_
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

        Hyperparameters are those of all sensors. Where the covariance of the sensors was learned,
        laws are those under the kernel: nothing would be learned of a sensor that was not there.
        Means are solved for to a relative residual of 1e-4; variances are those far from the ends
        of the series.
        """
        check_is_fitted(self)
        process = self.grid_process_
        with named_exhaustion("leave_one_sensor_out"), self._reporter("sensors") as report:
            found = sensors_left_out(process.under_kernel().posterior, report)
        offset, scale = float(process.units.offset[0]), float(process.units.scale[0])
        mean, std = offset + scale * found.mean, scale * np.sqrt(found.variance)
        return SensorTable.of(self.nodes_, process.rows.values, mean, std, self.transform_)

    def prior_covariance(self, nodes: Any, times: Any) -> FloatArray:
        """Prior covariance (m, m) of f at nodes (m,) and times (m,), units of y squared."""
        return self._prior_covariance((nodes, times))

    def next_sensors(
        self,
        k: int,
        criterion: Criterion = "mutual-information",
        candidates: Any = None,
        interest: Any = None,
        *,
        budget: float | str | None = None,
    ) -> Placement:
        """Nodes where the next sensors tell most, each reporting at all times.

        Complete, stationary series are taken, for which frequencies are independent: with the
        spectra `S_g` of the graph's terms and `S_n + s` of a sensor alone, what a sensor adds is
        the mean over frequencies of what it adds without time at the noise ratio
        `(S_n + s) / S_g`.
        Criteria are those of `GraphGPRegressor.next_sensors`.

        Parameters
        ----------
        k
            Number of sensors.
        criterion
            `"mutual-information"`, `"variance"` or `"total-variance"`.
        candidates
            Labels of nodes without a sensor; None: all of them.
        interest
            Labels of nodes whose values matter; None: all nodes for `"total-variance"`, else the
            candidates.
        budget
            Seconds that the search may take, as the budget of a fit.

        Returns
        -------
        Placement
            The nodes in order, the gain of each, and the mean variance that is left; of values in
            units of y squared, or of transformed values.

        Raises
        ------
        InvalidInputError
            An argument is invalid, or the search takes more seconds by forecast than it may.
        """
        check_is_fitted(self)
        process, labels = self.grid_process_, self._labels
        with named_exhaustion("next_sensors"):
            found = stationary_placement(
                process.sites,
                process.rows.sensors,
                k,
                process.spectra(),
                criterion,
                None if candidates is None else labels.numbers(candidates),
                None if interest is None else labels.numbers(interest),
                budget=Budget.of(budget),
            )
        return found.with_nodes(labels.labels(found.nodes))
