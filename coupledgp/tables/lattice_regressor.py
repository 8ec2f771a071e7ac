"""Regression of one to three columns on a lattice of frequencies: kriging with all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from coupledgp.core.budget import seconds_of, within_budget
from coupledgp.core.options import estimator
from coupledgp.core.problem import Hyperparameters
from coupledgp.core.process import Data, GaussianProcess
from coupledgp.core.stored import fitted_result
from coupledgp.core.transformed import untransformed
from coupledgp.core.units import Units, are_constant
from coupledgp.errors import InvalidInputError
from coupledgp.ground.devices import CPU, parse_device
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import (
    check_choice,
    check_lengthscale,
    check_positive,
    check_positive_int,
    wrong,
)
from coupledgp.ground.visible import warn
from coupledgp.random import IntArray
from coupledgp.spectra import Spectrum, SpectrumLike, parse_spectrum
from coupledgp.tables.batch_passes import FitInBatches
from coupledgp.tables.codes import PlaceCode
from coupledgp.tables.globe import PLANE_KM, GeographicLike
from coupledgp.tables.lattice import MOST_AXES
from coupledgp.tables.lattice_kernels import KERNELS, MOST_LEFT_OUT, LatticeProblem, Tried
from coupledgp.tables.lattice_parts import TrendColumns
from coupledgp.tables.lattice_process import N_DRAWS, LatticeGP
from coupledgp.tables.lattice_search import (
    SAMPLE_ROWS,
    LatticeRows,
    RowsInMemory,
    RowsInPasses,
    scales_of,
)
from coupledgp.tables.rows import known_noise, noise_of_level
from coupledgp.tables.samplers import Columns
from coupledgp.tables.table_passes import TablePasses

TRENDS = ("constant", "linear")
# Kernel that is tried after all others, where none of the smoother ones is clearly better.
ROUGHEST = "matern-1/2"


@estimator
class LatticeGPRegressor(FitInBatches):
    """Kriging of one to three columns with all rows, by frequencies on a lattice.

    `y = f(places) + trend + e`, `f ~ GP(0, v kappa)` with a Gaussian or Matern kernel. Products of
    the waves depend on the difference of two frequencies alone, so that one pass over the rows
    serves all hyperparameters; evidence, means, variances and left-out laws then cost the same for
    any number of rows. Waves that the rows can not tell from noise are left out, and their variance
    is kept as white noise.

    Parameters
    ----------
    kernel
        `"auto"` (Gaussian, Matern-5/2, -3/2 and -1/2, chosen by the density of rows that are left
        out), `"gaussian"`, `"matern-NU"` or a Spectrum of these.
    places
        Names or numbers of the one to three columns of numbers that are places. None: all columns,
        if they are at most three. Other columns enter by a linear trend.
    trend
        `"constant"`, or `"linear"` in the places too (universal kriging).
    ard
        One lengthscale for each place; otherwise one for all, for places in one unit.
    lengthscale, outputscale, noise
        Hyperparameters, as in `ExactGPRegressor`, if `optimizer` is None.
    optimizer
        `"information"`, or None to keep the given hyperparameters.
    n_draws
        Draws P by which variances are known on more than 1500 waves: a standard deviation of f has
        a relative error of `1 / sqrt(2 P)`. On fewer waves variances are exact.
    random_state
        Seed of probes and draws.
    budget
        Seconds of one core, or a text such as `"5min"`, that the fit may take. A forecast from few
        rows and the speed of this machine is made before all rows are searched, and `fit` refuses
        what is above the budget.
    geographic
        Columns of latitude and longitude in degrees, which become kilometres: on a plane within
        1000 km of their centre, whose distances are within .4 %, and in space beyond, where places
        have one lengthscale. `"auto"`: columns with names such as `lat` and `lon` whose values are
        degrees. None: none (`coupledgp.tables.globe`).

    Attributes
    ----------
    kernel_
        Kernel that was fitted.
    n_waves_
        Number of waves of the lattice.
    left_out_share_
        Share of the prior variance in waves beyond the lattice, taken for white noise.
    std_error_
        Relative standard error of standard deviations of f; zero where they are exact.
    choice_
        The kernels that were tried (`LatticeChoice`), the best first.
    probe_error_
        Largest error of a hyperparameter by the probes of traces, over its statistical deviation.
    log_marginal_likelihood_error_
        Standard error of the log evidence, nats; zero on at most 1500 waves.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (1000, 2))
    >>> z = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.normal(size=1000)
    >>> model = cgp.LatticeGPRegressor("gaussian", random_state=0).fit(X, z)
    >>> mean, std = model.predict([[3.0, 4.0]], return_std=True, latent=True)
    >>> bool(abs(mean[0] - np.sin(3.0) * np.cos(4.0)) < 4 * std[0])
    True

    References
    ----------
    Greengard, Rachh and Barnett (2022), Equispaced Fourier representations for efficient Gaussian
    process regression from a billion data points. Gilmour, Thompson and Cullis (1995), Average
    information REML.
    """

    kernel: SpectrumLike = "auto"
    places: Sequence[str | int] | None = None
    trend: str = "constant"
    ard: bool = True
    normalize_y: bool = True
    random_state: Any = None
    _: KW_ONLY
    lengthscale: float | Sequence[float] | None = None
    outputscale: float | None = None
    noise: float | None = None
    optimizer: str | None = "information"
    n_draws: int = N_DRAWS
    budget: float | str = 600.0
    geographic: GeographicLike = "auto"

    choice_ = fitted_result("choice_", "The kernels that were tried, the best first.")
    probe_error_ = fitted_result("probe_error_", "Largest error by probes, over the statistical.")

    @property
    def _lattice(self) -> LatticeGP:
        process = untransformed(self.process_)
        assert isinstance(process, LatticeGP)
        return process

    @property
    def kernel_(self) -> str:
        """Name of the kernel."""
        return str(self._lattice.lattice_prior.spectrum)

    @property
    def n_waves_(self) -> int:
        """Number of waves of the lattice."""
        return self._lattice.n_waves

    @property
    def left_out_share_(self) -> float:
        """Share of the prior variance in waves beyond the lattice."""
        return self._lattice.left_out_share

    @property
    def std_error_(self) -> float:
        """Relative standard error of standard deviations of f."""
        return self._lattice.posterior.relative_error

    @property
    def log_marginal_likelihood_error_(self) -> float:
        """Standard error of the log evidence, nats."""
        return self._lattice.log_evidence_error

    def fit_data(
        self, data: Data, columns: Columns, **further: Any
    ) -> tuple[GaussianProcess, dict[str, Any]]:
        kernels = self._checked_kernels()
        units = Units.of(data.targets, self.normalize_y, data.counts)
        places = self._place_columns(columns, data.points.shape[1])
        trend = TrendColumns.of(places, self.trend == "linear", data.points, data.counts)
        known = known_noise(data, units, self.noise if self.optimizer is None else None)
        with reporter("fit", self.progress), within_budget(seconds_of(self.budget)):
            problem = self._problem(RowsInMemory(data, units, trend), columns, known)
            if are_constant(data.targets):
                return self._found(self._given(problem, kernels[0]))
            return self._fitted_to(problem, kernels)

    def check_parameters(self) -> None:
        super().check_parameters()
        self._checked_kernels()

    def check_passes(self) -> None:
        if self.target_transform is not None:
            raise InvalidInputError(
                f"target_transform: expected None for batches, got {self.target_transform!r}, "
                "which needs all rows in memory; fit it to some of the rows"
            )

    def fit_passes(self, passes: TablePasses) -> tuple[GaussianProcess, dict[str, Any]]:
        summary, kernels = passes.summary, self._checked_kernels()
        if summary.n_rows <= SAMPLE_ROWS:
            data = passes.take(np.arange(summary.n_rows))
            process, results = self.fit_data(data, summary.columns)
            return process.without_data(), results
        units = summary.units(self.normalize_y)
        places = self._place_columns(summary.columns, summary.inputs.mean.size)
        trend = TrendColumns.of_moments(places, self.trend == "linear", summary.inputs)
        known = noise_of_level(summary.level, units, self.noise if self.optimizer is None else None)
        rows = RowsInPasses(passes, units, trend)
        problem = self._problem(rows, summary.columns, known)
        ends = np.stack([summary.targets.low, summary.targets.high])
        if are_constant(ends, units.offset):
            return self._found(self._given(problem, kernels[0]))
        return self._fitted_to(problem, kernels)

    def _problem(
        self,
        rows: LatticeRows,
        columns: Columns,
        known: float | None,
    ) -> LatticeProblem:
        seed = int(self._rng().integers(2**31))
        return LatticeProblem(
            rows, self.normalize_y, self._shares(columns), known, seed, self.n_draws,
            forecasts=True,
        )  # fmt: skip

    def _fitted_to(
        self, problem: LatticeProblem, kernels: list[Spectrum]
    ) -> tuple[LatticeGP, dict[str, Any]]:
        if self.optimizer is None:
            return self._found(self._given(problem, kernels[0]))
        best, tried = problem.best(kernels)
        return self._found(best, tried)

    def _found(self, best: Tried, tried: Sequence[Tried] = ()) -> tuple[LatticeGP, dict[str, Any]]:
        """The process of the best kernel, and further results."""
        tried = tried or (best,)
        process, search = best.process, best.search
        assert process is not None
        assert search is not None
        results = {
            "choice_": tuple(each.choice for each in tried),
            "probe_error_": search.probe_error,
            "n_evaluations_": sum(each.n_steps for each in tried),
            "converged_": search.converged,
            **({} if best.forecast is None else {"forecast_": best.forecast.seconds}),
        }
        self._warn_if_rough(process)
        return process, results

    def _checked_kernels(self) -> list[Spectrum]:
        check_choice(self.trend, TRENDS, "trend")
        check_positive_int(self.n_draws, "n_draws", minimum=2)
        if self.optimizer not in (None, "information"):
            raise wrong("optimizer", "'information' or None", self.optimizer)
        if parse_device(self.device) != CPU:
            raise InvalidInputError(
                f"device: expected None or 'cpu', since lattices are on the CPU, got {self.device}"
            )
        names = (
            (*KERNELS, ROUGHEST)
            if isinstance(self.kernel, str) and self.kernel == "auto"
            else (self.kernel,)
        )
        if self.optimizer is None and len(names) > 1:
            raise InvalidInputError("kernel: expected one kernel beside optimizer=None, got 'auto'")
        return [parse_spectrum(name, "kernel") for name in names]

    def _place_columns(self, columns: Columns, n_encoded: int) -> IntArray:
        """Numbers (d,) of the encoded columns that are places.

        Raises
        ------
        InvalidInputError
            There are more than three places, one is no column of numbers, or comes twice.
        """
        if self.places is None:
            numbers = list(range(columns.n_features))
            encoding = columns.encoding
            if n_encoded > MOST_AXES or (encoding is not None and not encoding.of_numbers):
                raise InvalidInputError(
                    f"places: expected names or numbers of one to {MOST_AXES} columns of numbers, "
                    f"since X has {n_encoded} columns with their codes, got None"
                )
        else:
            numbers = self._numbers_of_places(columns)
        found = [place for number in numbers for place in self._encoded(columns, number)]
        if len(set(numbers)) < len(numbers):
            raise wrong("places", "different columns", self.places)
        if len(found) > MOST_AXES:
            raise InvalidInputError(
                f"places: expected at most {MOST_AXES} coordinates, got {len(found)}: latitude and "
                f"longitude that reach beyond {PLANE_KM:.0f} km of their centre take three"
            )
        return np.array(found)

    def _numbers_of_places(self, columns: Columns) -> list[int]:
        """Numbers of the columns of the table that are places."""
        places = self.places
        if places is None or isinstance(places, (str, int)) or not 1 <= len(places) <= MOST_AXES:
            raise wrong("places", f"a list of one to {MOST_AXES} columns", places)
        known = [str(columns.name(place)) for place in range(columns.n_features)]
        found = []
        for given in places:
            number = known.index(given) if given in known else given
            if not isinstance(number, (int, np.integer)) or not 0 <= number < len(known):
                raise wrong("places", f"columns among {', '.join(known)}", given)
            found.append(int(number))
        pair = None if columns.encoding is None else columns.encoding.places
        if pair is not None and 0 < len(set(pair) & set(found)) < 2:
            raise InvalidInputError(
                f"places: expected both latitude and longitude or none, got {places!r}; "
                "geographic=None takes degrees as plain numbers"
            )
        return found

    def _encoded(self, columns: Columns, number: int) -> list[int]:
        """Encoded columns of a column of the table that is a place."""
        encoding = columns.encoding
        if encoding is None:
            return [number]
        own = np.flatnonzero(columns.part_sources[encoding.groups] == number).tolist()
        if isinstance(encoding.codes[number], PlaceCode) or len(own) == 1:
            return own
        raise InvalidInputError(
            "places: expected columns of numbers without missing values, got "
            f"{columns.name(number)!r} with {len(own)} codes"
        )

    def _shares(self, columns: Columns) -> bool:
        """Whether all places have one lengthscale; points of space always do."""
        globe = None if columns.encoding is None else columns.encoding.globe
        return not self.ard or (globe is not None and not globe.is_plane)

    def _given(self, problem: LatticeProblem, spectrum: Spectrum) -> Tried:
        """The process with the hyperparameters that were given, or with their defaults."""
        table, known = problem.rows, problem.known_noise
        given = self.lengthscale if self.lengthscale is not None else scales_of(table.box) / 4
        noise = 0.1 if self.noise is None else self.noise
        hyper = Hyperparameters(
            check_lengthscale(given, len(table.box.sides)),
            check_positive(1.0 if self.outputscale is None else self.outputscale, "outputscale"),
            check_positive(noise, "noise") if known is None else known,
        )
        fitter = problem.fitter(spectrum)
        search = fitter.given(table, hyper)
        return Tried(fitter, search=search, process=problem.process(search))

    def _warn_if_rough(self, process: LatticeGP) -> None:
        own = process.lattice_prior
        if own.left_out_variance > MOST_LEFT_OUT * own.hyperparameters.noise:
            warn(
                f"kernel: waves beyond the lattice of {process.n_waves} hold "
                f"{process.left_out_share:.1%} of the variance, and count as noise; the function "
                f"is rough or noise is small for {int(process.sums.n_counted)} rows: use "
                "LocalGPRegressor",
                ConvergenceWarning,
            )

    def _grid_places(self) -> IntArray:
        return self._lattice.trend.places

    def predict_blocks(
        self, X: ArrayLike, sides: float | Sequence[float], return_std: bool = False
    ) -> Any:
        """Averages of f over boxes (block kriging).

        Parameters
        ----------
        X
            Rows (p, d) whose places are the centres of the boxes.
        sides
            Sides of the boxes, one or one for each place, in units of the columns, or in kilometres
            where these are latitude and longitude.
        return_std
            Also return the standard deviation (p,) or (p, k) of the average.

        Raises
        ------
        InvalidInputError
            A side is negative, or targets were transformed, whose averages have no normal law, or
            places are points of space.
        """
        globe = None if self._columns.encoding is None else self._columns.encoding.globe
        if globe is not None and not globe.is_plane:
            raise InvalidInputError(
                f"X: expected places within {PLANE_KM:.0f} km of their centre for averages over "
                "boxes, got places in space"
            )
        points, record = self.points(X), self.fitted_
        process = record.process
        if not isinstance(process, LatticeGP):
            raise InvalidInputError(
                "target_transform: expected None for averages over boxes, since averages of "
                "transformed values are no transformed averages"
            )
        own = np.broadcast_to(np.asarray(sides, dtype=np.float64), len(process.trend.places))
        if not (np.isfinite(own) & (own >= 0)).all():
            raise wrong("sides", "numbers of at least zero", sides)
        mean, variance = process.block_law(points, own)
        self._judge(points, mean)
        mean = record.shaped(mean, 1)
        return (mean, np.sqrt(record.shaped(variance, 1))) if return_std else mean

    def _explained(self) -> list[str]:
        own = super()._explained()
        return [*own, *map(str, self.fitted_.results.get("choice_", ())), *self.process_.remarks]
