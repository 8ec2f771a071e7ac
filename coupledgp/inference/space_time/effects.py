"""Effects of covariates on sensors: random coefficients, common ones and those of each sensor.

With columns w of nodes and z of times, or of both, the effect at a site i and a time t is

    m(i, t) = w_i'g + z_it'(b + d_i) ,   g_c ~ N(0, v_c) ,   b_c ~ N(0, v_c) ,   d_ic ~ N(0, t_c) .

A covariate has a variance of its number or kinds, one of its smooth part, and one t of what
sensors have of their own; these have the greatest restricted likelihood of the scores
(`sensor_scores`, `variance_parts`), in which the mean of all values is free. An effect that the
data do not show has the variance, and so the coefficients, near zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from coupledgp.errors import InvalidInputError
from coupledgp.inference.space_time.effect_columns import EffectColumns
from coupledgp.inference.space_time.sensor_scores import SensorLaw, SensorScores
from coupledgp.inference.space_time.variance_parts import LIMITS, fitted_parts, precision_of
from coupledgp.random import FloatArray, IntArray
from coupledgp.series import TimeAxis

# Parts of the variance of a covariate.
PARTS = ("linear or kinds", "smooth", "own")
# Most scores that are worked on together: more sensors than allow it are thinned evenly.
MOST_SCORES = 1600
# Most columns of times; each is a coefficient of each sensor.
MOST_COLUMNS = 48


@dataclass(frozen=True)
class EffectGroup:
    """Coefficients of one variance.

    Attributes
    ----------
    covariate : int
        Number of the covariate.
    part : int
        Number in `PARTS`.
    places : tuple of int
        Places of the coefficients.
    """

    covariate: int
    part: int
    places: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class SensorEffects:
    """Posterior of the coefficients, in units of y for each column.

    Attributes
    ----------
    columns : tuple of EffectColumns
        Columns of each covariate.
    axis : TimeAxis
        Axis of the times.
    sensors : IntArray (p,)
        Rising sites of sensors with coefficients of their own.
    sensor_means : FloatArray (p, K)
        Mean of each column of times over the observations of each sensor.
    variances : FloatArray (c, 3)
        Variances of the covariates by `PARTS`.
    gains : FloatArray (c,)
        Nats of log likelihood that the data lose without each covariate.
    mean : FloatArray (Q,)
        Means of the coefficients: the common ones, then own ones by covariate and sensor.
    covariance : FloatArray (Q, Q)
        Their covariance.
    """

    columns: tuple[EffectColumns, ...]
    axis: TimeAxis
    sensors: IntArray
    sensor_means: FloatArray
    variances: FloatArray
    gains: FloatArray
    mean: FloatArray
    covariance: FloatArray

    @cached_property
    def groups(self) -> list[EffectGroup]:
        """Coefficients by variance."""
        return groups_of(self.columns, self.sensors.size)

    @cached_property
    def n_common(self) -> int:
        """Number of the coefficients that all sensors share."""
        return sum(one.n_columns for one in self.columns)

    def with_columns(self, columns: tuple[EffectColumns, ...]) -> SensorEffects:
        """The same coefficients with further known values."""
        return replace(self, columns=columns)

    def common(self, number: int) -> slice:
        """Places of the common coefficients of a covariate."""
        first = sum(one.n_columns for one in self.columns[:number])
        return slice(first, first + self.columns[number].n_columns)

    def own(self, number: int) -> slice:
        """Places of the coefficients (p, n_plain) of sensors; none of a covariate of nodes."""
        moving = [one for one in self.columns[:number] if not one.is_static]
        first = self.n_common + self.sensors.size * sum(one.n_plain for one in moving)
        one = self.columns[number]
        return slice(first, first + (0 if one.is_static else self.sensors.size * one.n_plain))

    def _rows(self, sites: IntArray) -> tuple[IntArray, NDArray[np.bool_]]:
        """Row (a,) of the sensor at each site, and whether there is one."""
        rows = np.minimum(np.searchsorted(self.sensors, sites), self.sensors.size - 1)
        return rows, self.sensors[rows] == sites

    def mean_of(self, number: int, sites: IntArray, times: FloatArray) -> FloatArray:
        """Mean effect (a, b) of a covariate."""
        one = self.columns[number]
        Z = one.at(self.axis, sites, times)
        return self._applied(number, Z, sites, self.mean, times.size)

    def _applied(
        self, number: int, Z: FloatArray, sites: IntArray, u: FloatArray, b: int
    ) -> FloatArray:
        """Effect (a, b) of columns Z (k, a or 1, b or 1) for coefficients u (Q,)."""
        one = self.columns[number]
        found = np.einsum("k,kab->ab", u[self.common(number)], Z)
        out = np.broadcast_to(found, (sites.size, b)).copy()
        if not one.is_static:
            rows, there = self._rows(sites)
            own = u[self.own(number)].reshape(self.sensors.size, one.n_plain)
            coefficients = np.where(there[:, None], own[rows], 0.0)
            plain = np.broadcast_to(Z[: one.n_plain], (one.n_plain, *out.shape))
            out += np.einsum("ak,kab->ab", coefficients, plain)
        return out

    def at(
        self, sites: IntArray, times: FloatArray, known: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Mean and variance (a, b) at sites and times; see `contrasts` for `known`."""
        mean = np.zeros((sites.size, times.size))
        for number in range(len(self.columns)):
            mean += self.mean_of(number, sites, times)
        contrasts = [self.contrasts(site, times, known) for site in sites.tolist()]
        variance = np.stack([self._variance(*found) for found in contrasts])
        return mean, variance

    def without_own(self, sites: IntArray, times: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance (a, b) at sites as if no sensor stood there."""
        mean = np.zeros((sites.size, times.size))
        nothing = np.empty(0, dtype=np.int64)
        for number, one in enumerate(self.columns):
            Z = one.at(self.axis, sites, times)
            mean += np.einsum("k,kab->ab", self.mean[self.common(number)], Z)
        contrasts = [self.contrasts(site, times, nothing, own=False) for site in sites.tolist()]
        return mean, np.stack([self._variance(*found) for found in contrasts])

    def contrasts(
        self, site: int, times: FloatArray, known: IntArray, *, own: bool = True
    ) -> tuple[FloatArray, IntArray, FloatArray]:
        """Rows (b, r) of the error at a site, places (r,) of its coefficients, and own variance.

        The level of a site that is `known` (sensors with observations) is no effect's: its columns
        are about their mean over its observations, and those of nodes are zero. At other sites own
        coefficients have their prior variance, whose part (b,) is given last.
        """
        sites = np.array([site])
        rows, found = self._rows(sites)
        is_sensor = own and bool(found[0])
        is_known = is_sensor and bool(np.isin(site, known))
        parts, places, rest = [], [], np.zeros(times.size)
        moved = 0
        for number, one in enumerate(self.columns):
            Z = np.broadcast_to(
                one.at(self.axis, sites, times)[:, 0], (one.n_columns, times.size)
            ).copy()
            common = np.arange(self.n_common)[self.common(number)]
            if one.is_static:
                if not is_known:
                    parts.append(Z)
                    places.append(common)
                continue
            if is_known:
                Z -= self.sensor_means[rows[0], moved : moved + one.n_columns, None]
            moved += one.n_columns
            parts.append(Z)
            places.append(common)
            if is_sensor:
                all_own = self.own(number)
                grid = np.arange(all_own.start, all_own.stop).reshape(self.sensors.size, -1)
                parts.append(Z[: one.n_plain])
                places.append(grid[rows[0]])
            else:
                rest += self.variances[number, 2] * (Z[: one.n_plain] ** 2).sum(axis=0)
        if not parts:
            return np.zeros((times.size, 0)), np.empty(0, dtype=np.int64), rest
        return np.concatenate(parts).T, np.concatenate(places), rest

    def _variance(self, rows: FloatArray, places: IntArray, rest: FloatArray) -> FloatArray:
        C = self.covariance[np.ix_(places, places)]
        return np.maximum(((rows @ C) * rows).sum(axis=1), 0.0) + rest

    def covariance_of(self, sites: IntArray, times: FloatArray, known: IntArray) -> FloatArray:
        """Covariance (m, m) of the errors of effects at points, sites (m,) and times (m,)."""
        R = np.zeros((sites.size, self.mean.size))
        found = np.zeros((sites.size, sites.size))
        for site in np.unique(sites).tolist():
            at = np.flatnonzero(sites == site)
            rows, places, _ = self.contrasts(site, times[at], known)
            R[np.ix_(at, places)] = rows
            found[np.ix_(at, at)] = self._unknown(site, times[at])
        return np.asarray(found + R @ self.covariance @ R.T)

    def _unknown(self, site: int, times: FloatArray) -> FloatArray:
        """Covariance (b, b) of own effects at a site that has no coefficients of its own."""
        sites, out = np.array([site]), np.zeros((times.size, times.size))
        if self._rows(sites)[1][0]:
            return out
        for number, one in enumerate(self.columns):
            if not one.is_static:
                Z = one.at(self.axis, sites, times)[: one.n_plain, 0]
                Z = np.broadcast_to(Z, (one.n_plain, times.size))
                out += self.variances[number, 2] * (Z.T @ Z)
        return out

    def drawn(
        self, sites: IntArray, times: FloatArray, known: IntArray, m: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draws (n, m) of the errors of effects at points, sites (n,) and times (n,)."""
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        u = root @ rng.standard_normal((self.mean.size, m))
        out = np.empty((sites.size, m))
        for site in np.unique(sites).tolist():
            at = np.flatnonzero(sites == site)
            rows, places, _ = self.contrasts(site, times[at], known)
            out[at] = rows @ u[places]
            own = self._unknown(site, times[at])
            if own.any():
                values, vectors = np.linalg.eigh(own)
                root = vectors * np.sqrt(np.maximum(values, 0.0))
                out[at] += root @ rng.standard_normal((at.size, m))
        return out

    def fields(self, sites: IntArray, columns: list[FloatArray], n: int) -> FloatArray:
        """Effects (a, n) at sites for columns (k, a or 1, n or 1) of each covariate."""
        out = np.zeros((sites.size, n))
        for number, Z in enumerate(columns):
            out += self._applied(number, Z, sites, self.mean, n)
        return out


def groups_of(columns: tuple[EffectColumns, ...], p: int) -> list[EffectGroup]:
    """Coefficients by variance, in the order of `SensorEffects.mean`."""
    found, place = [], 0
    for number, one in enumerate(columns):
        for part, count in ((0, one.n_plain), (1, one.n_columns - one.n_plain)):
            if count:
                found.append(EffectGroup(number, part, tuple(range(place, place + count))))
            place += count
    for number, one in enumerate(columns):
        if not one.is_static:
            count = p * one.n_plain
            found.append(EffectGroup(number, 2, tuple(range(place, place + count))))
            place += count
    return found


def check_columns(columns: tuple[EffectColumns, ...]) -> None:
    """Refuse more columns of times than are worked with.

    Raises
    ------
    InvalidInputError
        There are more than `MOST_COLUMNS`.
    """
    count = sum(one.n_columns for one in columns if not one.is_static)
    if count > MOST_COLUMNS:
        raise InvalidInputError(
            f"covariates: expected at most {MOST_COLUMNS} columns of times (a number has up to "
            f"three, a text one for each kind), got {count}"
        )


def fitted_effects(
    law: SensorLaw,
    axis: TimeAxis,
    sensors: IntArray,
    columns: tuple[EffectColumns, ...],
    values: FloatArray,
    observed: NDArray[np.bool_],
    Z: list[FloatArray],
    plain: list[FloatArray],
    scale: float = 1.0,
    report: Callable[[str], None] = lambda _: None,
) -> SensorEffects:
    """The effects of covariates on values (p, n), in normalised units.

    Parameters
    ----------
    law
        Law of the values about their effects and usual day, in normalised units.
    values, observed
        Values about the usual day, and which were observed.
    Z
        Columns (k, p or 1, n or 1) of each covariate, of those of times about their own usual day.
    plain
        The same columns as they are.
    scale
        Units of y for a normalised unit; coefficients and variances are in units of y.
    """
    report("covariates")
    p, n = values.shape
    moving = [np.broadcast_to(z, (len(z), z.shape[1], n)) for z, one in zip(Z, columns, strict=True)
              if not one.is_static]  # fmt: skip
    every = [np.ones((1, p, n)), *(np.broadcast_to(z, (len(z), p, n)) for z in moving)]
    stacked = np.concatenate(every)
    most = max(MOST_SCORES // len(stacked), 2)
    rows = np.arange(p) if p <= most else np.unique(np.linspace(0, p - 1, most).astype(np.int64))
    scores = SensorScores.of(law.of(rows), values[rows], observed[rows], stacked[:, rows])
    static = [np.broadcast_to(z[:, :, :1], (len(z), p, 1))[:, rows, 0] for z in Z]
    X, free = design_of(columns, scores, static, rows.size)
    groups = groups_of(columns, rows.size)
    found, logs = _variances(scores, X, free, groups)
    prior = np.zeros(X.shape[1])
    variances = np.zeros((len(columns), len(PARTS)))
    for group, v in zip(groups, found, strict=True):
        prior[list(group.places)] = v
        variances[group.covariate, group.part] = v
    V = scores.covariance + (X * prior) @ X.T
    P, _ = precision_of(V, free)
    DX = prior[:, None] * X.T
    mean = DX @ (P @ scores.values)
    covariance = np.diag(prior) - DX @ P @ DX.T
    gains = np.zeros(len(columns))
    for number in range(len(columns)):
        rest = np.where([g.covariate == number for g in groups], 0.0, found)
        gains[number] = (_loss(scores, X, free, groups, rest) - logs) / 2
    count = np.maximum(observed[rows].sum(axis=1), 1)
    means = [
        np.where(observed[rows], np.broadcast_to(z, (len(z), p, n))[:, rows], 0.0).sum(axis=2)
        / count for z, one in zip(plain, columns, strict=True) if not one.is_static
    ]  # fmt: skip
    sensor_means = np.concatenate(means).T if means else np.zeros((rows.size, 0))
    return SensorEffects(
        columns, axis, sensors[rows], sensor_means, variances * scale**2, gains, mean * scale,
        covariance * scale**2,
    )  # fmt: skip


def design_of(
    columns: tuple[EffectColumns, ...], scores: SensorScores, static: list[FloatArray], p: int
) -> tuple[FloatArray, FloatArray]:
    """Design X (N, Q) of the coefficients in the scores, and the free column (N,) of the mean."""
    free = scores.designs[:, 0]
    common, own, moved = [], [], 1
    for one, w in zip(columns, static, strict=True):
        if one.is_static:
            common += [free * line[scores.sensors] for line in w]
            continue
        slopes = scores.designs[:, moved : moved + one.n_columns]
        moved += one.n_columns
        common += list(slopes.T)
        block = np.zeros((len(free), p, one.n_plain))
        block[np.arange(len(free)), scores.sensors] = slopes[:, : one.n_plain]
        own.append(block.reshape(len(free), -1))
    return np.concatenate([np.array(common).T, *own], axis=1), free


def _variances(
    scores: SensorScores, X: FloatArray, free: FloatArray, groups: list[EffectGroup]
) -> tuple[FloatArray, float]:
    """Variances of the groups of greatest restricted likelihood, and minus twice its logarithm."""
    parts, sizes = _parts(X, groups)
    level = float(np.log(np.maximum(np.mean(scores.values**2), 1.0)))
    start = np.zeros(len(groups))
    known = scores.covariance
    limits = LIMITS[0], LIMITS[1] + level
    found, loss = fitted_parts(scores.values, parts, start, free, known, limits)
    floor = np.exp(LIMITS[0]) * 10.0
    kept = np.where(found > floor, found, 0.0) / sizes
    return kept, _loss(scores, X, free, groups, kept) if (kept == 0).any() else loss


def _parts(X: FloatArray, groups: list[EffectGroup]) -> tuple[FloatArray, FloatArray]:
    """Matrices (g, N, N) of the groups, of mean diagonal one, and by what they were divided."""
    parts, sizes = [], []
    for group in groups:
        columns = X[:, list(group.places)]
        size = float((columns**2).sum()) / len(X)
        sizes.append(size if size > 0 else 1.0)
        parts.append(columns @ columns.T / sizes[-1])
    return np.array(parts), np.array(sizes)


def _loss(
    scores: SensorScores, X: FloatArray, free: FloatArray, groups: list[EffectGroup],
    variances: FloatArray,
) -> float:  # fmt: skip
    """Minus twice the log restricted likelihood, but for a constant, at variances (g,)."""
    prior = np.zeros(X.shape[1])
    for group, v in zip(groups, variances, strict=True):
        prior[list(group.places)] = v
    P, size = precision_of(scores.covariance + (X * prior) @ X.T, free)
    return size + float(scores.values @ P @ scores.values)
