"""The process of values of sensors over time, at all nodes of a graph."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from coupledgp.core.left_out import Groups, LeftOut
from coupledgp.core.process import (
    Data,
    GaussianProcess,
    Points,
    PredictiveLaw,
    Problem,
    Want,
    finite_answer,
)
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.ground.codec import check_range, check_shapes, stored
from coupledgp.ground.memory import check_memory
from coupledgp.ground.validation import LARGEST_PRODUCT, SMALLEST_PRODUCT
from coupledgp.likelihoods.gaussian import Gaussian
from coupledgp.random import FloatArray, IntArray
from coupledgp.time.law import MOST_AHEAD, Posterior, SensorLaw
from coupledgp.time.places import Places
from coupledgp.time.recursion import LONGEST_LAG
from coupledgp.time.spread import student_cdf, student_log_density, student_quantiles
from coupledgp.time.usual_day import UsualDay

BoolArray = NDArray[np.bool_]
# Part of a step by which times may be off the grid.
ON_GRID = 1e-3
# Least variance of a reading that is known, of that of its sensor.
KNOWN = 1e-12
# Least chance of a draw: rounding of a normal one that is farther in the tail.
LEAST_CHANCE = 1e-16


class StudentMarginals(NamedTuple):
    """Laws of observations at p points, each alone.

    Attributes
    ----------
    mean, std : FloatArray (p, 1)
        Moments, units of y.
    tails : FloatArray (p, 1)
        Inverse degrees of freedom; zero: normal.
    """

    mean: FloatArray
    std: FloatArray
    tails: FloatArray

    def log_density(self, targets: FloatArray) -> FloatArray:
        """Log density (p,) of targets (p, 1)."""
        density = student_log_density((targets - self.mean) / self.std, self.tails)
        return np.asarray((density - np.log(self.std))[:, 0])

    def cdf(self, values: FloatArray) -> FloatArray:
        """Chances (p, 1, q) of observations of at most values (p, 1, q)."""
        z = (values - self.mean[..., None]) / self.std[..., None]
        return student_cdf(z, self.tails[..., None])

    def pit(self, targets: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Probability integral transforms (p, 1) of targets (p, 1)."""
        return self.cdf(targets[..., None])[..., 0]

    def quantiles(self, probabilities: FloatArray) -> FloatArray:
        """Quantiles (p, 1, q) at probabilities (q,)."""
        z = student_quantiles(np.asarray(probabilities), self.tails[..., None])
        return self.mean[..., None] + self.std[..., None] * z


class Unknown(NamedTuple):
    """Cells of sensors (u,) that are not known, by row and grid step, and their covariance."""

    rows: IntArray
    steps: IntArray
    covariance: FloatArray


