"""Law of a function of sites and times given values of sensors over time.

Means are `sum_graph v_c K(x, S) (k_c alpha)(t)` and the terms of a sensor itself; no matrix of all
times is formed. Given complete data the variance is that of independent smoothers. With gaps it is,
by the law of total variance, that of complete data and the variance over the unknown cells of the
mean given them, which is estimated from draws of these cells. At a gap itself it is exact, or only
the part that lies outside its run is estimated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from coupledgp.ground.memory import check_memory
from coupledgp.ground.progress import Progress, silent
from coupledgp.inference.space_time.filters import SeriesFilter
from coupledgp.inference.space_time.gap_variances import are_few, drawn_variances
from coupledgp.inference.space_time.gaps import CompleteSystem, GapSystem
from coupledgp.inference.space_time.sites import Sites
from coupledgp.random import FloatArray, IntArray, symmetric_root

# Relative residuals of means, and of draws of unknown cells.
MEAN_TOLERANCE, DRAW_TOLERANCE = 1e-8, 1e-3
# Numbers in an array of draws that are worked on at once: 128 MiB.
MOST_ENTRIES = 2**24


@dataclass(frozen=True, eq=False)
class Cells:
    """Sites and times at which a law is wanted, as a grid.

    Attributes
    ----------
    sites : IntArray (a,)
        Numbers of sites.
    times : FloatArray (b,)
        Times, distinct and rising.
    """

    sites: IntArray
    times: FloatArray


@dataclass(frozen=True, eq=False)
class SpaceTimePosterior:
    """Posterior of f in normalised units.

    Attributes
    ----------
    sites : Sites
        Covariances between sites.
    sensors : IntArray (p,)
        Sites of the sensors.
    gaps : GapSystem
        Equations of the complete data and of the gaps.
    values : FloatArray (p, n)
        Observations, zero in gaps.
    alpha : FloatArray (p, n)
        `A_OO^-1 y`, zero in gaps.
    filled : FloatArray (p, n)
        Observations, and the means of an observation in gaps.
    n_draws : int
        Number of draws of the unknown cells.
    seed : int
        Their seed.
    n_iterations : int
        Steps of conjugate gradients of `alpha`.
    """

    sites: Sites
    sensors: IntArray
    gaps: GapSystem
    values: FloatArray
    alpha: FloatArray
    filled: FloatArray
    n_draws: int
    seed: int
    n_iterations: int = 0
    _rows: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        rows = {int(site): row for row, site in enumerate(self.sensors)}
        object.__setattr__(self, "_rows", rows)

    @classmethod
    def given(
        cls,
        sites: Sites,
        sensors: IntArray,
        gaps: GapSystem,
        values: FloatArray,
        n_draws: int,
        seed: int,
        report: Progress = silent,
    ) -> SpaceTimePosterior:
        """Condition on values (p, n), which are zero in gaps."""
        filled, alpha = gaps.filled(values[None], MEAN_TOLERANCE, report)
        steps = int(getattr(gaps, "n_iterations", 0))
        return cls(sites, sensors, gaps, values, alpha[0], filled[0], n_draws, seed, steps)

    @property
    def system(self) -> CompleteSystem:
        """The system of complete data."""
        return self.gaps.system

    @property
    def noise(self) -> float:
        """Noise variance of a sensor of scale one."""
        return float(self.system.series.noise)

    @cached_property
    def _terms(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Numbers of the graph's terms and of the sensors' own."""
        terms = self.system.series.terms
        graph = tuple(k for k, term in enumerate(terms) if term.where == "graph")
        return graph, tuple(k for k, term in enumerate(terms) if term.where == "node")

    def scales(self, sites: IntArray) -> FloatArray:
        """Relative variance D (a,) of noise and own terms at sites; one where no sensor stands."""
        roots = self.system.basis.roots
        rows = self.rows_of(sites)
        return np.where(rows >= 0, roots[np.maximum(rows, 0)] ** 2, 1.0)

    def rows_of(self, sites: IntArray) -> IntArray:
        """Row (a,) of the sensor at each site, -1 where there is none."""
        return np.array([self._rows.get(int(site), -1) for site in sites], dtype=np.int64)

    def _axis(self, times: FloatArray) -> tuple[SeriesFilter, IntArray, IntArray]:
        """A filter on the data's times and others, and the places of both in its times."""
        series = self.system.series
        places = np.searchsorted(series.times, times)
        inside = np.minimum(places, series.times.size - 1)
        if np.array_equal(series.times[inside], times):
            return series, np.arange(series.times.size), inside
        longer = series.on(np.union1d(series.times, times))
        return (
            longer,
            np.searchsorted(longer.times, series.times),
            np.searchsorted(longer.times, times),
        )

    def products(self, terms: tuple[int, ...], alpha: FloatArray, times: FloatArray) -> FloatArray:
        """`sum_c v_c (k_c alpha)` (m, p, b) at times, for alpha (m, p, n), over some terms."""
        if not terms:
            return np.zeros((*alpha.shape[:2], times.size))
        series, own, wanted = self._axis(times)
        spread = alpha
        if own.size < series.times.size:
            spread = np.zeros((*alpha.shape[:2], series.times.size))
            spread[:, :, own] = alpha
        return np.asarray(series.product(terms, spread)[:, :, wanted])

    def means(self, cells: Cells, alpha: FloatArray | None = None) -> FloatArray:
        """Means (m, a, b) of f at cells, for weights alpha (m, p, n); by default the data's."""
        weights = self.alpha[None] if alpha is None else alpha
        graph, node = self._terms
        return self.term_means(cells, graph, node, weights)

    def term_means(
        self,
        cells: Cells,
        graph: tuple[int, ...],
        node: tuple[int, ...],
        alpha: FloatArray,
    ) -> FloatArray:
        """Means (m, a, b) of the sum of some terms."""
        m, b = len(alpha), cells.times.size
        out = np.zeros((m, cells.sites.size, b))
        if graph:
            columns = self.products(graph, alpha, cells.times)
            flat = np.moveaxis(columns, 1, 0).reshape(self.sensors.size, m * b)
            found = self.sites.product(cells.sites, self.sensors, flat)
            out += np.moveaxis(found.reshape(cells.sites.size, m, b), 1, 0)
        if node:
            rows = self.rows_of(cells.sites)
            there = np.flatnonzero(rows >= 0)
            if there.size:
                own = self.products(node, alpha[:, rows[there]], cells.times)
                out[:, there] += self.scales(cells.sites[there])[:, None] * own
        return out

    @cached_property
    def deviations(self) -> tuple[FloatArray, FloatArray]:
        """Draws (m, c) of the unknown cells about their means, and their products."""
        rng = np.random.default_rng(self.seed)
        block = max(1, MOST_ENTRIES // max(self.values.size, 1))
        parts = []
        left = self.n_draws
        while left > 0:
            parts.append(self.gaps.deviations(min(block, left), rng, DRAW_TOLERANCE))
            left -= block
        return np.concatenate([d for d, _ in parts]), np.concatenate([w for _, w in parts])

    def _deviating_alphas(self) -> Iterator[FloatArray]:
        """Weights (m, p, n) of the deviations of complete data, some draws at a time."""
        draws = self.deviations[0]
        block = max(1, MOST_ENTRIES // max(self.values.size, 1))
        for start in range(0, len(draws), block):
            yield self.system.solve(self.gaps.scattered(draws[start : start + block]))

    def variances(
        self, cells: Cells, report: Progress = silent, *, in_gaps: bool = True
    ) -> FloatArray:
        """Variances (a, b) of f at cells; those in gaps are more exact with `in_gaps`."""
        found = self._complete_variances(cells)
        if self.gaps.size:
            total = np.zeros_like(found)
            # A product with a graph takes several draws for little more than one.
            count = max(1, MOST_ENTRIES // total.size)
            for alphas in self._deviating_alphas():
                for start in range(0, len(alphas), count):
                    total += (self.means(cells, alphas[start : start + count]) ** 2).sum(axis=0)
                    report("variance over the gaps")
            found += total / self.n_draws
            if in_gaps:
                self._put_gaps(cells, found)
        return np.maximum(found, 0.0)

    def _complete_variances(self, cells: Cells) -> FloatArray:
        """Variances (a, b) of f if the unknown cells were observed too."""
        series, _, wanted = self._axis(cells.times)
        variances = series.variances()[:, :, wanted]
        basis = self.system.basis
        terms = series.terms
        graph = sum(term.variance for term in terms if term.where == "graph")
        node = sum(term.variance for term in terms if term.where == "node")
        rows = self.rows_of(cells.sites)
        out = np.empty((cells.sites.size, cells.times.size))
        there = rows >= 0
        shares = basis.shares[rows[there]]
        out[there] = self.scales(cells.sites[there])[:, None] * (shares @ variances[1])
        others = cells.sites[~there]
        if others.size:
            kept = basis.values > 0
            values = basis.values[kept]
            known = graph - variances[0][: kept.size][kept] / values[:, None]
            weights = (basis.vectors / basis.roots[:, None])[:, kept] / np.sqrt(values)
            projected = self.sites.product(others, self.sensors, weights)
            prior = graph * self.sites.diagonal(others) + node
            out[~there] = prior[:, None] - projected**2 @ known
        return out

    def _put_gaps(self, cells: Cells, variances: FloatArray) -> None:
        """Put the variances of f in gaps in their places, where these are among the cells."""
        rows = self.rows_of(cells.sites)
        times = self.system.series.times
        places = np.minimum(np.searchsorted(times, cells.times), times.size - 1)
        columns = np.flatnonzero(times[places] == cells.times)
        there = np.flatnonzero(rows >= 0)
        if not there.size or not columns.size:
            return
        block = np.ix_(rows[there], places[columns])
        known = self.gap_variances[block]
        target = np.ix_(there, columns)
        variances[target] = np.where(np.isnan(known), variances[target], known)

    @cached_property
    def gap_variances(self) -> FloatArray:
        """Variances (p, n) of f in gaps, NaN elsewhere.

        Variances in few gaps are exact, in many gaps nearly so; see `drawn_variances`.
        """
        out = np.full(self.values.shape, np.nan)
        if not self.gaps.size:
            return out
        noise = self.noise * self.system.basis.roots**2
        if are_few(self.gaps, self.n_draws):
            found = np.linalg.inv(self.gaps.matrix).diagonal()
        else:
            found = drawn_variances(self.gaps, noise, *self.deviations)
        cells, n = self.gaps.runs.cells, self.values.shape[1]
        gap = np.ones(cells.size, dtype=bool)
        if self.gaps.precision is not None:
            gap = self.gaps.precision == 0
        places = cells[gap]
        out.reshape(-1)[places] = np.maximum(found[gap] - noise[places // n], 0.0)
        return out

    def draws(
        self, cells: Cells, m: int, rng: np.random.Generator, report: Progress = silent
    ) -> FloatArray:
        """Draws (m, a, b) of f at cells: draws of the prior, corrected by the observations."""
        both, places = np.unique(np.concatenate([self.sensors, cells.sites]), return_inverse=True)
        check_memory(
            8.0 * (4 * both.size**2 + m * both.size * self.values.shape[1]),
            f"nodes: joint draws at {both.size} sites",
            "ask for fewer nodes",
        )
        series, own, wanted = self._axis(cells.times)
        graph, node = self._terms
        prior = np.zeros((m, both.size, series.times.size))
        if graph:
            root = symmetric_root(self.sites.gram(both))
            prior += np.matmul(root, series.sample(graph, rng, m, both.size))
        if node:
            scale = np.sqrt(self.scales(both))[:, None]
            prior += scale * series.sample(node, rng, m, both.size)
        at_sensors = prior[:, places[: self.sensors.size]][:, :, own]
        noise = np.sqrt(self.noise) * self.system.basis.roots[:, None]
        seen = at_sensors + noise * rng.standard_normal(at_sensors.shape)
        rest = self._with_gaps(self.values - seen, rng)
        _, alpha = self.gaps.filled(rest, MEAN_TOLERANCE**0.5, report)
        drawn = prior[:, places[self.sensors.size :]][:, :, wanted]
        return drawn + self.means(cells, alpha)

    def _with_gaps(self, rest: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Residuals (m, p, n) with zeros where nothing is observed, and draws of extra noise."""
        flat = rest.reshape(len(rest), -1)
        cells, precision = self.gaps.runs.cells, self.gaps.precision
        if precision is None:
            flat[:, cells] = 0.0
        elif cells.size:
            extra = np.zeros(cells.size)
            extra[precision > 0] = precision[precision > 0] ** -0.5
            flat[:, cells] -= extra * rng.standard_normal((len(rest), cells.size))
            flat[:, cells[precision == 0]] = 0.0
        rest[:, :, ~self.system.series.seen] = 0.0
        return rest
