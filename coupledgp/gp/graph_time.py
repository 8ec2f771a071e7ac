"""The Gaussian process of values at the sites of a graph over time, given data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.errors import ModelFileError
from coupledgp.gp.graph_time_prior import (
    SensorScales,
    SpaceTimeHyperparameters,
    SpaceTimePrior,
    SpaceTimeRows,
    StoredRows,
    grid_from,
    grid_state,
    noise_at,
    sites_of_points,
    terms_from,
    terms_state,
    units_of,
)
from coupledgp.gp.inverse_covariance import InverseCovariance
from coupledgp.gp.normalized_process import NormalizedProcess
from coupledgp.gp.protocol import Arrays, Data, Header, Points, Problem, Want
from coupledgp.gp.schema import Entries
from coupledgp.gp.site_state import sites_from, sites_state
from coupledgp.gp.state import units_from
from coupledgp.gp.units import Units
from coupledgp.ground.memory import check_memory
from coupledgp.ground.progress import Progress, silent
from coupledgp.inference.nodes.forecast import Forecast
from coupledgp.inference.space_time.imputation import gap_system
from coupledgp.inference.space_time.learned_sites import under_kernel
from coupledgp.inference.space_time.posterior import Cells, SpaceTimePosterior
from coupledgp.inference.space_time.sites import Sites
from coupledgp.inference.space_time.whittle import SpaceTimeParameters
from coupledgp.likelihoods.base import Likelihood
from coupledgp.likelihoods.gaussian import Gaussian
from coupledgp.random import FloatArray, IntArray
from coupledgp.series.grids import continued

# Noise variance at most that observations of a likelihood have as sites, in units of f.
SITE_NOISE = 1e-4
# Number of observations up to which all that is left out comes from a Cholesky factor.
DENSE_LIMIT = 2000
# Random vectors and steps of the log-determinant over the gaps.
N_PROBES, N_STEPS = 8, 30
# Joint laws: points that are solved for at once.
SOLVED_AT_ONCE = 64
# Most draws of a file.
MOST_DRAWS = 2**16
# Seconds of a sensor's value at a time, of a node's for each sensor, and multiply-adds a second of
# dense solves, on one core of a server of 2019; numbers that are alive for each value.
VALUE_SECONDS, PAIR_SECONDS, DENSE_RATE, NUMBERS = 1.5e-7, 1.5e-10, 2e10, 12
# Points of a dense law that are solved for at once; copies of an array in work, and most bytes of
# copies of draws.
DENSE_POINTS, COPIES, DRAWN_BYTES = 4096, 5, 2**30


@dataclass(frozen=True)
class SpaceTimeSettings:
    """Settings of computations.

    Attributes
    ----------
    n_draws : int
        Draws of the gaps from which their part of variances is estimated.
    exact_variances : int
        Largest number of points whose variances are computed by a solve each.
    window : int or None
        Number of the last steps that are kept when data are added; None: all.
    seed : int
        Seed of the draws.
    """

    n_draws: int = 64
    exact_variances: int = 32
    window: int | None = None
    seed: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class GraphTimeGP(NormalizedProcess):
    """`f ~ N(0, sum_c v_c B_c (x) k_c)` over sites and times, `y = f + e`, given data.

    Points are rows (site, time). Two kinds of terms share eigenvectors, those of a kernel of sites
    and those of sensors' own scales D, so that complete data are independent series; gaps are
    solved for (`coupledgp.inference.space_time.gaps`).

    Attributes
    ----------
    sites : Sites
        Covariances between sites, at the parameters' theta.
    parameters : SpaceTimeParameters
        Hyperparameters; scales of sensors in the order of `rows.sensors`.
    settings : SpaceTimeSettings
        Settings of computations.
    units : Units
        Units of y.
    normalize : bool
        Whether the units follow the data when observations are added.
    rows : SpaceTimeRows
        Observations.
    """

    sites: Sites
    parameters: SpaceTimeParameters
    settings: SpaceTimeSettings
    units: Units
    normalize: bool
    rows: SpaceTimeRows

    @classmethod
    def given(
        cls,
        sites: Sites,
        parameters: SpaceTimeParameters,
        settings: SpaceTimeSettings,
        units: Units,
        normalize: bool,
        rows: SpaceTimeRows,
        report: Progress = silent,
    ) -> GraphTimeGP:
        """Condition a prior on observations."""
        process = cls(sites, parameters, settings, units, normalize, rows)
        vars(process)["posterior"] = process._solved(report)
        return process

    @cached_property
    def posterior(self) -> SpaceTimePosterior:
        """Law of f in normalised units; of a process of a file it is computed at its first use."""
        return self._solved(silent)

    def _solved(self, report: Progress) -> SpaceTimePosterior:
        rows, parameters, settings = self.rows, self.parameters, self.settings
        data = rows.normalized(self.units)
        extra = None if rows.extra is None else rows.extra * parameters.noise
        gaps = gap_system(data, self.sites.gram(rows.sensors), parameters, extra)
        return SpaceTimePosterior.given(
            self.sites, rows.sensors, gaps, data.values, settings.n_draws, settings.seed, report
        )

    @cached_property
    def scales(self) -> SensorScales:
        """Relative variances of noise and own terms of the sensors."""
        return SensorScales(self.rows.sensors, self.parameters.roots**2)

    @cached_property
    def prior_law(self) -> SpaceTimePrior:
        """The prior as a dense one."""
        return SpaceTimePrior(self.sites, self.hyperparameters, self.scales)

    @cached_property
    def _data(self) -> Data:
        rows, cells = self.rows, self.rows.cells
        sensors, columns = np.divmod(cells.numbers, rows.times.size)
        points = np.column_stack([rows.sensors[sensors], rows.times[columns]])
        relative = self.parameters.roots[sensors] ** 2
        if cells.extra is not None:
            relative = relative + cells.extra
        alike = bool((relative == 1.0).all())
        return Data.of(points, cells.values[:, None], None if alike else relative)

    @property
    def data(self) -> Data:
        """The observations at points (n, 2), which are rows (site, time)."""
        return self._data

    @property
    def noise(self) -> Likelihood:
        """Law of observations given f, for a sensor of scale one."""
        return Gaussian(self.parameters.noise)

    @property
    def hyperparameters(self) -> SpaceTimeHyperparameters:
        return SpaceTimeHyperparameters(self.parameters.terms, self.parameters.noise)

    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = {"sites": self.sites.describe()}
        for number, term in enumerate(self.parameters.terms):
            name = f"{term.where} {type(term.kernel).__name__} {number}"
            found[name] = {
                "variance": self.units.spread(term.variance), **term.kernel.parameters(),
            }  # fmt: skip
        found["noise"] = self.units.spread(self.parameters.noise)
        return found

    @property
    def log_evidence(self) -> float:
        return self.evidence_with_error[0]

    @cached_property
    def evidence_with_error(self) -> tuple[float, float]:
        """Log evidence of y in its own units, and its standard error, nats."""
        posterior, gaps = self.posterior, self.posterior.gaps
        log_gaps, error = gaps.log_determinant(N_PROBES, N_STEPS, self.settings.seed)
        log_determinant = posterior.system.log_determinant + log_gaps
        if gaps.precision is not None:
            noisy = gaps.precision > 0
            log_determinant -= float(np.log(gaps.precision[noisy]).sum())
        n_rows = self.rows.cells.numbers.size
        quad = float((posterior.alpha * posterior.values).sum())
        value = -0.5 * (quad + log_determinant + n_rows * np.log(2 * np.pi))
        return value - self.units.log_jacobian(n_rows), 0.5 * error

    def under_kernel(self) -> GraphTimeGP:
        """The process with the kernel's covariance of the sensors; itself if none was learned."""
        sites = under_kernel(self.sites)
        if sites is self.sites:
            return self
        parameters = replace(self.parameters, theta=sites.theta)
        return self.given(
            sites, parameters, self.settings, self.units, self.normalize, self.rows
        )  # fmt: skip

    @property
    def is_dense(self) -> bool:
        """Whether variances come from a Cholesky factor of the observations."""
        return self.rows.cells.numbers.size <= DENSE_LIMIT

    @property
    def solve_flops(self) -> float:
        """Multiplications of a solve of all observations: two rotations of p values at n times."""
        p, n = self.rows.values.shape
        return 2.0 * p * self.posterior.system.basis.values.size * n

    @property
    def reason(self) -> str:
        """How the law is computed, why, and its cost in numbers."""
        p, n = self.rows.values.shape
        basis, gaps = self.posterior.system.basis, self.posterior.gaps
        words = f"{p} sensors and {n} times: {basis.eigenvalues.size} independent series in time"
        if not basis.is_complete:
            words += f" of {basis.values.size} leading eigenvectors (share {basis.lost:.1g} lost)"
        words += f", {self.solve_flops:.2g} multiplications a solve"
        if gaps.size:
            steps = self.posterior.n_iterations
            words += f"; {gaps.size} gaps by {steps} steps of conjugate gradients"
        if self.is_dense:
            words += f"; variances by a Cholesky factor, at most {DENSE_LIMIT} observations"
        elif gaps.size:
            words += f"; {self.settings.n_draws} draws of the gaps for variances"
        return words

    def law_forecast(self, n_sites: int, n_times: int, with_variances: bool) -> Forecast:
        """Cost of means, and of variances, at further times: of some sites, all on one grid."""
        p, n = self.rows.values.shape
        n_all, observed = float(n + n_times), self.rows.observed
        # Cells of the system of gaps, which need not be solved to be counted.
        gaps = int((~observed & observed.any(axis=0)).sum())
        gaps += 0 if self.rows.extra is None else int((observed & (self.rows.extra > 0)).sum())
        draws = self.settings.n_draws if with_variances and gaps and not self.is_dense else 0
        each = VALUE_SECONDS * p + PAIR_SECONDS * n_sites * p
        seconds = (1.0 + with_variances + draws) * n_all * each
        at_once = min(8.0 * COPIES * draws * p * n_all, DRAWN_BYTES)
        if with_variances and gaps and self.is_dense:
            n_rows, points = int(self.rows.observed.sum()), float(n_sites) * n_times
            seconds += points * n_rows**2 / DENSE_RATE
            at_once = 8.0 * COPIES * n_rows * min(points, DENSE_POINTS)
        return Forecast(seconds, 8.0 * NUMBERS * (p + n_sites) * n_all + at_once)

    @cached_property
    def _dense(self) -> Any:
        return self.exact()

    def with_draws(self, n_draws: int) -> GraphTimeGP:
        """The same process, whose variances are from another number of draws of the gaps."""
        found = replace(self, settings=replace(self.settings, n_draws=n_draws))
        vars(found)["posterior"] = replace(self.posterior, n_draws=n_draws)
        return found

    def grid_law(
        self,
        cells: Cells,
        with_variance: bool,
        *,
        latent: bool = False,
        wanted: NDArray[np.bool_] | None = None,
    ) -> tuple[FloatArray, FloatArray | None]:
        """Means and variances (a, b) of observations at cells, units of y; of f if latent.

        Variances in gaps of the sensors are not worked out where none of these cells is `wanted`.
        """
        offset, scale = float(self.units.offset[0]), float(self.units.scale[0])
        mean = offset + scale * self.posterior.means(cells)[0]
        if not with_variance:
            return mean, None
        in_gaps = wanted is None or self._has_gaps(cells, wanted)
        variance = self.grid_variances(cells, in_gaps=in_gaps)
        if not latent:
            variance = variance + self.parameters.noise * self.scales.at(cells.sites)[:, None]
        return mean, scale**2 * variance

    def _has_gaps(self, cells: Cells, wanted: NDArray[np.bool_]) -> bool:
        """Whether one of the wanted cells (a, b) is a gap of a sensor."""
        rows, times = self.posterior.rows_of(cells.sites), self.rows.times
        places = np.minimum(np.searchsorted(times, cells.times), times.size - 1)
        gaps = ~self.rows.observed[np.ix_(np.maximum(rows, 0), places)]
        inside = (rows >= 0)[:, None] & (times[places] == cells.times)
        return bool((gaps & inside & wanted).any())

    def grid_variances(
        self, cells: Cells, report: Progress = silent, *, in_gaps: bool = True
    ) -> FloatArray:
        """Variances (a, b) of f at cells, normalised units; see `SpaceTimePosterior.variances`."""
        if not self.is_dense or not self.posterior.gaps.size:
            return self.posterior.variances(cells, report, in_gaps=in_gaps)
        points = np.column_stack([
            np.repeat(cells.sites, cells.times.size), np.tile(cells.times, cells.sites.size),
        ]).astype(np.float64)  # fmt: skip
        found = np.empty(len(points))
        for part in np.array_split(np.arange(len(points)), max(1, len(points) // DENSE_POINTS)):
            found[part] = self._dense.latent_law(points[part], "variance")[1]
        return found.reshape(cells.sites.size, cells.times.size)

    def _grid(self, points: Points) -> tuple[Cells, IntArray, IntArray]:
        """The grid of sites and times of points (m, 2), and the place of each in it."""
        sites, rows = np.unique(sites_of_points(points), return_inverse=True)
        times, columns = np.unique(points[:, 1], return_inverse=True)
        check_memory(
            24.0 * sites.size * times.size,
            f"points: a grid of {sites.size} sites and {times.size} times",
            "ask for fewer sites or times at once",
        )
        return Cells(sites, times), rows, columns

    def latent_law(
        self, points: Points, want: Want, report: Progress = silent
    ) -> tuple[FloatArray, FloatArray | None]:
        """Mean (p, k) of f, and its variance (p,), covariance (p, p) or None, normalised units.

        Variances at up to `settings.exact_variances` points are exact to the tolerance of solves;
        at more points the part that the gaps leave is estimated (see `SpaceTimePosterior`).
        """
        cells, rows, columns = self._grid(points)
        mean = self.posterior.means(cells)[0][rows, columns][:, None]
        if want == "mean":
            return mean, None
        if self.is_dense:
            return mean, self._dense.latent_law(points, want)[1]
        complete = not self.posterior.gaps.size
        if want == "covariance" or (len(points) <= self.settings.exact_variances and not complete):
            covariance = self._covariance(points, report)
            return mean, covariance if want == "covariance" else covariance.diagonal().copy()
        return mean, self.posterior.variances(cells, report)[rows, columns]

    def _covariance(self, points: Points, report: Progress) -> FloatArray:
        """Covariance (m, m) of f at points, by a solve for each."""
        rows = self.rows
        check_memory(
            8.0 * (4 * len(points) ** 2 + 6 * SOLVED_AT_ONCE * rows.values.size),
            f"points: the joint law of {len(points)} points",
            "ask for fewer points, for return_std, or for sample_y",
        )
        cells, of_site, of_time = self._grid(points)
        posterior, prior = self.posterior, self.prior_law
        found = prior.covariance(points, points)
        grid = np.column_stack([
            np.repeat(rows.sensors, rows.times.size), np.tile(rows.times, rows.sensors.size),
        ]).astype(np.float64)  # fmt: skip
        for start in range(0, len(points), SOLVED_AT_ONCE):
            part = slice(start, start + SOLVED_AT_ONCE)
            columns = prior.covariance(points[part], grid).reshape(-1, *rows.values.shape)
            columns[:, ~rows.observed] = 0.0
            _, alpha = posterior.gaps.filled(columns, 1e-8, report)
            found[:, part] -= posterior.means(cells, alpha)[:, of_site, of_time].T
        return np.asarray((found + found.T) / 2)

    def latent_samples(
        self, points: Points, n_samples: int, rng: np.random.Generator, report: Progress = silent
    ) -> FloatArray:
        """Draws (p, k, n_samples) of f: draws of the prior, corrected by the observations."""
        cells, rows, columns = self._grid(points)
        drawn = self.posterior.draws(cells, n_samples, rng, report)
        return np.ascontiguousarray(drawn[:, rows, columns].T[:, None, :])

    def latent_prior(self, points: Points) -> FloatArray:
        return self.prior_law.covariance(points, points)

    def likelihood_at(self, points: Points) -> Likelihood:
        """Law of observations at points (p, 2) given f, with noise by the scale of each sensor."""
        return noise_at(points, self.parameters.noise, self.scales)

    def inverse_covariance(self) -> InverseCovariance | None:
        """Inverse covariance, by a Cholesky factor of up to `DENSE_LIMIT` observations."""
        return self._dense.inverse_covariance() if self.is_dense else None

    def exact(self) -> Any:
        """Return the exact process, by a Cholesky factor of all observations."""
        return self.prior_law.given(self.data, self.units, self.normalize, warns=False)

    def exact_problem(self) -> Problem:
        return self.prior_law.problem(self.data, self.units)

    def for_sites(self) -> GraphTimeGP:
        level = min(self.parameters.noise, SITE_NOISE)
        return replace(self, parameters=replace(self.parameters, noise=level))

    def conditioned(self, data: Data, *, renormalize: bool = False) -> GraphTimeGP:
        """Return the same prior given other data; sites without a sensor so far get scale one."""
        # Steps at which a live feed was silent are times of the grid, too.
        grid = continued(self.rows.times, data.points[:, 1])
        rows = SpaceTimeRows.of(data, self.scales, grid)
        units = units_of(self.sites, rows, self.normalize) if renormalize else self.units
        roots = np.sqrt(self.scales.at(rows.sensors))
        # The law given the data is computed when it is asked for.
        return type(self)(
            self.sites, replace(self.parameters, roots=roots), self.settings, units,
            self.normalize, rows,
        )  # fmt: skip

    def updated(self, data: Data) -> GraphTimeGP:
        """Return the process given further data; data before the last steps of a window go."""
        relative = self.scales.at(sites_of_points(data.points))
        if data.weights is None and (relative != 1.0).any():
            data = Data.of(data.points, data.targets, relative)
        whole = self.data.followed_by(data).as_one_batch()
        window = self.settings.window
        if window is not None:
            times = np.unique(np.concatenate([self.rows.times, data.points[:, 1]]))
            whole = whole.take(np.flatnonzero(whole.points[:, 1] >= times[-window:][0]))
        return self.conditioned(whole, renormalize=True)

    def state(self) -> tuple[Header, Arrays]:
        """Values and arrays of a file, always with the data, since predictions need them."""
        header, arrays = sites_state(self.sites)
        rows, parameters = self.rows, self.parameters
        header |= {
            "process": type(self).__name__,
            "terms": terms_state(parameters.terms),
            "noise": float(parameters.noise),
            "settings": asdict(self.settings),
            "normalize": self.normalize,
        }
        arrays |= {
            "roots": parameters.roots,
            "y_mean": self.units.offset,
            "y_scale": self.units.scale,
        }
        return header, arrays | grid_state(rows.sensors, rows.times, rows.cells)

    @classmethod
    def from_state(cls, header: Header, arrays: Arrays) -> GraphTimeGP:
        """Put the process of `state` together again; its first use conditions on the data."""
        entries = Entries(header, arrays)
        sites = sites_from(entries)
        sensors, times, cells = grid_from(entries)
        if sensors.max() >= sites.n_sites:
            raise ModelFileError(f"sensors: expected sites below {sites.n_sites}, got others")
        roots = entries.scales("roots", "p")
        noise = entries.number("noise", above=0.0)
        units = units_from(entries)
        if units.n_outputs != 1:
            raise ModelFileError(f"y_mean: expected one output, got {units.n_outputs}")
        parameters = SpaceTimeParameters(sites.theta, terms_from(entries), noise, roots)
        settings = SpaceTimeSettings(
            entries.integer("settings", "n_draws", low=2, high=MOST_DRAWS),
            entries.integer("settings", "exact_variances", low=0, high=2**20),
            None if entries.value("settings", "window") is None
            else entries.integer("settings", "window", low=2, high=2**40),
            entries.integer("settings", "seed", low=0, high=2**63),
        )  # fmt: skip
        return cls(
            sites, parameters, settings, units, entries.flag("normalize"),
            StoredRows(sensors, times, cells),
        )  # fmt: skip
