"""Exact Gaussian processes of a table as members: one for each kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, TypeVar

import numpy as np

from coupledgp.core.averaging import importance_draws
from coupledgp.core.problem import Box, VectorObjective
from coupledgp.errors import NumericalError
from coupledgp.ground.progress import tell
from coupledgp.likelihoods.gaussian import gaussian_log_density
from coupledgp.linalg.matrices import as_numpy, cholesky_inverse
from coupledgp.random import FloatArray
from coupledgp.spectra import parse_spectrum
from coupledgp.tables.dense_prior import AdditivePrior
from coupledgp.tables.exact_process import ExactGP
from coupledgp.tables.local_evidence import REFUSED
from coupledgp.tables.local_prior import LocalPrior
from coupledgp.tables.local_problem import ROUNDING, LocalProblem
from coupledgp.tables.local_search import Evidence, LocalFitter, LocalSearch, Round, kernels_for
from coupledgp.tables.member_kinds import (
    DISTANCE_SECONDS,
    EVALUATION_SECONDS,
    FittedMember,
    LeftOutScores,
    MemberKind,
    MemberPlan,
    MemberTask,
    PartsModel,
    Size,
)

# Rows up to which all members are exact, one for each kernel; up to which one exact member, of the
# kernel of greatest evidence, stands beside others, as dense matrices of all four would take most
# of the time and memory; and up to which hyperparameters of exact members are averaged.
EXACT_ROWS, SOME_EXACT_ROWS, AVERAGED_ROWS = 2000, 5000, 200
# Numbers in a table up to which hyperparameters are averaged: each draw passes over the table.
AVERAGED_NUMBERS = 10**6
# Neighbours by which the evidence of an exact member is found: with so many it is nearly exact.
EXACT_NEIGHBOURS = 32
EXACT_ROUNDS = (Round(512, 15), Round(EXACT_ROWS, 20))
# Draws of averaged hyperparameters of each exact member, of which those of smaller weight are left
# out.
N_DRAWS, LEAST_DRAW_WEIGHT = 16, 1e-3
# Entry of the noise in a vector of hyperparameters, the first entry in every structure.
NOISE_PLACE = 0

Made = TypeVar("Made")


def averages(n_rows: int, dim: int) -> bool:
    """Whether hyperparameters of exact members are averaged on a table of n rows and d columns."""
    return n_rows <= AVERAGED_ROWS and n_rows * dim <= AVERAGED_NUMBERS


class MemberPosterior(VectorObjective):
    """Minus the log posterior of the hyperparameters of a model given all rows, nats.

    A known noise is no variable: its entry has a standard normal law that nothing depends on.

    Parameters
    ----------
    evidence
        Minus the log posterior per observation of all rows.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.scale = evidence.n_total * evidence.targets.shape[1]

    def box(self, start: FloatArray) -> Box:
        return self.evidence.box(start)

    def value_and_gradient(self, variables: FloatArray) -> tuple[float, FloatArray]:
        """The objective and its gradient (q,); a point without an evidence has no gradient."""
        kept = self.with_known_noise(variables)
        value, gradient = self.evidence.value_and_gradient(kept)
        if value >= REFUSED:
            return value, gradient
        value, gradient = self.scale * value, self.scale * gradient
        if self.evidence.structure.known_noise is not None:
            gap = variables[NOISE_PLACE] - kept[NOISE_PLACE]
            value += 0.5 * gap**2
            gradient[NOISE_PLACE] = gap
        return value, gradient

    def with_known_noise(self, vectors: FloatArray) -> FloatArray:
        """Vectors (..., p) of hyperparameters, with the known noise in its entry if any."""
        known = self.evidence.structure.known_noise
        if known is None:
            return vectors
        kept = vectors.copy()
        kept[..., NOISE_PLACE] = np.log(known)
        return kept


def leave_one_out(process: ExactGP, targets: FloatArray) -> LeftOutScores:
    """Laws of rows of normalised targets (n, k), each given all other rows.

    `mu_i = y_i - alpha_i / P_ii` and `1 / P_ii` with `P = (K + s R)^-1`, normalised units
    (Rasmussen and Williams, 2006, section 5.4.2).
    """
    precision = as_numpy(cholesky_inverse(process.factor).diagonal())
    gaps = as_numpy(process.alpha) / precision[:, None]
    variance = 1 / precision[:, None]
    densities = gaussian_log_density(gaps, np.zeros_like(gaps), variance)
    return LeftOutScores(densities, targets - gaps, variance[:, 0])


class DenseModel(PartsModel):
    """A sum of parts as an exact process."""

    def process(self, problem: LocalProblem, normalize: bool) -> ExactGP:
        """The dense process; its noise is at least the rounding of its covariance.

        Wide tables are conditioned on in few columns, which have the same covariance.
        """
        rotated = problem.rotated()
        prior = rotated.adopted(self.parts)
        least = ROUNDING * len(problem.data) * prior.hyperparameters.outputscale
        if prior.noise < least and problem.known_noise is None:
            prior = prior.with_noise(least)

        def given(own: LocalPrior) -> ExactGP:
            prior = AdditivePrior(own)
            return ExactGP.given(prior, rotated.data, problem.units, normalize, warns=False)

        found = rotated.conditioned(prior, given)
        noisy = found.dense_prior
        assert isinstance(noisy, AdditivePrior)
        own = AdditivePrior(problem.adopted(noisy.parts)).bounded_by(problem.data.points)
        return replace(found, dense_prior=own, rows=problem.data)

    def left_out(self, task: MemberTask) -> LeftOutScores:
        process = self.process(task.train, task.normalize)
        if task.held is None:
            return leave_one_out(process, task.targets)
        return LeftOutScores.held_out(process, task, self.noise)


