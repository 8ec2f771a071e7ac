"""Simulation-based calibration: true values are uniform among draws of a right posterior.

Draw a truth from the prior and data given the truth, draw from the posterior given the data, and
note the rank of the truth among the draws. If inference is right the truth and the draws have the
same law given the data, so that ranks are uniform, whatever the quantity. Posteriors that are too
narrow give ranks at both ends, those that are too wide in the middle, shifted ones at one end.

Talts, Betancourt, Simpson, Vehtari and Gelman, "Validating Bayesian inference algorithms with
simulation-based calibration" (2018); Cook, Gelman and Rubin (2006).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from textwrap import wrap
from typing import Any, TypeAlias

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from scipy import stats
from scipy.stats import binom

from coupledgp.diagnostics.pages.print_figure import PANEL, PRINT
from coupledgp.diagnostics.pages.scale import MODEL
from coupledgp.diagnostics.scoring.ecdf import EcdfEnvelope
from coupledgp.diagnostics.scoring.scores import LEVELS
from coupledgp.diagnostics.scoring.subject import Subject
from coupledgp.diagnostics.studies.pairs import holm
from coupledgp.errors import InvalidInputError
from coupledgp.gp.protocol import Data, GaussianProcess, Points
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import check_positive_int, real_array
from coupledgp.random import FloatArray, Seed, as_rng, symmetric_root

# Ranks are told from uniform ones where a p-value, corrected for all tests, is below this.
LEVEL = 0.05
# Bins of the chi-square test hold five simulations or more each, as its law assumes.
MAX_BINS, LEAST_IN_BIN = 20, 5
Values: TypeAlias = Mapping[str, ArrayLike]
Simulate: TypeAlias = Callable[[np.random.Generator], tuple[Values, Any]]
Posterior: TypeAlias = Callable[[Any, int, np.random.Generator], Values]
MIN_SIMULATIONS = 20
COLUMNS = 3
LINE = 26  # letters of a title across a panel
# Chance that one bar of a uniform histogram leaves the band.
OUTSIDE = 0.01


def simulation_based_calibration(
    simulate: Simulate,
    posterior: Posterior,
    n_simulations: int = 200,
    *,
    n_draws: int = 99,
    generator: Seed = 0,
    progress: bool | None = None,
) -> SimulatedCalibration:
    """Rank true values among draws of their posteriors, and test that the ranks are uniform.

    Parameters
    ----------
    simulate
        Function of a generator: draws true values from the prior, each a number or an array (q,),
        by the name of the quantity, and data given them; returns both.
    posterior
        Function of such data, a number of draws and a generator: returns the draws of each
        quantity, (n_draws,) or (q, n_draws), under the same names.
    n_simulations
        Number of truths, 20 or more.
    n_draws
        Draws of each posterior. They have to be independent: thin a chain.
    generator
        Seed or generator; the same seed gives the same bits.
    progress
        Show progress on stderr; None does so on a terminal.

    Returns
    -------
    SimulatedCalibration
        p-values, coverage with errors, and histograms of the ranks of each quantity, as data frame,
        dictionary and figure. A truth that equals draws has a rank among them at random.

    Raises
    ------
    InvalidInputError
        An argument is invalid, or names and shapes of truths and draws do not agree.

    Examples
    --------
    >>> from benchmarks.ranks import simulation_based_calibration
    >>> def simulate(rng):
    ...     mean = rng.normal()
    ...     return {"mean": mean}, mean + rng.normal(size=5)
    >>> def posterior(data, n_draws, rng):
    ...     return {"mean": data.sum() / 6 + rng.normal(size=n_draws) / 6**0.5}
    >>> simulation_based_calibration(simulate, posterior, 50).is_calibrated
    True
    """
    check_positive_int(n_simulations, "n_simulations", minimum=MIN_SIMULATIONS)
    check_positive_int(n_draws, "n_draws", minimum=1)
    rng = as_rng(generator)
    ranks: dict[str, list[FloatArray]] = {}
    with reporter("simulation-based calibration", progress) as report:
        for number in range(n_simulations):
            report(f"simulation {number + 1} of {n_simulations}")
            truths, data = simulate(rng)
            draws = posterior(data, n_draws, rng)
            for name, truth in truths.items():
                found = _ranks(name, truth, draws.get(name), n_draws, rng)
                ranks.setdefault(name, []).append(found)
    checks = tuple(RankCheck.of(name, np.stack(found), rng) for name, found in ranks.items())
    return SimulatedCalibration(n_simulations, n_draws, checks)


def _ranks(
    name: str, truth: ArrayLike, draws: ArrayLike | None, n_draws: int, rng: np.random.Generator
) -> FloatArray:
    """Ranks (q,) of true values as shares of `n_draws + 1`, uniform within a rank."""
    values = np.atleast_1d(real_array(truth, "truth"))
    if draws is None:
        raise InvalidInputError(f"posterior: expected draws of {name!r}, which simulate returns")
    among = np.atleast_2d(real_array(draws, "draws"))
    if among.shape != (values.size, n_draws):
        raise InvalidInputError(
            f"posterior: expected draws of {name!r} of shape {(values.size, n_draws)}, got "
            f"{among.shape}"
        )
    if not (np.isfinite(values).all() and np.isfinite(among).all()):
        raise InvalidInputError(f"{name}: expected finite truths and draws, got NaN or inf")
    below = (among < values[:, None]).sum(axis=1)
    equal = (among == values[:, None]).sum(axis=1)
    rank = below + rng.integers(0, equal + 1)
    return (rank + rng.uniform(size=values.size)) / (n_draws + 1)


@dataclass(frozen=True, eq=False)
class ProcessSimulation:
    """Truths from the prior of a fitted process, and its posterior given data of them.

    Hyperparameters, observed points and units are those of the process. Its methods `simulate` and
    `posterior` are arguments of `simulation_based_calibration`; the quantities are the function at
    some points (`"f"`), its mean over them (`"mean of f"`, which the joint law decides) and
    observations there (`"y"`).

    Parameters
    ----------
    process
        Process whose posterior is tested.
    points
        Points (p, ...) of the process, none of them observed twice.
    truth
        Process from whose prior the truth comes. The process itself: a test of its computations,
        which is passed exactly. Its exact counterpart, `process.exact()`: a test of the
        approximation as well.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from benchmarks.ranks import ProcessSimulation, simulation_based_calibration
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=30)
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.5, noise=0.02)
    >>> simulation = ProcessSimulation.of(model.fit(X, y), X[:3] + 0.1)
    >>> args = simulation.simulate, simulation.posterior
    >>> found = simulation_based_calibration(*args, n_simulations=20)
    >>> [check.name for check in found.checks], found.is_calibrated
    (['f', 'mean of f', 'y'], True)
    """

    process: GaussianProcess
    points: Points
    truth: GaussianProcess

    @classmethod
    def of(cls, model: Any, X: Any, *, exact: bool = False) -> ProcessSimulation:
        """Simulation of a fitted estimator or process at test inputs X, or points.

        With `exact` the truth comes from the exact counterpart.

        Raises
        ------
        InvalidInputError
            The model has no process, or its law is a mixture: simulate hyperparameters, and fit.
        """
        subject = Subject.of(model, X)
        process = subject.process
        if process is None or not process.is_gaussian:
            raise InvalidInputError(
                "model: expected one with a Gaussian process, got "
                f"{type(model).__name__}; write simulate and posterior for others"
            )
        return cls(process, subject.points, process.exact() if exact else process)

    @cached_property
    def _root(self) -> FloatArray:
        """A root (n + p, n + p, k) of the prior covariance at observed points and the others."""
        everywhere = np.concatenate([self.process.data.points, self.points])
        prior = self.truth.prior(everywhere)
        # Priors of smooth kernels and of few features are singular to rounding.
        return np.moveaxis(symmetric_root(np.moveaxis(prior, 2, 0)), 0, 2)

    def simulate(self, rng: np.random.Generator) -> tuple[Values, Data]:
        """Draw a function from the prior, and observations of it."""
        data, units = self.process.data, self.process.units
        normal = rng.standard_normal(self._root.shape[1:])
        f = units.offset + np.einsum("ijk,jk->ik", self._root, normal)
        relative = np.ones(len(f))
        if data.relative_noise is not None:
            relative[: len(data)] = data.relative_noise
        noise = self.process.noise.draw(np.zeros((*f.shape, 1)), rng)[:, :, 0] * units.scale
        y, n = f + np.sqrt(relative)[:, None] * noise, len(data)
        truths = {"f": f[n:].ravel(), "mean of f": f[n:].mean(axis=0), "y": y[n:].ravel()}
        return truths, Data.of(data.points, y[:n], weights=data.weights)

    def posterior(self, data: Data, n_draws: int, rng: np.random.Generator) -> Values:
        """Draw from the posterior given such observations."""
        process = self.process.conditioned(data)
        f = process.sample(self.points, n_draws, rng, latent=True)
        y = process.sample(self.points, n_draws, rng)
        flat = (-1, n_draws)
        return {"f": f.reshape(flat), "mean of f": f.mean(axis=0), "y": y.reshape(flat)}


@dataclass(frozen=True)
class RankCheck:
    """Ranks of one quantity over simulations.

    Attributes
    ----------
    name : str
    n_values : int
        Number of values of the quantity in a simulation.
    chi_square_p, ks_p : float
        p-values of the chi-square test of binned ranks and of the Kolmogorov-Smirnov test, of one
        value of the quantity in each simulation.
    coverage, coverage_error : dict of float to float
        Share of the true values in the central interval of each nominal level, and its standard
        error over simulations, within which values may depend on each other.
    mean_rank, mean_rank_error : float
        Mean of all ranks as shares, .5 if the posterior is unbiased, and its standard error.
    histogram : tuple of float
        Shares of the ranks in bins of equal width, of one value in each simulation.
    ecdf : EcdfEnvelope
        Distribution of the ranks of one value in each simulation, with the envelope that holds that
        of uniform ranks at all places with a chance of 95 %.

    Examples
    --------
    >>> import numpy as np
    >>> from benchmarks.ranks import RankCheck
    >>> rng = np.random.default_rng(0)
    >>> check = RankCheck.of("mean", rng.uniform(size=(200, 1)), rng)
    >>> check.ks_p > 0.01, abs(check.mean_rank - 0.5) < 4 * check.mean_rank_error
    (True, True)
    """

    name: str
    n_values: int
    chi_square_p: float
    ks_p: float
    coverage: dict[float, float]
    coverage_error: dict[float, float]
    mean_rank: float
    mean_rank_error: float
    histogram: tuple[float, ...]
    ecdf: EcdfEnvelope

    @classmethod
    def of(cls, name: str, ranks: FloatArray, rng: np.random.Generator) -> RankCheck:
        """Check ranks (n, q) as shares in (0, 1), of q values in each of n simulations."""
        n, q = ranks.shape
        one = ranks[np.arange(n), rng.integers(q, size=n)]
        bins = int(np.clip(n // LEAST_IN_BIN, 2, MAX_BINS))
        counts = np.histogram(one, bins, (0.0, 1.0))[0]
        inside = {level: (np.abs(2 * ranks - 1) <= level).mean(axis=1) for level in LEVELS}
        return cls(
            name, q, float(stats.chisquare(counts).pvalue),
            float(stats.kstest(one, "uniform").pvalue),
            {level: float(share.mean()) for level, share in inside.items()},
            {level: _share_error(share, level, q) for level, share in inside.items()},
            float(ranks.mean()), float(stats.sem(ranks.mean(axis=1))), tuple((counts / n).tolist()),
            EcdfEnvelope.of(one),
        )  # fmt: skip

    def worst(self) -> str:
        """Return in words the coverage that is farthest off in its standard errors."""
        level = max(LEVELS, key=lambda c: abs(self.coverage[c] - c) / self.coverage_error[c])
        return (
            f"{100 * level:.0f} % intervals hold {100 * self.coverage[level]:.1f} ± "
            f"{100 * self.coverage_error[level]:.1f} %, mean rank {self.mean_rank:.3f} ± "
            f"{self.mean_rank_error:.3f}"
        )


def _share_error(inside: FloatArray, level: float, n_values: int) -> float:
    """Standard error of a share: binomial for single values, over simulations for several."""
    if n_values == 1:
        return float(np.sqrt(level * (1 - level) / inside.size))
    return float(max(stats.sem(inside), np.sqrt(level * (1 - level) / inside.size / n_values)))


@dataclass(frozen=True)
class SimulatedCalibration:
    """Outcome of `simulation_based_calibration`.

    Attributes
    ----------
    n_simulations, n_draws : int
        Numbers of simulated data sets and of draws of each posterior.
    checks : tuple of RankCheck
        One for each quantity.

    Examples
    --------
    >>> from benchmarks.ranks import simulation_based_calibration
    >>> def simulate(rng):
    ...     mean = rng.normal()
    ...     return {"mean": mean}, mean + rng.normal(size=5)
    >>> def posterior(data, n_draws, rng):
    ...     return {"mean": data.sum() / 6 + 0.3 * rng.normal(size=n_draws) / 6**0.5}
    >>> found = simulation_based_calibration(simulate, posterior, 50)  # draws spread too little
    >>> found.is_calibrated, found["mean"].coverage[0.95] < 0.8
    (False, True)
    """

    n_simulations: int
    n_draws: int
    checks: tuple[RankCheck, ...]

    def __getitem__(self, name: str) -> RankCheck:
        """Return the check of a quantity."""
        return {check.name: check for check in self.checks}[name]

    @property
    def p_values(self) -> dict[str, float]:
        """Least p-value of each quantity, after Holm's correction for all tests of all of them."""
        tests = np.array([(check.chi_square_p, check.ks_p) for check in self.checks])
        corrected = holm(tests.ravel()).reshape(tests.shape).min(axis=1)
        return {check.name: float(p) for check, p in zip(self.checks, corrected, strict=True)}

    @property
    def is_calibrated(self) -> bool:
        """Whether no test tells the ranks from uniform ones, at 5 % for all tests together."""
        return min(self.p_values.values()) >= LEVEL

    def verdict(self) -> str:
        """Return in words which posteriors are right, and how the others are off."""
        off = {name: p for name, p in self.p_values.items() if p < LEVEL}
        if not off:
            return (
                f"Ranks of all {len(self.checks)} quantities are uniform over {self.n_simulations} "
                f"simulations (least corrected p-value {min(self.p_values.values()):.2g}): the "
                "posteriors are right."
            )
        parts = [f"{name} (p = {p:.1g}; {self[name].worst()})" for name, p in off.items()]
        return f"Ranks are not uniform: {'; '.join(parts)}."

    def to_dict(self) -> Mapping[str, Any]:
        """Return all figures and the verdict as plain Python values."""
        return asdict(self) | {"verdict": self.verdict(), "p_values": self.p_values}


