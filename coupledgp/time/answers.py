"""Laws, draws and forecasts of a fitted model of values over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from coupledgp.core.estimator import ProcessRegressor, check_probabilities, interval_ends
from coupledgp.core.frames import law_frame
from coupledgp.core.options import estimator
from coupledgp.core.process import Data, Points
from coupledgp.core.target_maps import mapped_back, moments_back
from coupledgp.core.transformed import TransformedGP, untransformed
from coupledgp.core.transforms import TargetTransform
from coupledgp.errors import InvalidInputError
from coupledgp.ground.memory import check_memory, named_exhaustion
from coupledgp.ground.validation import (
    check_choice,
    check_magnitude,
    check_positive_int,
    check_vector,
)
from coupledgp.random import FloatArray, IntArray, draw_seed
from coupledgp.time.axis import TimeAxis
from coupledgp.time.panel import Panel
from coupledgp.time.process import SensorsGP
from coupledgp.time.sensor_table import SensorTable
from coupledgp.time.sites import SiteLabels
from coupledgp.time.spread import student_quantiles
from coupledgp.time.usual_day import DAY as SECONDS_OF_DAY
from coupledgp.time.usual_day import KINDS

if TYPE_CHECKING:
    import pandas as pd

# Standard deviations beyond which an observation counts as an outlier.
FAR = 4.0


class Gaps(NamedTuple):
    """Missing cells of the data: their share, their longest run and times without any value.

    Attributes
    ----------
    share : float
        Share of the cells of sensors and times without an observation.
    longest_run : int
        Steps of the longest run of such cells.
    n_dark : int
        Times at which no sensor reports.
    """

    share: float
    longest_run: int
    n_dark: int


class OutlyingCells(NamedTuple):
    """Observations farther than four standard deviations from their law given all others.

    Attributes
    ----------
    node : list
        Labels (c,) of their sensors.
    time : Any
        Their times (c,), in the form of the data.
    score : FloatArray (c,)
        Standardised residuals.
    """

    node: list[Any]
    time: Any
    score: FloatArray


class Grid(NamedTuple):
    """Labels and numbers (a,) of sites, and numbers (b,) of times, in any order, maybe repeated."""

    labels: list[Any]
    sites: IntArray
    times: FloatArray


def longest_run(observed: Any) -> int:
    """Steps of the longest run of cells (p, n) without an observation in a row."""
    longest = 0
    for row in ~observed:
        edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(np.int8), [0]])))
        longest = max(longest, int((edges[1::2] - edges[::2]).max(initial=0)))
    return longest


class DayProfile(NamedTuple):
    """The usual day of sensors on a further day of a kind.

    Attributes
    ----------
    node : list
        Labels of the a sensors.
    seconds : FloatArray (P,)
        Seconds since midnight of the steps of a day, on local clocks.
    mean : FloatArray (a, P)
        Means.
    std : FloatArray (a,)
        Standard deviation of the mean, without the day itself, over the steps.
    n_days : int
        Whole days of the kind in the data.
    """

    node: list[Any]
    seconds: FloatArray
    mean: FloatArray
    std: FloatArray
    n_days: int


@estimator
class SpaceTimeAnswers(ProcessRegressor):
    """The record of a fitted model of values over time, and its answers."""

    _points_are: ClassVar[str] = "readings"

    def points(self, X: Any) -> Points:
        """Points (m, 2) of a pair of labels (m,) and times (m,).

        For None they are the observed ones, sensor by sensor in the order of `nodes_`.
        """
        if X is None:
            points = self.process_.data.points
            row = np.searchsorted(self.grid_process_.law_.sensors, points[:, 0])
            return points[np.argsort(np.argsort(self._order)[row], kind="stable")]
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

    def score(  # type: ignore[override]
        self, X: Any, y: ArrayLike, sample_weight: Any = None
    ) -> float:
        """Coefficient of determination of values y (m,) at a pair X of labels and times (m,)."""
        check_is_fitted(self)
        data = self._further_data(X, y)
        mean, _ = self.process_.law(data.points, "mean")
        from sklearn.metrics import r2_score  # slow to import

        return float(r2_score(data.targets[:, 0], mean[:, 0], sample_weight=sample_weight))

    @property
    def _labels(self) -> SiteLabels:
        return SiteLabels(self.grid_process_.places.sites.domain)

    @property
    def grid_process_(self) -> SensorsGP:
        """The process of values, transformed if they are modelled so."""
        process = untransformed(self.process_)
        assert isinstance(process, SensorsGP)
        return process

    @property
    def usual_day_share_(self) -> dict[str, float] | None:
        """Share of the variance within days by part; None without a usual day."""
        usual = self.grid_process_.usual
        return None if usual is None else usual.shares

    @property
    def transform_(self) -> TargetTransform | None:
        """The transform of the values; None where there is none."""
        process = self.process_
        return process.transforms[0] if isinstance(process, TransformedGP) else None

    @property
    def panel_(self) -> Panel:
        """The form of the data of the last fit, with the values of that fit."""
        panel: Panel | None = self.fitted_.results.get("panel")
        if panel is not None:
            return panel
        return Panel(self.nodes_, self.time_axis_, self.grid_process_.values[self._order], None)

    @property
    def time_axis_(self) -> TimeAxis:
        """The axis of times of the last fit, whose numbers the process computes with."""
        axis: TimeAxis | None = self.fitted_.results.get("axis")
        return self.panel_.axis if axis is None else axis

    @property
    def nodes_(self) -> list[Any]:
        """Labels of the sensors in the order of the fit."""
        return self._labels.labels(self.grid_process_.law_.sensors[self._order])

    @property
    def _order(self) -> IntArray:
        """Rows (p,) of the process in the order of `nodes_`; its own are by the number of site."""
        sensors = self.grid_process_.law_.sensors
        return np.asarray(np.searchsorted(sensors, self.fitted_.results["sensors"]))

    @property
    def kernel_(self) -> Any:
        """Fitted kernel of the nodes."""
        return self.grid_process_.places.sites.kernel

    @property
    def gaps_(self) -> Gaps:
        """Share, longest run and dark times of missing cells."""
        observed = self.grid_process_.observed
        dark = int((~observed.any(axis=0)).sum())
        return Gaps(float(1.0 - observed.mean()), longest_run(observed), dark)

    @property
    def outliers_(self) -> OutlyingCells:
        """Observations that are far from their law given all others."""
        process = self.grid_process_
        mean, variance = process.cells_left_out()
        score = (process.values - mean) / np.sqrt(variance)
        rows, steps = np.nonzero(np.abs(score) > FAR)
        nodes = self._labels.labels(process.law_.sensors[rows])
        times = self.time_axis_.labels(process.times[steps])
        return OutlyingCells(nodes, times, score[rows, steps])

    @property
    def method_reason_(self) -> str:
        """What the law is made of, and why."""
        process, reasons = self.grid_process_, self.fitted_.results.get("reasons")
        p, n = process.values.shape
        found = f"{p} sensors and {n} times"
        if process.law_.spread is None:
            found += "; one lag, as there are few times"
        elif np.isfinite(process.law_.ridge):
            found += f"; lags of all sensors by the ridge {process.law_.ridge:g}"
        else:
            found += "; lags of each sensor and its neighbours"
        return f"{found}; {reasons}" if reasons else found

    def grid(self, nodes: Any = None, times: Any = None) -> Grid:
        """Sites and times of labels, in their order.

        None stands for all nodes, in the order of the graph, and for the times of the fit.
        """
        sites = self._labels.numbers(nodes)
        labels = list(nodes) if nodes is not None else self._labels.labels(sites)
        if times is None:
            return Grid(labels, sites, self.grid_process_.times)
        return Grid(labels, sites, self.time_axis_.numbers(times))

    def predict(  # type: ignore[override]
        self,
        nodes: Any = None,
        times: Any = None,
        return_std: bool = False,
    ) -> Any:
        """Predictive law of observations at nodes and times.

        Parameters
        ----------
        nodes
            Labels (a,), in whose order the answer is; None: all nodes in the order of the graph.
        times
            Times (b,) in any order; None: the times of the fit. Later times are forecasts.
        return_std
            Also return the standard deviation.

        Returns
        -------
        Any
            In the form of the data: a `DataArray` of the mean, or a `Dataset` with `mean` and
            `std`; wide tables; or an array (a, b), with `return_std` a pair of arrays.
        """
        check_is_fitted(self)
        grid = self.grid(nodes, times)
        with named_exhaustion("predict"):
            mean, std = self.law_on_grid(grid.sites, grid.times, return_std)
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
        from coupledgp.diagnostics.render.pictures import series_of  # slow

        names = [str(one) for one in self.nodes_]
        name = names[0] if X is None else check_choice(str(X), names, "X")
        label = list(self.nodes_)[names.index(name)]
        return series_of(self, [label], self.grid_process_.times, self.panel_.name or "")

    def law_on_grid(
        self, sites: IntArray, stamps: FloatArray, with_std: bool = True
    ) -> tuple[FloatArray, FloatArray | None]:
        """Mean and standard deviation (a, b), units of y, at site numbers and times of the axis."""
        mean, std = self.modelled_law_on_grid(sites, stamps)
        if self.transform_ is not None:
            mean, variance = moments_back(self.transform_, mean, std)
            std = np.sqrt(variance)
        return mean, std if with_std else None

    def modelled_law_on_grid(
        self, sites: IntArray, stamps: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation (a, b) of the values, transformed if they are modelled so."""
        mean, variance = self.grid_process_.grid_law(sites, stamps)
        return mean, np.sqrt(variance)

    def quantiles_on_grid(
        self, sites: IntArray, stamps: FloatArray, probabilities: ArrayLike
    ) -> FloatArray:
        """Quantiles (a, b, q), units of y, at site numbers and times of the axis."""
        wanted = check_probabilities(probabilities, "probabilities")
        mean, std = self.modelled_law_on_grid(sites, stamps)
        tails = self.grid_process_.grid_tails(sites, stamps)[..., None]
        found = mean[..., None] + std[..., None] * student_quantiles(wanted, tails)
        return found if self.transform_ is None else mapped_back(self.transform_, found)

    def forecast(self, ahead: Any, nodes: Any = None, return_std: bool = True) -> Any:
        """Predictive law after the last time of the data.

        Parameters
        ----------
        ahead
            A duration such as `"1h"`, or a number in the unit of the times; every step of the axis
            up to it is forecast.
        nodes, return_std
            As in `predict`; the sensors if left out, in the order of the fit.

        Raises
        ------
        InvalidInputError
            An argument is invalid.
        MemoryLimitError
            It takes more memory than there is.
        """
        check_is_fitted(self)
        labels = self.nodes_ if nodes is None else nodes
        stamps = self.times_ahead(ahead, self._labels.numbers(labels).size)
        return self.predict(labels, self.time_axis_.labels(stamps), return_std)

    def times_ahead(self, ahead: Any, n_nodes: int | None = None) -> FloatArray:
        """Times (b,) of the axis after the last one, step by step up to a duration."""
        process = self.grid_process_
        times, step = process.times, process.step
        count = self.time_axis_.steps(ahead, step, "ahead")
        p = process.law_.sensors.size
        check_memory(
            24.0 * count * (3 * p + (n_nodes or p)),
            f"ahead: laws of {n_nodes or p} nodes at {count:.4g} steps of {step:g} "
            f"{self.time_axis_.unit}",
            "ask for a shorter time, fewer nodes, or some later times by predict(times=...)",
        )
        return np.asarray(times[-1] + step * np.arange(1, count + 1))

    def sample_y(  # type: ignore[override]
        self,
        nodes: Any = None,
        times: Any = None,
        n_samples: int = 1,
        random_state: Any = 0,
    ) -> Any:
        """Draw from the posterior, jointly at nodes and times.

        Returns
        -------
        Any
            Draws (a, b, n_samples), in the form of the data.
        """
        check_is_fitted(self)
        check_positive_int(n_samples, "n_samples")
        grid, rng = self.grid(nodes, times), np.random.default_rng(draw_seed(random_state))
        b, places = np.unique(grid.times, return_inverse=True)
        points = np.column_stack([np.repeat(grid.sites, b.size), np.tile(b, grid.sites.size)])
        with named_exhaustion("sample"):
            drawn = self.process_.sample(points.astype(np.float64), n_samples, rng)[:, 0]
        drawn = drawn.reshape(grid.sites.size, b.size, n_samples)[:, places]
        return self.panel_.restored(grid.labels, grid.times, sample=drawn)

    def log_density(  # type: ignore[override]
        self, nodes: Any, times: Any, values: ArrayLike
    ) -> FloatArray:
        """Log predictive density (m,), nats, of values (m,) at nodes (m,) and times (m,)."""
        return super().log_density((nodes, times), values)

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
        usual, sensors = self.grid_process_.usual, self.grid_process_.law_.sensors
        if usual is None:
            raise InvalidInputError(
                f"model: expected one with a usual day, got none ({self.method_reason_})"
            )
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

    def leave_one_sensor_out(self) -> SensorTable:
        """Laws of the values of each sensor given all other sensors at the same step, with scores.

        Parameters of the law of nodes without a sensor are those of all sensors.
        """
        check_is_fitted(self)
        process = self.grid_process_
        nodes = self._labels.labels(process.law_.sensors)
        with named_exhaustion("leave_one_sensor_out"):
            mean, variance = process.sensors_left_out()
        return SensorTable.of(nodes, process.values, mean, np.sqrt(variance), self.transform_)

    def prior_covariance(self, nodes: Any = None, times: Any = None) -> FloatArray:
        """Raise: values over time have no prior apart from what is learned of them."""
        return super().prior_covariance(None if nodes is None else (nodes, times))


def _is_pair(nodes: Any) -> bool:
    """Whether nodes are a pair of labels (m,) and times (m,)."""
    return isinstance(nodes, (tuple, list)) and len(nodes) == 2 and np.ndim(nodes[0]) == 1