@dataclass(frozen=True)
class ExactMembers(MemberKind):
    """An exact GP with a trend for each kernel.

    Beside members that need rows held out, on more than `EXACT_ROWS` rows, the one of greatest
    evidence alone.

    Attributes
    ----------
    kernels : tuple of str or None
        Names of the kernels; None for those that suit the table.
    """

    kernels: tuple[str, ...] | None = None
    name: ClassVar[str] = "exact"
    leaves_one_out: ClassVar[bool] = True

    def suits(self, size: Size) -> bool:
        return size.n_rows <= SOME_EXACT_ROWS

    def forecast(self, size: Size, alone: bool = True, effort: float = 1.0) -> float:
        """See `MemberKind.forecast`; exact members know the whole effort alone."""
        every = alone or size.n_rows <= EXACT_ROWS
        n_kernels = len(self.kernels or kernels_for(size.dim, size.shared))
        n_dense = n_kernels if every else 1
        k = min(EXACT_NEIGHBOURS, size.n_rows - 1)
        search = size.searched.search_seconds(EXACT_ROUNDS, k, 0)
        return n_kernels * search + n_dense * self._dense(size, k)

    @staticmethod
    def _dense(size: Size, k: int) -> float:
        """Seconds of the dense matrices of an exact member."""
        draws = 1
        seconds = 1e-10 * size.n_rows**3
        if averages(size.n_rows, size.dim):
            draws = N_DRAWS
            evaluations = 2 * ((1 if size.shared else size.dim) + 4) + draws
            entries = size.n_rows * k**2 * size.searched.entry_seconds
            seconds += evaluations * (entries + EVALUATION_SECONDS)
        # Distances of all rows for two processes of each draw, and the rotation.
        return seconds + (2 * draws + 1) * size.n_rows**2 * size.dim * DISTANCE_SECONDS

    def fit(self, task: MemberTask, plan: MemberPlan) -> list[FittedMember]:
        problem = task.train.rotated()
        fitter = problem.fitter(exact=True)
        kernels = self.kernels or kernels_for(len(task.train.groups), task.train.shared)
        if task.held is None or len(task.whole.data) <= EXACT_ROWS:

            def make(name: str) -> list[FittedMember]:
                found = self.search(task, name, problem, fitter)
                return [self._member(task, plan, found, problem, fitter)]

            return computed(partial(make, name) for name in kernels)
        best = task.screened
        if self.kernels is None and not task.train.shared:
            near = replace(best.structure, n_neighbours=EXACT_NEIGHBOURS)
            found = fitter.search(near, EXACT_ROUNDS[1:], [best.vector]).after(best.n_evaluations)
        else:
            searches = [self.search(task, name, problem, fitter) for name in kernels]
            found = max(searches, key=lambda search: search.value)
        return [self._member(task, plan, found, problem, fitter)]

    def search(
        self, task: MemberTask, name: str, problem: LocalProblem, fitter: LocalFitter
    ) -> LocalSearch:
        """The hyperparameters of the kernel of a name."""
        k = min(EXACT_NEIGHBOURS, max(len(problem.data) - 1, 1))
        return fitter.search(problem.structure(task.trend, k, parse_spectrum(name)), EXACT_ROUNDS)

    def _member(
        self,
        task: MemberTask,
        plan: MemberPlan,
        found: LocalSearch,
        problem: LocalProblem,
        fitter: LocalFitter,
    ) -> FittedMember:
        vectors, shares = _draws(fitter, found, problem)
        priors = tuple(DenseModel(problem.prior(found.structure, v)) for v in vectors)
        name = f"exact, {found.structure.spectrum}{plan.remark}"
        return FittedMember.scored(task, name, priors, shares, found.n_evaluations)


def _draws(
    fitter: LocalFitter, found: LocalSearch, problem: LocalProblem
) -> tuple[FloatArray, FloatArray]:
    """Vectors (q, p) of hyperparameters and their weights: the best, or draws on few rows."""
    if not averages(len(problem.data), len(problem.groups)) or not fitter.varies:
        return found.vector[None], np.ones(1)
    everything = np.arange(len(fitter.rows))
    density = MemberPosterior(fitter.evidence(found.structure, everything, found.vector))
    rng = np.random.default_rng([problem.seed, 3])
    draws, weights = importance_draws(density, found.vector, N_DRAWS, rng)
    kept = weights > LEAST_DRAW_WEIGHT
    kept[np.argmax(weights)] = True
    return density.with_known_noise(draws[kept]), weights[kept] / weights[kept].sum()


def computed(makers: Iterable[Callable[[], list[Made]]]) -> list[Made]:
    """Results of all makers, without those whose covariance has no factor.

    Raises
    ------
    NumericalError
        No covariance has a factor; the error of the last maker is raised.
    """
    found: list[Made] = []
    failure: NumericalError | None = None
    for make in makers:
        try:
            found += make()
        except NumericalError as error:
            failure = error
            tell(f"a member is left out: {error}")
    if failure is not None and not found:
        raise failure
    return found
