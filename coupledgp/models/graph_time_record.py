"""A fitted space-time model: its points, sensors, times, terms, gaps and outliers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from coupledgp.errors import InvalidInputError
from coupledgp.gp.graph_time import GraphTimeGP
from coupledgp.gp.protocol import Data, Points
from coupledgp.gp.transformed import TransformedGP, untransformed
from coupledgp.gp.transforms import TargetTransform
from coupledgp.gp.usual_days import UsualDayGP
from coupledgp.gp.wrapped import innermost
from coupledgp.ground.validation import check_magnitude, check_vector
from coupledgp.inference.space_time.filters import Term
from coupledgp.inference.space_time.posterior import Cells
from coupledgp.inference.space_time.site_labels import SiteLabels
from coupledgp.inference.space_time.sites import domain_of
from coupledgp.models.estimator import ProcessRegressor
from coupledgp.models.graph_time_parts import longest_run
from coupledgp.models.options import estimator
from coupledgp.random import FloatArray, IntArray
from coupledgp.search.space_time.fitter import Outliers
from coupledgp.series import Panel, TimeAxis


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
    rejected : bool
        Whether they were left out.
    """

    node: list[Any]
    time: Any
    score: FloatArray
    rejected: bool


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
    def cells(self) -> Cells:
        """The sites with their distinct times, rising."""
        return Cells(np.asarray(self.sites, dtype=np.int64), self._distinct[0])

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
            place = np.argsort(self.grid_process_.rows.sensors[self._order])
            row = np.searchsorted(self.grid_process_.rows.sensors, points[:, 0])
            return points[np.argsort(place[row], kind="stable")]
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
        return SiteLabels(domain_of(self.grid_process_.sites))

    @property
    def grid_process_(self) -> GraphTimeGP:
        """The process on the grid, of values about the usual day: that inside of `process_`."""
        process = innermost(self.process_)
        assert isinstance(process, GraphTimeGP)
        return process

    @property
    def days_process_(self) -> GraphTimeGP | UsualDayGP:
        """The process of values on the grid, transformed if they are modelled so, with its day."""
        process = untransformed(self.process_)
        assert isinstance(process, (GraphTimeGP, UsualDayGP))
        return process

    @property
    def usual_day_share_(self) -> dict[str, float] | None:
        """Share of the variance within days by part; None without a usual day."""
        process = self.days_process_
        usual = process.usual if isinstance(process, UsualDayGP) else None
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
        values = self.grid_process_.rows.values[self._order]
        return Panel(self.nodes_, self.time_axis_, values, None)

    @property
    def time_axis_(self) -> TimeAxis:
        """The axis of times of the last fit, whose numbers the process computes with."""
        axis: TimeAxis | None = self.fitted_.results.get("axis")
        return self.panel_.axis if axis is None else axis

    @property
    def nodes_(self) -> list[Any]:
        """Labels of the sensors in the order of the fit, those that were added later after them."""
        return self._labels.labels(self.grid_process_.rows.sensors[self._order])

    @property
    def _order(self) -> IntArray:
        """Rows (p,) of the process in the order of `nodes_`; its own are by the number of site."""
        rows = {int(site): row for row, site in enumerate(self.grid_process_.rows.sensors)}
        first = [rows.pop(int(site)) for site in self.fitted_.results["sensors"] if site in rows]
        return np.array([*first, *rows.values()], dtype=np.int64)

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
        """Relative variances D (p,) of noise and own terms of the sensors, as `nodes_` has them."""
        return np.asarray(self.grid_process_.parameters.roots[self._order] ** 2)

    @property
    def gaps_(self) -> Gaps:
        """Share, longest run and dark times of missing cells."""
        process = self.grid_process_
        observed = process.rows.observed
        dark = int((~observed.any(axis=0)).sum())
        return Gaps(float(1.0 - observed.mean()), longest_run(observed), dark)

    @property
    def outliers_(self) -> OutlyingCells:
        """Observations of the last fit that are far from their law given all others."""
        found: Outliers = self.fitted_.results["outliers"]
        panel = self.panel_
        sites = np.sort(self.fitted_.results["sensors"])
        nodes = self._labels.labels(sites[found.sensors])
        return OutlyingCells(
            nodes, panel.axis.labels(panel.axis.values[found.columns]), found.scores, found.rejected
        )

    @property
    def log_marginal_likelihood_error_(self) -> float:
        """Standard error of the log evidence, zero where it is exact."""
        if self.has_dynamics_:
            return 0.0
        return self.grid_process_.evidence_with_error[1]

    @property
    def has_dynamics_(self) -> bool:
        """Whether observations of sensors in gaps and ahead have the law of dynamics."""
        process = self.days_process_
        return isinstance(process, UsualDayGP) and process.dynamics is not None

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
        reasons = self.fitted_.results.get("reasons")
        return f"{self.grid_process_.reason}; {reasons}" if reasons else self.grid_process_.reason

    def grid(self, nodes: Any = None, times: Any = None) -> Grid:
        """Sites and times of labels, in their order.

        None stands for all nodes, in the order of the graph, and for the times of the fit.
        """
        sites = self._labels.numbers(nodes)
        labels = list(nodes) if nodes is not None else self._labels.labels(sites)
        if times is None:
            return Grid(labels, sites, self.grid_process_.rows.times)
        return Grid(labels, sites, self.time_axis_.numbers(times))
