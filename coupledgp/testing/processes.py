"""Contract of fitted Gaussian processes."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, stats

from coupledgp.core.process import Data, GaussianProcess, Points
from coupledgp.errors import InvalidInputError
from coupledgp.ground.codec import decoded, encoded
from coupledgp.linalg.system import SystemOptions, predictive_law
from coupledgp.random import FloatArray, IntArray
from coupledgp.testing.checks import require, require_close, require_mean


class ProcessContract:
    """Tests of a process, for everything that selection, files and comparisons rely on.

    Attributes
    ----------
    process
        A process that has been given some data.
    points
        Points (p, ...) away from the data, in the form with which the process computes.
    further
        More data: `Data.of(points, targets)` of `coupledgp.testing`.
    coupling, size
        Coupling and size of another draw; the coupling is None for a process that draws nothing.
    tolerance
        Largest difference between two computations of one result, in predictive standard
        deviations.
    solver_tolerance
        Largest difference between the exact law and the law by iterative solves, likewise.
    left_out_tolerance
        Largest difference between the law of what is left out and the law without it, where that
        is an approximation; None: `solver_tolerance`.
    inner
        Numbers of observations that may be left out, five or more; None: all observations.
    n_samples, seed
        Number of draws in a statistical test, and the seed for all draws; the tests must pass for
        any seed.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.testing import Data, ProcessContract
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> kept = {"lengthscale": 1.0, "outputscale": 1.0, "noise": 0.01, "optimizer": None}
    >>> class TestMine(ProcessContract):
    ...     process = cgp.ExactGPRegressor(**kept).fit(X, np.sin(X[:, 0])).process_
    ...     points, further = X[:4] + 0.1, Data.of(X[:3] + 0.2, np.zeros((3, 1)))
    >>> TestMine().test_updates_are_those_of_all_data_at_once()  # passes without a word
    """

    process: GaussianProcess
    points: Points
    further: Data
    coupling: Any = None
    size: ClassVar[int] = 8
    tolerance: ClassVar[float] = 1e-6
    solver_tolerance: ClassVar[float] = 1e-4
    left_out_tolerance: ClassVar[float | None] = None
    inner: IntArray | None = None
    n_samples: ClassVar[int] = 4000
    seed: int = 0

    def test_is_frozen(self) -> None:
        """No field can be set."""
        require(is_dataclass(self.process), "expected a frozen dataclass")
        for item in fields(self.process):  # type: ignore[arg-type]
            try:
                setattr(self.process, item.name, None)
            except AttributeError:
                continue
            raise AssertionError(f"{item.name} was set on a process that should be frozen")

    def test_new_processes_leave_the_old_one_alone(self) -> None:
        """The methods `updated`, `conditioned` and `redrawn` leave the process as it was."""
        before = self._law(self.process)
        self.process.updated(self.further)
        self.process.conditioned(self.further)
        if self.coupling is not None:
            self.process.redrawn(self.coupling, self.size, self.seed)
        for name, old, new in zip(("mean", "covariance"), before, self._law(self.process),
                                  strict=True):  # fmt: skip
            require(np.array_equal(old, new), f"the {name} has changed")

    def test_shapes(self) -> None:
        """Results have the shapes (p, k), for covariances (p, p, k), for samples (p, k, n)."""
        p, k = len(self.points), self.process.units.n_outputs
        mean, none = self.process.law(self.points, "mean")
        require(none is None and mean.shape == (p, k), f"mean: got shape {mean.shape}")
        for want, shape in (("variance", (p, k)), ("covariance", (p, p, k))):
            spread = self.process.law(self.points, want).spread  # type: ignore[arg-type]
            require(spread is not None and spread.shape == shape, f"{want}: wrong shape")
        samples = self.process.sample(self.points, 3, np.random.default_rng(self.seed))
        require(samples.shape == (p, k, 3), f"samples: got shape {samples.shape}")
        require(self.process.prior(self.points).shape == (p, p, k), "prior: wrong shape")

    def test_variance_is_the_diagonal_of_the_covariance(self) -> None:
        """The variance is the covariance's diagonal; the law of observations adds the noise."""
        laws = {}
        for latent in (False, True):
            variance = self.process.law(self.points, "variance", latent=latent).spread
            covariance = self.process.law(self.points, "covariance", latent=latent).spread
            assert variance is not None
            assert covariance is not None
            diagonal = np.einsum("iik->ik", covariance)
            require_close(variance / diagonal, np.ones_like(variance), self.tolerance, "variance")
            lowest = np.linalg.eigvalsh(np.moveaxis(covariance, 2, 0)).min()
            require(lowest > -self.tolerance * diagonal.max(), "covariance: not semidefinite")
            laws[latent] = diagonal
        if self.process.is_gaussian:
            noise = self.process.units.spread(self.process.noise.variance)
            gap = laws[False] - laws[True]
            require_close(gap / noise, np.ones_like(gap), self.tolerance, "noise")

    def test_samples_follow_the_law(self) -> None:
        """Many draws have the mean and the covariance of the law."""
        if not self.process.is_gaussian:
            return  # the point prediction of a mixture is not its mean
        rng = np.random.default_rng([self.seed, 1])
        samples = self.process.sample(self.points, self.n_samples, rng)
        mean, covariance = self._law(self.process)
        gaps = np.moveaxis(samples, 2, 0) - mean
        require_mean(gaps, np.zeros_like(mean), "samples")
        products = np.einsum("nik,njk->nijk", gaps, gaps)
        require_mean(products, covariance, "products of samples")

    def test_log_density_is_that_of_the_law(self) -> None:
        """The density is the Gaussian of the law; a mixture's has the second moment of its law."""
        mean, variance = self.process.law(self.points, "variance")
        assert variance is not None
        if self.process.is_gaussian:
            targets = mean + 0.7 * np.sqrt(variance)
            expected = stats.norm.logpdf(targets, mean, np.sqrt(variance)).sum(axis=1)
            found = self.process.log_density(self.points, targets)
            require_close(found, expected, self.tolerance, "log density")
            return
        if mean.shape[1] > 1:
            return
        reach = 12 * np.sqrt(variance[0, 0])
        grid = np.linspace(mean[0, 0] - reach, mean[0, 0] + reach, 4001)
        if self.process.noise.is_discrete:
            grid = np.arange(np.floor(grid[0]), np.ceil(grid[-1]) + 1)
        many = np.repeat(self.points[:1], grid.size, axis=0)
        density = np.exp(self.process.log_density(many, grid[:, None]))
        if self.process.noise.is_discrete:
            density[~self._are_possible(grid)] = 0.0
        require_close(integrate.trapezoid(density, grid), 1.0, 1e-4, "mass of the density")
        moment = integrate.trapezoid(density * (grid - mean[0, 0]) ** 2, grid)
        require_close(moment / variance[0, 0], 1.0, 1e-3, "second moment of the density")

    def test_the_distribution_inverts_its_quantiles(self) -> None:
        """The distribution function at the quantile of a probability is this probability."""
        for probability in (0.1, 0.5, 0.95):
            targets = self.process.quantiles(self.points, np.array([probability]))[..., 0]
            found = self.process.cdf(self.points, targets)
            if self.process.noise.is_discrete:  # the least number that is exceeded so rarely
                below = self.process.cdf(self.points, targets - 1)
                require((found >= probability).all(), "quantile: too low")
                require((below < probability).all(), "quantile: too high")
                continue
            require_close(found, np.full_like(found, probability), 1e-8, "distribution")

    def test_updates_are_those_of_all_data_at_once(self) -> None:
        """The process after `updated` has the law of `conditioned` on all data, and its units."""
        together = self.process.data.followed_by(self.further)
        at_once = self.process.conditioned(together, renormalize=True)
        updated = self.process.updated(self.further)
        require(len(updated.data) == len(together), "data: rows are missing or counted twice")
        self._require_same_law(updated, at_once, "updated")

    def test_what_is_left_out_is_predicted_as_without_it(self) -> None:
        """The law of a group is the process's given all other groups; one group is refused."""
        data, process = self.process.data, self.process
        inner = np.arange(len(data)) if self.inner is None else self.inner
        groups = np.arange(len(data)) + 3
        for number, members in enumerate((inner[:2], inner[2:3], inner[3::2])):
            groups[members] = number
        mean, variance = process.left_out_law(groups)
        assert variance is not None
        require(mean.shape == variance.shape == data.targets.shape, "left out: wrong shape")
        for number in range(3):
            own = np.flatnonzero(groups == number)
            rest = process.conditioned(data.take(np.flatnonzero(groups != number)))
            noise = np.zeros(own.size)
            if data.weights is not None:
                noise = process.noise.variance * (data.weights.noise[own] - 1)
            expected = rest.law(data.points[own], "variance")
            assert expected.spread is not None
            if not process.is_gaussian and noise.any():
                return  # the noise of the observation enters each part, not the law of new ones
            spread = expected.spread + process.units.spread(noise)
            scale = np.sqrt(spread)
            gap = (mean[own] - expected.mean) / scale
            allowed = self.left_out_tolerance or self.solver_tolerance
            require_close(gap, np.zeros_like(gap), allowed, "left out: mean")
            ratio = np.sqrt(variance[own]) / scale
            require_close(ratio, np.ones_like(ratio), allowed, "left out: std")
        few = process.left_out_law(groups, rows=inner[[2, 0]])
        require_close(few.mean, mean[inner[[2, 0]]], self.solver_tolerance, "left out: some rows")
        correlation = process.left_out_correlation(groups, inner[:5])
        if correlation is not None:
            lowest = np.linalg.eigvalsh(correlation).min()
            require(lowest > -self.tolerance, "correlation: not semidefinite")
            diagonal = correlation.diagonal()
            require_close(diagonal, np.ones(5), self.tolerance, "correlation: diagonal")
        try:
            process.left_out_law(np.zeros(len(data)))
        except InvalidInputError:
            return
        raise AssertionError("left_out_law: expected an InvalidInputError for a single group")

    def test_conditioning_keeps_units(self) -> None:
        """A process that is conditioned on other data keeps its units."""
        moved = Data.of(self.further.points, 3.0 + 2.0 * self.further.targets)
        if self.process.noise.is_discrete:
            moved = self.further
        other = self.process.conditioned(moved)
        for name in ("offset", "scale"):
            old, new = getattr(self.process.units, name), getattr(other.units, name)
            require_close(new, old, 0.0, name)

    def test_draws_are_fixed_by_their_seed(self) -> None:
        """One seed gives one law; a process without draws refuses to redraw."""
        if self.coupling is None:
            try:
                self.process.redrawn("iid", self.size, self.seed)
            except InvalidInputError:
                return
            raise AssertionError("redrawn: expected an InvalidInputError, nothing is drawn")
        first, again, other = (
            self._law(self.process.redrawn(self.coupling, self.size, seed))
            for seed in (self.seed, self.seed, self.seed + 1)
        )
        require(np.array_equal(first[0], again[0]), "one seed, two means")
        require(np.array_equal(first[1], again[1]), "one seed, two covariances")
        require(not np.array_equal(first[1], other[1]), "two seeds, one covariance")

    def test_a_file_restores_the_law_to_the_bit(self) -> None:
        """A file holds the same process."""
        restored = decoded(encoded(self.process), GaussianProcess)
        for name, old, new in zip(
            ("mean", "covariance"), self._law(self.process), self._law(restored), strict=True
        ):
            require(np.array_equal(old, new), f"the {name} is another one")
        self._require_same_law(
            restored.updated(self.further), self.process.updated(self.further), "restored, updated"
        )

    def test_exact_law(self) -> None:
        """The exact process is its own exact process; iterative solves give the same law."""
        exact = self.process.exact()
        require(exact.exact() is exact, "the exact process of an exact process is another one")
        if not exact.is_gaussian:
            return  # a mixture over hyperparameters has no single kernel to solve with
        problem = self.process.exact_problem()
        system = problem.system(SystemOptions("float64", 64, self.seed))
        solved = predictive_law(system, self.points, 1e-9)
        mean, covariance = self._law(exact)
        units = self.process.units
        scale = np.sqrt(np.einsum("iik->ik", covariance))
        gap = (units.mean(solved.mean) - mean) / scale
        require_close(gap, np.zeros_like(gap), self.solver_tolerance, "mean by solves")
        relative = units.spread(solved.cov) / (scale[:, None] * scale[None])
        expected = covariance / (scale[:, None] * scale[None])
        require_close(relative, expected, self.solver_tolerance, "covariance by solves")

    def _are_possible(self, values: FloatArray) -> NDArray[np.bool_]:
        """Which of some whole numbers (q,) an observation can be."""
        possible = np.ones(values.size, dtype=bool)
        for place, value in enumerate(values):
            try:
                self.process.noise.check_targets(np.array([[value]]))
            except InvalidInputError:
                possible[place] = False
        return possible

    def _law(self, process: GaussianProcess) -> tuple[FloatArray, FloatArray]:
        mean, covariance = process.law(self.points, "covariance")
        assert covariance is not None
        return mean, covariance

    def _require_same_law(
        self, process: GaussianProcess, other: GaussianProcess, text: str
    ) -> None:
        mean, covariance = self._law(process)
        expected, spread = self._law(other)
        scale = np.sqrt(np.einsum("iik->ik", spread))
        gap = (mean - expected) / scale
        require_close(gap, np.zeros_like(gap), self.tolerance, f"{text}: mean")
        relative = (covariance - spread) / (scale[:, None] * scale[None])
        require_close(relative, np.zeros_like(relative), self.tolerance, f"{text}: covariance")
