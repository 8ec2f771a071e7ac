"""A fitted model of values over time: its points, sensors, times, gaps and outliers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from coupledgp.errors import InvalidInputError
from coupledgp.gp.protocol import Data, Points
from coupledgp.gp.transformed import TransformedGP, untransformed
from coupledgp.gp.transforms import TargetTransform
from coupledgp.ground.validation import check_magnitude, check_vector
from coupledgp.models.estimator import ProcessRegressor
from coupledgp.models.options import estimator
from coupledgp.random import FloatArray, IntArray
from coupledgp.time.axis import TimeAxis
from coupledgp.time.panel import Panel, as_panel
from coupledgp.time.process import SensorsGP
from coupledgp.time.sites import SiteLabels

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


@dataclass(frozen=True, eq=False)
class Grid:
    """Sites and times of a law that is wanted.

    Attributes
    ----------
    labels : list
        Labels (a,) of the sites.
    sites : IntArray (a,)
        Their numbers.
    times : FloatArray (b,)
        Numbers of the times on the axis, in any order, also several times.
    """

    labels: list[Any]
    sites: IntArray
    times: FloatArray

    @cached_property
    def _distinct(self) -> tuple[FloatArray, IntArray]:
        distinct, places = np.unique(self.times, return_inverse=True)
        return distinct, places

    @property
    def distinct(self) -> FloatArray:
        """The distinct times, rising."""
        return self._distinct[0]

    @property
    def places(self) -> IntArray:
        """Number (b,) of each time among the distinct ones."""
        return self._distinct[1]


@estimator
class SpaceTimeRecord(ProcessRegressor):
    """The record of a fitted model of values over time, and the points at which it answers."""

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


def read_panel(
    data: Any, further: tuple[Any, ...], times: Any, values: Any, resolution: Any, zone: Any,
    missing_values: Any,
) -> Panel:  # fmt: skip
    """The panel of the arguments of `fit`, given by name or, after the data, by position."""
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
    return as_panel(data, times, values, resolution, missing_values, zone)


def longest_run(observed: Any) -> int:
    """Steps of the longest run of cells (p, n) without an observation in a row."""
    longest = 0
    for row in ~observed:
        edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(np.int8), [0]])))
        longest = max(longest, int((edges[1::2] - edges[::2]).max(initial=0)))
    return longest