@stored
@dataclass(frozen=True, eq=False, repr=False)
class SensorsGP(GaussianProcess):
    """The law of values at the nodes of a graph over time, given those of sensors.

    Points (n, 2) are numbers of nodes and times of a regular grid. A reading that is known is
    certain; gaps and later steps have the law of `coupledgp.time.law` about the usual day, and
    nodes without a sensor that of `coupledgp.time.places`, each step alone.

    Attributes
    ----------
    law_ : SensorLaw
        Parameters.
    places : Places
        The law of nodes without a sensor.
    usual : UsualDay or None
        Usual day; None: it is zero.
    past : FloatArray (p, n)
        The usual day without levels at the times of the grid, which later days do not change.
    times : FloatArray (n,)
        The regular grid.
    values : FloatArray (p, n)
        Readings, NaN in gaps.
    window : int or None
        Number of the last steps that updates keep.
    before : Posterior or None
        The law of the first steps, of which factors are taken over.
    """

    law_: SensorLaw
    places: Places
    usual: UsualDay | None
    past: FloatArray
    times: FloatArray
    values: FloatArray = field(metadata={"finite": False})
    window: int | None = None
    before: Posterior | None = field(default=None, metadata={"stored": False})

    @cached_property
    def units(self) -> Units:  # type: ignore[override]
        """Units of y, which are those of the process."""
        return Units(np.zeros(1), np.ones(1))

    @property
    def step(self) -> float:
        """Step of the grid."""
        return float(np.median(np.diff(self.times))) if self.times.size > 1 else 1.0

    @cached_property
    def observed(self) -> BoolArray:
        """Which cells (p, n) are known."""
        return ~np.isnan(self.values)

    @cached_property
    def rows(self) -> Data:
        """Observations as points, sensor by sensor."""
        rows, steps = np.nonzero(self.observed)
        points = np.column_stack([self.law_.sensors[rows], self.times[steps]]).astype(np.float64)
        return Data.of(points, self.values[rows, steps][:, None])

    @cached_property
    def kept(self) -> IntArray:
        """Steps of the grid of which the recursion is: not in long runs without any value."""
        return kept_steps(self.observed)

    @cached_property
    def posterior(self) -> Posterior:
        """The law of x at the steps that are kept."""
        at, law = self.kept, self.law_
        x = law.standardized(np.where(self.observed, self.values, 0.0) - self.past)
        return Posterior(law, x[:, at], self.observed[:, at], self.past[:, at], self.before)

    def days_at(self, steps: IntArray) -> FloatArray:
        """The usual day without levels (p, b) at steps of the grid, also later ones."""
        out = np.zeros((self.law_.level.size, steps.size))
        inside = steps < self.times.size
        out[:, inside] = self.past[:, steps[inside]]
        if self.usual is not None and not inside.all():
            times = self.times[0] + self.step * steps[~inside]
            out[:, ~inside] = self.usual.means(times) - self.usual.levels[:, None]
        return out

    def ahead_of(self, last: int, n_steps: int) -> tuple[FloatArray, FloatArray]:
        """Means and variances (p, h) of y at the steps after a kept one."""
        deviations = self.days_at(last + 1 + np.arange(n_steps))
        posterior = self.posterior
        if last != self.kept[-1]:
            k = int(np.searchsorted(self.kept, last)) + 1
            start = max(k - 10 * LONGEST_LAG, 0)
            part = slice(start, k)
            posterior = Posterior(
                self.law_, posterior.filled[:, part], np.ones_like(posterior.observed[:, part]),
                posterior.deviations[:, part],
            )  # fmt: skip
        mean, variance, _ = posterior.ahead(deviations)
        law = self.law_
        mean = law.level[:, None] + deviations + law.scale[:, None] * mean
        return mean, law.scale[:, None] ** 2 * variance

    def _since(self, steps: IntArray) -> tuple[IntArray, IntArray]:
        """Places (b,) of the last kept steps at or before steps, -1 for none, and steps since."""
        place = np.searchsorted(self.kept, steps, side="right") - 1
        return place, steps - self.kept[np.maximum(place, 0)]

    def sensors_at(self, steps: IntArray) -> tuple[FloatArray, FloatArray]:
        """Means and variances (p, b) of the sensors at steps of the grid; zero where known."""
        law, (place, since) = self.law_, self._since(steps)
        mean, variance = np.zeros((2, law.level.size, steps.size))
        inside, early = since == 0, place < 0
        if inside.any():
            seen, values = self.observed[:, steps[inside]], self.values[:, steps[inside]]
            if seen.all():
                mean[:, inside] = values
            else:
                x, v, _ = (part[:, place[inside]] for part in self.posterior.gap_law)
                y = law.level[:, None] + self.past[:, steps[inside]] + law.scale[:, None] * x
                mean[:, inside] = np.where(seen, values, y)
                variance[:, inside] = np.where(seen, 0.0, law.scale[:, None] ** 2 * v)
        for k in np.unique(place[~inside & ~early]):  # steps without any value, and later ones
            mine = ~inside & (place == k)
            found = self.ahead_of(int(self.kept[k]), int(since[mine].max()))
            for out, part in zip((mean, variance), found, strict=True):
                out[:, mine] = part[:, since[mine] - 1]
        if early.any():
            mean[:, early] = (law.level[:, None] + self.days_at(np.maximum(steps, 0)))[:, early]
            variance[:, early] = law.scale[:, None] ** 2
        return mean, variance

    def grid_tails(self, sites: IntArray, times: FloatArray) -> FloatArray:
        """Inverse degrees of freedom (a, b) at nodes and times; zero: the law is normal."""
        spread, steps, rows = self.law_.spread, self.steps_of(times), self.rows_of(sites)
        out, (place, since) = np.zeros((sites.size, steps.size)), self._since(steps)
        found = np.zeros((self.law_.level.size, steps.size))
        later, inside = since > 0, since == 0
        if spread is not None and later.any():
            found[:, later] = spread.tails_ahead(int(since.max()))[since[later] - 1]
        if inside.any() and not self.observed[:, steps[inside]].all():
            found[:, inside] = self.posterior.gap_law[2][:, place[inside]]
        out[rows >= 0] = found[rows[rows >= 0]]
        return out

    @property
    def is_gaussian(self) -> bool:
        spread = self.law_.spread
        return not (self.law_.single[1] if spread is None else spread.tails.any())

    def marginals(self, points: Points) -> Any:
        """Student laws of observations at points, each alone."""
        sites, times, rows, columns = self._grid_of(points)
        mean, variance = (part[rows, columns] for part in self.grid_law(sites, times))
        tails = self.grid_tails(sites, times)[rows, columns]
        return StudentMarginals(mean[:, None], np.sqrt(variance)[:, None], tails[:, None])

    @cached_property
    def innovations(self) -> FloatArray:
        """Correlations (p, p) of the errors of sensors at one step."""
        Q = self.law_.markov.innovations
        roots = np.sqrt(Q.diagonal())
        return np.asarray(Q / np.outer(roots, roots))

    def rows_of(self, sites: IntArray) -> IntArray:
        """Rows (a,) of the sensors at nodes; -1 at others."""
        sensors = self.law_.sensors
        place = np.minimum(np.searchsorted(sensors, sites), sensors.size - 1)
        return np.where(sensors[place] == sites, place, -1)

    def steps_of(self, times: FloatArray) -> IntArray:
        """Steps (b,) of the grid of times.

        Raises
        ------
        InvalidInputError
            A time is off the grid, or before it.
        """
        found = (np.asarray(times, dtype=np.float64) - self.times[0]) / self.step
        steps = np.rint(found).astype(np.int64)
        off = np.flatnonzero((np.abs(found - steps) > ON_GRID) | (steps < 0))
        if off.size:
            raise InvalidInputError(
                f"times: expected times of the grid of the fit, every {self.step:g} from its first "
                f"one on, got one {found[off[0]]:.4g} steps after it; resolution= rounds data"
            )
        return steps

    def grid_law(self, sites: IntArray, times: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means and variances (a, b) of observations at nodes and times."""
        distinct, back = np.unique(self.steps_of(times), return_inverse=True)
        check_memory(
            24.0 * (sites.size + 3 * self.law_.level.size) * distinct.size,
            f"points: a grid of {sites.size} nodes and {distinct.size} times",
            "ask for fewer nodes or times at once",
        )
        of_sensors, spread = self.sensors_at(distinct)
        rows = self.rows_of(sites)
        there = rows >= 0
        mean = np.empty((sites.size, distinct.size))
        variance = np.empty_like(mean)
        floor = KNOWN * self.law_.scale[:, None] ** 2
        mean[there] = of_sensors[rows[there]]
        variance[there] = np.maximum(spread, floor)[rows[there]]
        if not there.all():
            W, rest = self.places.weights(sites[~there])
            found = self.places.predicted(sites[~there], W, of_sensors)
            out = rest[:, None] * self.places.factors(sites[~there], found)
            roots = np.sqrt(spread)
            for k in np.flatnonzero(spread.any(axis=0)):
                scaled = W * roots[:, k]
                out[:, k] += ((scaled @ self.innovations) * scaled).sum(axis=1)
            mean[~there], variance[~there] = found, out
        return mean[:, back], variance[:, back]

    def _grid_of(self, points: Points) -> tuple[IntArray, FloatArray, IntArray, IntArray]:
        sites, rows = np.unique(points[:, 0].astype(np.int64), return_inverse=True)
        times, columns = np.unique(points[:, 1], return_inverse=True)
        return sites, times, rows, columns

    def law(self, points: Points, want: Want, *, latent: bool = False) -> PredictiveLaw:
        """Law of observations; `latent` does not matter, as readings have no noise of their own."""
        sites, times, rows, columns = self._grid_of(points)
        mean, variance = (part[rows, columns] for part in self.grid_law(sites, times))
        mean = finite_answer(mean[:, None], "predictive mean")
        if want == "mean":
            return PredictiveLaw(mean, None)
        found = variance if want == "variance" else self.covariance(points, variance)
        return PredictiveLaw(mean, finite_answer(found[..., None], f"predictive {want}"))

    def covariance(self, points: Points, variance: FloatArray) -> FloatArray:
        """Covariance (m, m) of observations at points of variances (m,), exact up to their scale.

        At nodes without a sensor it is that of the sensors about them, and of what these leave,
        whose correlation over time is that of the residuals of sensors left out.
        """
        L, unknown, rest = self._joint(points)
        found = L @ unknown.covariance @ L.T + rest
        own = np.maximum(found.diagonal(), 1e-300)
        ratio = np.sqrt(variance / own)
        found = found * np.outer(ratio, ratio)
        np.fill_diagonal(found, variance)
        return np.asarray((found + found.T) / 2)

    def _joint(self, points: Points) -> tuple[FloatArray, Unknown, FloatArray]:
        """Weights (m, u) of unknown cells of sensors, these, and covariances (m, m) of the rest."""
        sites = points[:, 0].astype(np.int64)
        steps = self.steps_of(points[:, 1])
        rows, n = self.rows_of(sites), self.times.size
        place = np.minimum(np.searchsorted(self.kept, steps), self.kept.size - 1)
        moving = (self.kept[place] == steps) | (steps > self.kept[-1])
        wanted: set[tuple[int, int]] = set()
        for row, step in zip(rows[moving].tolist(), steps[moving].tolist(), strict=True):
            of_step = [row] if row >= 0 else range(self.law_.level.size)
            wanted |= {(i, step) for i in of_step if step >= n or not self.observed[i, step]}
        check_memory(
            8.0 * (3 * len(wanted) ** 2 + 2 * len(wanted) * len(points) + 3 * len(points) ** 2),
            f"points: the joint law of {len(points)} points, {len(wanted)} unknown readings",
            "ask for fewer points, or for return_std",
        )
        cells = np.array(sorted(wanted), dtype=np.int64).reshape(-1, 2)
        index = {tuple(cell): k for k, cell in enumerate(cells.tolist())}
        unknown = Unknown(cells[:, 0], cells[:, 1], self._cells_covariance(*cells.T))
        L = np.zeros((len(points), len(cells)))
        others = np.flatnonzero(rows < 0)
        distinct, which = np.unique(sites[others], return_inverse=True)
        W, left = self.places.weights(distinct)
        for k in range(len(points)):
            if rows[k] >= 0 and moving[k]:
                cell = index.get((int(rows[k]), int(steps[k])))
                if cell is not None:
                    L[k, cell] = 1.0
        for k, w in zip(others.tolist(), which.tolist(), strict=True):
            mine = np.flatnonzero(cells[:, 1] == steps[k])
            L[k, mine] = W[w, cells[mine, 0]]
        rest = np.diag(np.where(moving, 0.0, 1.0))
        if others.size:
            across = self.places.left_covariance(distinct, W)
            roots = np.sqrt(left / across.diagonal())
            across = across * np.outer(roots, roots)
            apart = np.abs(steps[others][:, None] - steps[others])
            rest[np.ix_(others, others)] = across[np.ix_(which, which)] * (
                self.places.residual_correlation(apart)
            )
        return L, unknown, rest

    def _cells_covariance(self, rows: IntArray, steps: IntArray) -> FloatArray:
        """Covariance (u, u) of unknown readings of sensors at kept and later steps."""
        if not rows.size:
            return np.zeros((0, 0))
        last = int(self.kept[-1])
        h = max(int(steps.max()) - last, 0)
        if h > MOST_AHEAD:
            raise InvalidInputError(
                f"times: expected joint laws of up to {MOST_AHEAD} steps ahead, got {h}"
            )
        at = np.where(
            steps > last, self.kept.size + steps - last - 1, np.searchsorted(self.kept, steps)
        )
        deviations = self.days_at(last + 1 + np.arange(h))
        found = self.posterior.covariance(rows, at, deviations)
        scale = self.law_.scale[rows]
        return np.asarray(found * np.outer(scale, scale))

    def sample(
        self,
        points: Points,
        n_samples: int,
        rng: np.random.Generator,
        *,
        latent: bool = False,
    ) -> FloatArray:
        mean, covariance = self.law(points, "covariance")
        assert covariance is not None
        values, vectors = np.linalg.eigh(covariance[..., 0])
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        drawn = root @ rng.standard_normal((len(points), n_samples))
        sites, times, rows, columns = self._grid_of(points)
        tails = self.grid_tails(sites, times)[rows, columns]
        heavy = np.flatnonzero(tails)
        std = np.sqrt(np.einsum("ii->i", covariance[..., 0]))[heavy, None]
        chances = np.clip(ndtr(drawn[heavy] / std), LEAST_CHANCE, 1 - LEAST_CHANCE)
        drawn[heavy] = std * student_quantiles(chances, tails[heavy, None])
        drawn = mean + drawn
        return finite_answer(drawn[:, None], "sample")

    @property
    def noise(self) -> Gaussian:
        """None: lags of a sensor's own readings carry it."""
        return Gaussian(0.0)

    @property
    def hyperparameters(self) -> SensorLaw:
        """The parameters of the law of the sensors."""
        return self.law_

    def summary(self) -> dict[str, Any]:
        law = self.law_
        found: dict[str, Any] = {
            "kernel of the nodes": repr(self.places.sites.kernel),
            "ridge of all sensors' lags": law.ridge, "log density of a step": law.density,
        }  # fmt: skip
        if self.usual is not None:
            found["shares of the usual day"] = self.usual.shares
        return found

    @property
    def log_evidence(self) -> float:
        """Log density of the readings, nats, by the law of the recursion."""
        count = self.observed.sum(axis=1)
        return self.posterior.log_evidence - float(count @ np.log(self.law_.scale))

    def left_out(self, groups: ArrayLike, rows: ArrayLike | None = None) -> LeftOut:
        """Laws of observations given other groups; the usual day and all parameters are kept."""
        wanted = Groups.of(groups, len(self.data), rows)
        if any(group.size > 1 for group in wanted.members):
            return self._left_out_anew(wanted, wanted.members)
        points = self.data.points[wanted.rows]
        at, steps = self.rows_of(points[:, 0].astype(np.int64)), self.steps_of(points[:, 1])
        mean, variance = (part[at, steps] for part in self.cells_left_out())
        return LeftOut.single(mean[:, None], variance[:, None])

    def cells_left_out(self) -> tuple[FloatArray, FloatArray]:
        """Means and variances (p, n) of each reading given all others; NaN at other cells."""
        found = np.full((2, *self.values.shape), np.nan)
        x, variance = self.posterior.left_out
        law, at = self.law_, self.kept
        found[0][:, at] = law.level[:, None] + self.past[:, at] + law.scale[:, None] * x
        found[1][:, at] = law.scale[:, None] ** 2 * variance
        found[:, ~self.observed] = np.nan
        return found[0], found[1]

    def sensors_left_out(self) -> tuple[FloatArray, FloatArray]:
        """Means and variances (p, n) of the readings of each sensor by the others' at that step."""
        steps = np.arange(self.times.size)
        return self.places.left_out(self.sensors_at(steps)[0])

    def prior(self, points: Points) -> FloatArray:
        raise InvalidInputError(
            "model: expected one with a prior of its own, got sensors over time"
        )

    def exact(self) -> Self:
        return self

    def exact_problem(self) -> Problem:
        raise InvalidInputError("model: expected one with an exact twin, got sensors over time")

    def conditioned(self, data: Data, *, renormalize: bool = False) -> Self:
        """Return the same law given other data: the usual day and all parameters are kept."""
        return self._given(data, np.full(self.values.shape, np.nan))

    def updated(self, data: Data) -> Self:
        """Return the law given further data: parameters are kept, whole days join the usual one.

        Raises
        ------
        InvalidInputError
            A reading is there already, or a node has no sensor.
        """
        return self._given(data, self.values)._windowed()._with_day()

    def _given(self, data: Data, values: FloatArray) -> Self:
        points = data.points
        sites = points[:, 0].astype(np.int64)
        rows = self.rows_of(sites)
        if (rows < 0).any():
            raise InvalidInputError(
                "nodes: expected sensors of the fit, got "
                f"{int((rows < 0).sum())} values of others; fit again"
            )
        steps = self.steps_of(points[:, 1])
        n = max(self.times.size, int(steps.max()) + 1)
        more = n - self.times.size
        whole = np.concatenate([values, np.full((len(values), more), np.nan)], axis=1)
        taken = ~np.isnan(whole[rows, steps])
        if taken.any():
            time = float(points[np.flatnonzero(taken)[0], 1])
            raise InvalidInputError(
                f"values: expected times without a value yet, got {int(taken.sum())} that have "
                f"one, first at {time:g} after the first time"
            )
        whole[rows, steps] = data.targets[:, 0]
        later = self.times[-1] + self.step * np.arange(1, more + 1)
        past = np.concatenate([self.past, self.days_at(self.times.size + np.arange(more))], axis=1)
        before = None
        n_kept = self.kept.size
        found = replace(
            self, times=np.concatenate([self.times, later]), past=past, values=whole, before=None
        )
        same = np.array_equal(found.kept[:n_kept], self.kept)
        if same and np.array_equal(found.observed[:, self.kept], self.observed[:, self.kept]):
            before = self.posterior
        return replace(found, before=before)

    def _windowed(self) -> Self:
        """The law of the last steps, once those before them are a fourth more."""
        n = self.times.size
        if self.window is None or n <= self.window + max(self.window // 4, LONGEST_LAG):
            return self
        part = slice(n - self.window, None)
        return replace(
            self, times=self.times[part], past=self.past[:, part], values=self.values[:, part],
            before=None,
        )  # fmt: skip

    def _with_day(self) -> Self:
        """The law whose usual day has the whole days that ended since; the past does not change."""
        if self.usual is None:
            return self
        since = self.times > self.usual.end_of(self.times)
        if since.sum() < self.usual.n_steps:
            return self
        filled = self.sensors_at(np.flatnonzero(since))[0]
        return replace(self, usual=self.usual.with_days(filled, self.times[since]))

    def read_back(self) -> Self:
        """The process of a file.

        Raises
        ------
        ModelFileError
            Its parts are of different sizes, or have no reading.
        """
        law, places = self.law_, self.places
        p, n_sites = law.sensors.size, places.sites.n_sites
        check_range(law, 0, n_sites - 1, "sensors")
        if not p or (np.diff(law.sensors) <= 0).any() or self.times.size < 2:
            raise ModelFileError("sensors: expected rising nodes and two times, got others")
        law.check(p)
        check_shapes(self, past=(p, "n"), times=("n",), values=(p, "n"))
        check_shapes(places, sensors=(p,), mean=("c",), coefficients=(3,))
        if int(places.sites.components().max()) + 1 != places.mean.size:
            raise ModelFileError("places: expected a mean of each component, got others")
        check_range(places, SMALLEST_PRODUCT, LARGEST_PRODUCT, "variance", "nugget", "scale")
        check_range(self, 2, 2**40, "window")
        if (np.diff(self.times) <= 0).any() or not self.observed.any():
            raise ModelFileError("times: expected rising times and a reading, got others")
        if not np.array_equal(places.sensors, law.sensors) or np.isinf(self.values).any():
            raise ModelFileError("values: expected readings of the sensors, got others")
        if self.usual is not None:
            self.usual.check(p)
        return self


def kept_steps(observed: BoolArray) -> IntArray:
    """Steps (k,) that are not in a run of more than 12 without any value, nor in one at an end."""
    some = observed.any(axis=0)
    edges = np.flatnonzero(np.diff(np.concatenate([[1], some.astype(np.int8), [1]])))
    kept = np.ones(some.size, dtype=bool)
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        if end - start > LONGEST_LAG or start == 0 or end == some.size:
            kept[start:end] = False
    return np.flatnonzero(kept)