def rank_figure(histograms: Mapping[str, Sequence[float]], n_simulations: int) -> Figure:
    """Draw a panel for each quantity: shares of ranks, and a band that holds 99 % of each bar.

    Parameters
    ----------
    histograms
        Shares of ranks in bins of equal width, by the name of the quantity.
    n_simulations
        Number of ranks in each.
    """
    n_rows = -(-len(histograms) // COLUMNS)
    with mpl.rc_context(PRINT):
        size = (PANEL[0] * min(len(histograms), COLUMNS), 0.75 * PANEL[1] * n_rows)
        drawn = Figure(figsize=size, layout="constrained")
        panels = drawn.subplots(n_rows, min(len(histograms), COLUMNS), squeeze=False).ravel()
        for axes, (name, shares) in zip(panels, histograms.items(), strict=False):
            n_bins = len(shares)
            low, high = binom.interval(1 - OUTSIDE, n_simulations, 1 / n_bins)
            axes.axhspan(low / n_simulations, high / n_simulations, color="0.85", zorder=0)
            axes.stairs(shares, np.linspace(0, 1, n_bins + 1), fill=True, color=MODEL, alpha=0.7)
            axes.axhline(1 / n_bins, color="0.3", linewidth=0.6)
            axes.set_ylim(bottom=0)
            axes.set_ylabel("share")
            axes.set_title("\n".join(wrap(name, LINE)), loc="left")
            axes.spines[["top", "right"]].set_visible(False)
            axes.set_xlabel("rank among draws of the posterior")
        for axes in panels[len(histograms) :]:
            axes.set_visible(False)
    return drawn
