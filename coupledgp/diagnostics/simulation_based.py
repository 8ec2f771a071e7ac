"""Simulation-based calibration: true values are uniform among draws of a right posterior.

Draw a truth from the prior and data given the truth, draw from the posterior given the data, and
note the rank of the truth among the draws. If inference is right the truth and the draws have the
same law given the data, so that ranks are uniform, whatever the quantity. Posteriors that are too
narrow give ranks at both ends, those that are too wide in the middle, shifted ones at one end.

Talts, Betancourt, Simpson, Vehtari and Gelman, "Validating Bayesian inference algorithms with
simulation-based calibration" (2018); Cook, Gelman and Rubin (2006).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.diagnostics.rank_statistics import RankCheck, SimulatedCalibration
from coupledgp.diagnostics.scoring.subject import Subject
from coupledgp.errors import InvalidInputError
from coupledgp.gp.protocol import Data, GaussianProcess, Points
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import check_positive_int, real_array
from coupledgp.random import FloatArray, Seed, as_rng, symmetric_root

Values: TypeAlias = Mapping[str, ArrayLike]
Simulate: TypeAlias = Callable[[np.random.Generator], tuple[Values, Any]]
Posterior: TypeAlias = Callable[[Any, int, np.random.Generator], Values]
MIN_SIMULATIONS = 20


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
    >>> from coupledgp.diagnostics import simulation_based_calibration
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
    >>> from coupledgp.diagnostics import ProcessSimulation, simulation_based_calibration
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
