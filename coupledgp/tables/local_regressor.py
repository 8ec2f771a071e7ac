"""Regression with features for the long range and nearest neighbours for the short."""

from __future__ import annotations

from typing import Any

from coupledgp.core.options import estimator
from coupledgp.core.process import Data, GaussianProcess
from coupledgp.core.transformed import untransformed
from coupledgp.core.units import Units
from coupledgp.couplings import CouplingLike, parse_coupling
from coupledgp.ground.progress import reporter, tell
from coupledgp.ground.validation import check_choice, check_positive_int
from coupledgp.spectra import SpectrumLike, parse_spectrum
from coupledgp.tables.local_parameters import TRENDS
from coupledgp.tables.local_problem import LocalProblem
from coupledgp.tables.local_process import LocalGP
from coupledgp.tables.local_search import (
    FITTING_ROUNDS,
    LOCAL_ROUNDS,
    SCREENING,
    LocalFitter,
    LocalSearch,
    kernels_for,
)
from coupledgp.tables.regressor_base import TableRegressor
from coupledgp.tables.rows import column_groups, known_noise
from coupledgp.tables.samplers import Columns


@estimator
class LocalGPRegressor(TableRegressor):
    """Gaussian process regression with a part of long range and a part of short range.

    `y = sqrt(v_g) phi(x / l_g)'w + t(x)'c + f_l(x) + e`: Fourier features phi of coupled
    frequencies, a linear trend t, a local part `f_l ~ GP(0, v_l kappa(|x - x'| / l_l))` that each
    row shares with its nearest rows only (Vecchia, 1988), and noise `e ~ N(0, s)`. A fit costs
    O(n (k^3 + k M + M^2)) for n rows, k neighbours and M features and trend columns.

    Parameters
    ----------
    kernel
        Kernel of the local part: `"auto"` (of the Matern kernels of smoothness 1/2, 3/2 and 5/2,
        the Gaussian and, up to 50 columns, the product Laplace kernel the one with the greatest
        evidence), a name or a Spectrum as in `ExactGPRegressor`, or None for no local part.
    n_frequencies
        Number of frequencies of the features; 0 for none.
    frequencies
        `"sampled"` from the spectrum of the Gaussian kernel, or `"fitted"` to the evidence with it
        as their prior.
    coupling
        Joint law of the frequencies.
    trend
        `"linear"` (a constant and every column, with coefficients `N(0, v_t)` for standardised
        columns), `"constant"` or `"none"`. Its variance is fitted: a trend that the data do not
        want vanishes.
    n_neighbors
        Number k of rows that each row, and each new point, is conditioned on.
    random_state
        Seed of the frequencies, of the order of rows and of batches.
    device
        Where rows are whitened by their neighbours and kriged, in the search, the posterior and
        predictions, as in `SparseSpectrumGPRegressor`; neighbours are found on the CPU.

    Attributes
    ----------
    lengthscale_, outputscale_, noise_
        Lengthscales of the local part (of the features where there is no local part) in units of X,
        variance of local part and features together and of the noise in units of y squared;
        `process_.summary()` has those of each part.
    kernel_
        Kernel of the local part; None without one.
    log_marginal_likelihood_value_
        Log evidence of y, in its own units, in the approximation by neighbours.
    n_evaluations_, converged_
        Evaluations of the evidence, on batches of rows, and whether the last search converged.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.random.default_rng(0).uniform(-3, 3, (100, 2))
    >>> y = np.sin(X[:, 0]) + 2 * X[:, 1]
    >>> gp = cgp.LocalGPRegressor("gaussian", n_frequencies=0, n_neighbors=16, random_state=0)
    >>> bool(abs(gp.fit(X, y).predict([[1.0, 1.0]])[0] - np.sin(1.0) - 2.0) < 0.01)
    True
    """

    kernel: SpectrumLike | None = "auto"
    n_frequencies: int = 64
    frequencies: str = "sampled"
    coupling: CouplingLike = "orthogonal+pnc"
    trend: str = "linear"
    n_neighbors: int = 32
    normalize_y: bool = True
    random_state: Any = None

    @property
    def kernel_(self) -> str | None:
        """Name of the kernel of the local part; None without one."""
        process = untransformed(self.process_)
        assert isinstance(process, LocalGP)
        spectrum = process.local_prior.structure.spectrum
        return None if spectrum is None else str(spectrum)

    def fit_data(
        self, data: Data, columns: Columns, **further: Any
    ) -> tuple[GaussianProcess, dict[str, Any]]:
        self.check_parameters()
        units = Units.of(data.targets, self.normalize_y, data.counts)
        seed = int(self._rng().integers(2**31))
        problem = LocalProblem.of(
            data, units, column_groups(data, columns), seed, known_noise(data, units, None)
        ).on(self.device, self.n_neighbors)
        with reporter("fit", self.progress):
            found = self._search(problem, problem.fitter())
            tell("posterior")
            prior = problem.prior(found.structure, found.vector)
            process = problem.process(prior, self.normalize_y)
        results = {"n_evaluations_": found.n_evaluations, "converged_": found.converged}
        return process, results

    def check_parameters(self) -> None:
        super().check_parameters()
        check_choice(self.trend, TRENDS, "trend")
        check_choice(self.frequencies, ("sampled", "fitted"), "frequencies")
        check_positive_int(self.n_frequencies, "n_frequencies", minimum=0)
        check_positive_int(self.n_neighbors, "n_neighbors")
        parse_coupling(self.coupling)
        self._local_kernel()

    def _local_kernel(self) -> Any:
        """The spectrum of the local part; `"auto"` and None as they are."""
        if self.kernel is None or self.kernel == "auto":
            return self.kernel
        return parse_spectrum(self.kernel, "kernel")

    def _search(self, problem: LocalProblem, fitter: LocalFitter) -> LocalSearch:
        local = self._local_kernel()
        structure = problem.structure(self.trend, 0 if local is None else self.n_neighbors)
        n_screened = 0
        if local is not None:
            known = kernels_for(structure.dim, problem.shared)
            spectra = [parse_spectrum(name) for name in known] if local == "auto" else [local]
            screened = fitter.smoothest(structure, spectra, SCREENING)
            structure, n_screened = screened.structure, screened.n_evaluations
        rounds = LOCAL_ROUNDS
        if self.n_frequencies:
            fitted = self.frequencies == "fitted"
            rounds = FITTING_ROUNDS if fitted else LOCAL_ROUNDS
            structure = problem.with_features(structure, self.n_frequencies, self.coupling, fitted)
        return fitter.search(structure, rounds).after(n_screened)
