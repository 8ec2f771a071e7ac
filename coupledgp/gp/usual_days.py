"""The process of values over time about a usual day, with learned dynamics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coupledgp.errors import ModelFileError
from coupledgp.gp.frozen_mean import KnownMean
from coupledgp.gp.graph_time import GraphTimeGP
from coupledgp.gp.graph_time_prior import sites_of_points
from coupledgp.gp.left_out import Groups, LeftOut
from coupledgp.gp.mixture import as_member
from coupledgp.gp.protocol import (
    Arrays,
    Data,
    GaussianProcess,
    Header,
    Points,
    PredictiveLaw,
    Problem,
    Want,
    finite_answer,
)
from coupledgp.gp.schema import Entries
from coupledgp.gp.usual_day_state import (
    days_state,
    dynamics_from,
    has,
    header_of,
    ratio_from,
    shared_from,
    usual_from,
)
from coupledgp.gp.wrapped import WrappedGP
from coupledgp.ground.progress import Progress, silent
from coupledgp.inference.nodes.forecast import Forecast
from coupledgp.inference.space_time.day_field import DayField
from coupledgp.inference.space_time.dynamics import MovingPosterior, SensorDynamics
from coupledgp.inference.space_time.learned_sites import under_kernel
from coupledgp.inference.space_time.posterior import Cells
from coupledgp.inference.space_time.usual_day import UsualDay
from coupledgp.random import FloatArray, IntArray

# Seconds of a step ahead for the cube of a sensor, on one core of a server of 2019.
CUBE_SECONDS = 5e-10
# Part of a step by which times may be off the grid.
ON_GRID = 1e-6


@as_member
@dataclass(frozen=True, eq=False, repr=False)
class UsualDayGP(KnownMean, WrappedGP):
    """The law of `y = m + z`: m the usual day, z a process about it.

    With dynamics the law of an observation that sensors lack, in a gap of the grid or at a later
    step of it, is that of a vector autoregression of z. All other laws are those of z: of sites
    without a sensor, of times off the grid, of new observations beside one that is there, and of f.
    `hyperparameters` and `units` are those of z.

    Attributes
    ----------
    inner : GaussianProcess
        Process of z: a `GraphTimeGP`, or its exact twin.
    usual : UsualDay or None
        Usual day of the sensors; None: it is zero.
    past : FloatArray (s, n)
        The usual day at its sensors and the times of the grid, which later days do not change.
    field : DayField or None
        Regression of the usual day on that of the sensors.
    dynamics : SensorDynamics or None
        Parameters of the autoregression.
    moving : MovingPosterior or None
        Its law given the observations.
    reason : str
        Why there are dynamics, or none.
    """

    observed: ClassVar[str] = "y_of_days"

    usual: UsualDay | None
    past: FloatArray
    field: DayField | None
    dynamics: SensorDynamics | None
    moving: MovingPosterior | None
    reason: str = ""

    @classmethod
    def of(
        cls,
        inner: GraphTimeGP,
        rows: Data,
        usual: UsualDay | None,
        past: FloatArray,
        dynamics: SensorDynamics | None = None,
        errors: FloatArray | None = None,
        reason: str = "",
    ) -> Self:
        """The process of observations y, of which the inner process has those about m.

        `errors` (p, n) are those of the dynamics one step ahead, if they are known better.
        """
        field = None
        if usual is not None:
            field = DayField.of(under_kernel(inner.sites), inner.rows.sensors, past)
        found = cls(inner, rows, usual, past, field, dynamics, None, reason)
        return replace(found, moving=found._conditioned_moving(errors))

    def _conditioned_moving(self, errors: FloatArray | None = None) -> MovingPosterior | None:
        """The law of the dynamics given the observations of the inner process."""
        if self.dynamics is None:
            return None
        values, observed, deviations = self._of_dynamics()
        return MovingPosterior.given(
            self.dynamics, self.dynamics.standardized(values), observed, deviations, errors
        )

    def _of_dynamics(self) -> tuple[FloatArray, Any, FloatArray]:
        """Values about the usual day, which are observed, and m (p, n), of the dynamics' sensors.

        Sensors that the inner process has not are unknown at all times.
        """
        assert self.dynamics is not None
        grid = self.grid
        places = np.searchsorted(grid.rows.sensors, self.dynamics.sensors)
        places = np.minimum(places, grid.rows.sensors.size - 1)
        there = grid.rows.sensors[places] == self.dynamics.sensors
        observed = grid.rows.observed[places] & there[:, None]
        values = np.where(observed, grid.rows.values[places], self.dynamics.level[:, None])
        return values, observed, self.usual_at(self.dynamics.sensors, grid.rows.times)[0]

    def unknown_cells(self, points: Points) -> tuple[IntArray, IntArray, IntArray, int]:
        """Points (u,) whose law is that of the dynamics, their rows and steps, and steps ahead.

        They are cells of the grid of the dynamics without an observation, and later steps.
        """
        none = np.empty(0, dtype=np.int64)
        if self.moving is None or self.dynamics is None:
            return none, none, none, 0
        times, step = self._times
        sensors = self.dynamics.sensors
        sites = sites_of_points(points)
        rows = np.minimum(np.searchsorted(sensors, sites), sensors.size - 1)
        steps = np.rint((points[:, 1] - times[0]) / step).astype(np.int64)
        on_grid = np.abs(times[0] + step * steps - points[:, 1]) <= ON_GRID * step
        inside = np.clip(steps, 0, times.size - 1)
        unknown = (sensors[rows] == sites) & on_grid & (steps >= 0)
        unknown &= (steps >= times.size) | ~self.moving.observed[rows, inside]
        at = np.flatnonzero(unknown)
        h = int(max(steps[at].max(initial=-1) + 1 - times.size, 0))
        return at, rows[at], steps[at], h

    def _ahead(self, h: int, rows: IntArray, steps: IntArray, known: FloatArray) -> FloatArray:
        """M (p, h) of the sensors of the dynamics at the next steps, zero where it is not asked.

        It is `known` at unknown cells, their rows and steps. Others have no part in their law.
        """
        assert self.dynamics is not None
        n = self._times[0].size
        later = steps >= n
        found = np.zeros((self.dynamics.sensors.size, h))
        found[rows[later], steps[later] - n] = known[later]
        return found

    def _moved(
        self, points: Points, mean: FloatArray, variance: FloatArray | None, known: FloatArray,
        of_known: FloatArray,
    ) -> tuple[FloatArray, FloatArray | None]:  # fmt: skip
        """Means of z and variances of y (n,), of the dynamics where these state them.

        `known` and `of_known` are m and its variance (n,).
        """
        at, rows, steps, h = self.unknown_cells(points)
        if not at.size:
            return mean, variance
        assert self.moving is not None
        assert self.dynamics is not None
        means, variances = self.moving.law_with(self._ahead(h, rows, steps, known[at]))
        scale = self.dynamics.scale[rows]
        mean = mean.copy()
        mean[at] = self.dynamics.level[rows] + scale * means[rows, steps]
        if variance is not None:
            variance = variance.copy()
            variance[at] = scale**2 * variances[rows, steps] + of_known[at]
        return mean, variance

    def grid_law(
        self,
        cells: Cells,
        with_variance: bool,
        *,
        latent: bool = False,
        wanted: NDArray[np.bool_] | None = None,
    ) -> tuple[FloatArray, FloatArray | None]:
        """Means and variances (a, b) at cells, units of y; of f if latent.

        Where `wanted` (a, b) is given, other cells may be NaN. The law of z is computed at sites
        with a wanted cell that the dynamics do not know, as in no forecast of a live feed.
        """
        known, of_known = self.usual_at(cells.sites, cells.times)
        points = np.column_stack([
            np.repeat(cells.sites, cells.times.size), np.tile(cells.times, cells.sites.size),
        ]).astype(np.float64)  # fmt: skip
        plain = np.ones(known.size, dtype=bool) if wanted is None else wanted.ravel().copy()
        if not latent:
            plain[self.unknown_cells(points)[0]] = False
        sites = np.flatnonzero(plain.reshape(known.shape).any(axis=1))
        mean = np.full(known.shape, np.nan)
        variance = np.full(known.shape, np.nan) if with_variance else None
        if sites.size:
            asked = Cells(cells.sites[sites], cells.times)
            of_z = plain.reshape(known.shape)[sites]
            mean[sites], found = self.grid.grid_law(
                asked, with_variance, latent=latent, wanted=of_z
            )
            if variance is not None and found is not None:
                variance[sites] = found + of_known[sites]
        flat = of_known.ravel()
        if latent or self.moving is None:
            return mean + known, variance
        own = None if variance is None else variance.ravel()
        moved, spread = self._moved(points, mean.ravel(), own, known.ravel(), flat)
        return moved.reshape(mean.shape) + known, None if spread is None else spread.reshape(
            mean.shape
        )

    def law(
        self, points: Points, want: Want, *, latent: bool = False, report: Progress = silent
    ) -> PredictiveLaw:
        mean, spread = self.inner.law(points, want, latent=latent, report=report)
        known, of_known = self._known_of(points)
        flat, shared = mean[:, 0], None if spread is None else spread[..., 0]
        of_points = of_known if want == "variance" else np.zeros((1, 1))
        if shared is not None and want == "covariance":
            of_points = self._known_covariance(points)
        if shared is not None:
            shared = shared + of_points
        if not latent and self.moving is not None:
            own = shared if want == "variance" else None
            flat, diagonal = self._moved(points, flat, own, known, of_known)
            if want == "variance":
                shared = diagonal
            elif shared is not None:
                shared = self._moved_covariance(points, shared, known, of_points)
        mean = finite_answer((flat + known)[:, None], "predictive mean")
        if shared is None or want == "mean":
            return PredictiveLaw(mean, None)
        return PredictiveLaw(mean, finite_answer(shared[..., None], f"predictive {want}"))

    def _moved_covariance(
        self, points: Points, covariance: FloatArray, known: FloatArray, of_known: FloatArray
    ) -> FloatArray:
        """Covariance (n, n) of observations with that of the cells of the dynamics in its place.

        These cells are taken as independent of all others, given the observations and m, which is
        given with its covariance (n, n).
        """
        at, rows, steps, h = self.unknown_cells(points)
        if not at.size:
            return covariance
        assert self.moving is not None
        assert self.dynamics is not None
        found = covariance - of_known
        found[at] = 0.0
        found[:, at] = 0.0
        scale = self.dynamics.scale[rows]
        ahead = self._ahead(h, rows, steps, known[at])
        own = self.moving.covariance(rows, steps, ahead)
        found[np.ix_(at, at)] = own * np.outer(scale, scale)
        return found + of_known

    def sample(
        self,
        points: Points,
        n_samples: int,
        rng: np.random.Generator,
        *,
        latent: bool = False,
        report: Progress = silent,
    ) -> FloatArray:
        drawn = self.inner.sample(points, n_samples, rng, latent=latent, report=report)[:, 0]
        known, errors = self._drawn_known(points, n_samples, rng)
        at, rows, steps, h = self.unknown_cells(points)
        if at.size and not latent:
            assert self.moving is not None
            assert self.dynamics is not None
            ahead = self._ahead(h, rows, steps, known[at])
            moved = self.moving.draws(n_samples, rng, ahead)[:, rows, steps].T
            drawn[at] = self.dynamics.level[rows, None] + self.dynamics.scale[rows, None] * moved
        return finite_answer((drawn + known[:, None] + errors)[:, None], "sample")

    @property
    def log_evidence(self) -> float:
        """Log evidence of the observations in units of y, by the dynamics where there are some."""
        if self.moving is None or self.dynamics is None:
            return self.inner.log_evidence
        count = self.moving.observed.sum(axis=1)
        return self.moving.filled.log_evidence - float(count @ np.log(self.dynamics.scale))

    def left_out(self, groups: ArrayLike, rows: ArrayLike | None = None) -> LeftOut:
        """Laws of observations given other groups; the usual day and all parameters are kept."""
        wanted = Groups.of(groups, len(self.data), rows)
        if self.moving is None:
            found = self.inner.left_out(groups, rows)
            known, spread = self._known_of(self.data.points[wanted.rows])
            return replace(
                found, means=found.means + known[:, None],
                variances=found.variances + spread[:, None],
            )  # fmt: skip
        if all(group.size == 1 for group in wanted.members):
            return self._single_left_out(wanted)
        return self._left_out_anew(wanted, wanted.members)

    def _single_left_out(self, wanted: Groups) -> LeftOut:
        """Laws of observations, each given all others, by the precision of the dynamics."""
        assert self.moving is not None
        assert self.dynamics is not None
        mean, variance = self.moving.left_out
        points = self.data.points[wanted.rows]
        times, step = self._times
        rows = np.searchsorted(self.dynamics.sensors, sites_of_points(points))
        steps = np.rint((points[:, 1] - times[0]) / step).astype(np.int64)
        scale = self.dynamics.scale[rows]
        known, spread = self._known_of(points)
        found = known + self.dynamics.level[rows] + scale * mean[rows, steps]
        spread = spread + scale**2 * variance[rows, steps]
        return LeftOut.single(found[:, None], spread[:, None])

    def _left_out_anew(self, groups: Groups, members: list[IntArray]) -> LeftOut:
        found = np.full((2, groups.n_rows, 1), np.nan)
        for group, rest in self.without(members):
            mean, variance = rest.law(self.data.points[group], "variance")
            assert variance is not None
            found[:, group] = mean, variance
        return LeftOut.single(*found[:, groups.rows])

    def left_out_correlation(self, groups: ArrayLike, rows: ArrayLike) -> Any:
        """Correlations of residuals, where they are those of the inner process."""
        return self.inner.left_out_correlation(groups, rows) if self.moving is None else None

    def exact(self) -> Self:
        """The process itself with dynamics, whose laws are exact; else about the exact one."""
        return self if self.dynamics is not None else super().exact()

    def exact_problem(self) -> Problem:
        """Prior and data of the exact process of z."""
        return self.inner.exact_problem()

    def law_forecast(self, n_sites: int, n_times: int, with_variances: bool) -> Forecast:
        """Cost of means, and of variances, at further times: of some sites, all on one grid."""
        found = self.grid.law_forecast(n_sites, n_times, with_variances)
        if self.dynamics is None:
            return found
        p = float(self.dynamics.sensors.size)
        return Forecast(found.seconds + 2.0 * CUBE_SECONDS * p**3 * n_times, found.bytes)

    def conditioned(self, data: Data, *, renormalize: bool = False) -> Self:
        """Return the same law given other data: the usual day, dynamics and prior are kept."""
        inner = self.inner.conditioned(self.inner_data(data), renormalize=renormalize)
        return self._about(inner, data)

    def _about(self, inner: GaussianProcess, data: Data) -> Self:
        """The law about an inner process given observations y."""
        if not isinstance(inner, GraphTimeGP):
            return replace(self, inner=inner, rows=data)
        past = self.past
        if self.usual is not None:
            past = self._of_sensors(inner.rows.times)
        found = replace(self, inner=inner, rows=data, past=past, moving=None)
        if self.dynamics is None:
            return found
        steps = np.diff(inner.rows.times)
        if steps.size and np.ptp(steps) > ON_GRID * steps.mean():
            return replace(found, dynamics=None, reason="times are not on one grid any more")
        return replace(found, moving=found._conditioned_moving())

    def updated(self, data: Data) -> Self:
        """Return the process given further data: new steps are added, older gaps stay.

        A day that ends joins the days of which the usual one is made, variances kept.
        """
        inner = self.grid.updated(self.inner_data(data))
        whole = self.data.followed_by(data).as_one_batch()
        first = inner.rows.times[0]
        if first > self._times[0][0]:
            whole = whole.take(np.flatnonzero(whole.points[:, 1] >= first))
        later = data.points[:, 1].min() > self._times[0][-1]
        same = np.array_equal(inner.rows.sensors, self.grid.rows.sensors)
        if self.moving is None or not (later and same):
            return self._about(inner, whole)._with_day()
        return self._followed(inner, whole)._with_day()

    def _followed(self, inner: GraphTimeGP, data: Data) -> Self:
        """The law with steps after the last one, parameters and older gaps kept."""
        assert self.moving is not None
        times, step = self._times
        new = inner.rows.times[inner.rows.times > times[-1]]
        if np.abs(np.diff(np.append(times[-1], new)) - step).max() > ON_GRID * step:
            return self._about(inner, data)
        past = np.zeros((len(self.past), new.size)) if self.usual is None else self._of_sensors(new)
        dropped = times.size + new.size - inner.rows.times.size
        past = np.concatenate([self.past, past], axis=1)[:, dropped:]
        found = replace(self, inner=inner, rows=data, past=past, moving=None)
        values, observed, deviations = found._of_dynamics()
        assert self.dynamics is not None
        part = slice(values.shape[1] - new.size, None)
        # Deviations of all steps, also of those that are not kept.
        before = self._of_dynamics()[2]
        moving = self.moving.updated(
            self.dynamics.standardized(values[:, part]), observed[:, part],
            np.concatenate([before, deviations[:, part]], axis=1),
        )  # fmt: skip
        return replace(found, moving=moving.last_steps(values.shape[1]))

    def _with_day(self) -> Self:
        """The process whose usual day has the whole days that ended since."""
        if self.usual is None:
            return self
        times, _ = self._times
        since = times > self.usual.end_of(times)
        if since.sum() < self.usual.n_steps:
            return self
        filled = self._days_filled()[:, since]
        return replace(self, usual=self.usual.with_days(filled, times[since]))

    def filled_values(self) -> FloatArray:
        """Values y (p, n) of the sensors on the grid, gaps filled by their means."""
        rows = self.grid.rows
        if self.moving is not None and self.dynamics is not None:
            x = self.moving.mean
            moved = self.dynamics.level[:, None] + self.dynamics.scale[:, None] * x
            places = np.minimum(np.searchsorted(self.dynamics.sensors, rows.sensors), len(x) - 1)
            known = (self.dynamics.sensors[places] == rows.sensors)[:, None]
            plain = self.units.offset[0] if known.all() else self._plain_filled()
            values = np.where(known, moved[places], plain)
        else:
            values = self._plain_filled()
        found = np.where(rows.observed, rows.values, values)
        return np.asarray(found + self.usual_at(rows.sensors, rows.times)[0])

    def _plain_filled(self) -> FloatArray:
        """Values z (p, n) of the sensors, gaps filled by the separable law."""
        return np.asarray(self.units.offset[0] + self.units.scale[0] * self.grid.posterior.filled)

    def _days_filled(self) -> FloatArray:
        """Values y (s, n) of the sensors of the usual day, and it itself for those that lack."""
        assert self.usual is not None
        assert self.field is not None
        found = self.past + self.usual.levels[:, None]
        rows, sensors = self.grid.rows, self.field.sensors
        places = np.minimum(np.searchsorted(rows.sensors, sensors), rows.sensors.size - 1)
        there = rows.sensors[places] == sensors
        found[there] = self.filled_values()[places[there]]
        return found

    def state(self) -> tuple[Header, Arrays]:
        """Values and arrays of the inner process, the usual day and the dynamics, for a file."""
        header, arrays = super().state()
        more, further = days_state(self)
        header |= {"process": type(self).__name__, "days": more}
        return header, arrays | further

    @classmethod
    def from_state(cls, header: Header, arrays: Arrays) -> Self:
        """Put the process of `state` together again."""
        inner = GraphTimeGP.from_state(header_of(header), arrays)
        entries = Entries(header, arrays, p=inner.rows.sensors.size, n=inner.rows.times.size)
        targets = entries.floats(cls.observed, len(inner.data), 1)
        rows = Data.of(inner.data.points, targets, weights=inner.data.weights)
        usual = field = None
        past = np.zeros((0, inner.rows.times.size))
        if has(entries, "usual"):
            usual = usual_from(entries, inner.rows.times)
            past = entries.floats("day_past", "s", "n")
            sensors = entries.integers("day_sensors", "s", low=0, high=inner.sites.n_sites - 1)
            field = DayField(
                under_kernel(inner.sites), sensors, ratio_from(entries),
                shared_from(entries),
            )  # fmt: skip
        reason = entries.text("days", "reason")
        found = cls(inner, rows, usual, past, field, None, None, reason)
        if not has(entries, "dynamics"):
            return found

        def standardized(dynamics: SensorDynamics, observed: Any) -> FloatArray:
            values, there, _ = replace(found, dynamics=dynamics)._of_dynamics()
            if not np.array_equal(there, observed):
                raise ModelFileError("moving_observed: expected the cells of y, got others")
            return dynamics.standardized(values)

        dynamics, moving = dynamics_from(entries, inner.rows.times.size, standardized)
        return replace(found, dynamics=dynamics, moving=moving)
