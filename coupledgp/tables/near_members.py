"""Local parts and features of fitted frequencies as members.

Features on a lattice of frequencies as a member, for tables of one to three columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from coupledgp.core.posterior_form import mixture_log_density, mixture_weights
from coupledgp.core.problem import Hyperparameters
from coupledgp.errors import NumericalError
from coupledgp.spectra import Spectrum, parse_spectrum
from coupledgp.tables.exact_members import EXACT_ROWS, SOME_EXACT_ROWS
from coupledgp.tables.lattice import MOST_AXES, TooManyWavesError
from coupledgp.tables.lattice_kernels import KERNELS, MOST_LEFT_OUT, LatticeProblem
from coupledgp.tables.lattice_parts import TrendColumns
from coupledgp.tables.lattice_process import LatticeGP
from coupledgp.tables.lattice_search import RowsInMemory
from coupledgp.tables.local_parameters import Structure
from coupledgp.tables.local_problem import LocalProblem
from coupledgp.tables.local_process import LocalGP
from coupledgp.tables.local_search import Round, kernels_for
from coupledgp.tables.member_kinds import (
    FittedMember,
    LeftOutScores,
    MemberKind,
    MemberPlan,
    MemberPrior,
    MemberTask,
    PartsModel,
    Size,
)

# Rounds of searches that start from the best kernel of few rows.
NEAR_ROUNDS = (Round(2048, 10), Round(4096, 15))
FITTED_ROUNDS = (Round(4096, 25), Round(8192, 30))


class NearModel(PartsModel):
    """Features, a trend and a local part by neighbours."""

    def process(self, problem: LocalProblem, normalize: bool) -> LocalGP:
        return problem.process(self.parts, normalize)

    def left_out(self, task: MemberTask) -> LeftOutScores:
        if task.held is None:
            process = self.process(task.train, task.normalize)
            return LeftOutScores.of_law(process.left_out(np.arange(len(task.train.data))), task)
        return LeftOutScores.held_out(self.process(task.train, task.normalize), task, self.noise)


class NearMembers(MemberKind):
    """A model of a local part, of features of fitted frequencies, or of both, with a trend.

    Attributes
    ----------
    local, features : bool
        Which parts it has. The kernel of a local part is that of greatest evidence.
    """

    local: ClassVar[bool] = True
    features: ClassVar[bool] = True

    def suits(self, size: Size) -> bool:
        return size.n_rows > EXACT_ROWS

    def forecast(self, size: Size, alone: bool = True, effort: float = 1.0) -> float:
        features = 2 * size.n_frequencies if self.features else 0
        k = size.n_neighbours if self.local else 0
        n_kernels = len(kernels_for(size.dim, size.shared)) if k else 0
        screening = size.screening_seconds(n_kernels) if k else 0.0
        rounds = FITTED_ROUNDS if features else NEAR_ROUNDS
        search = size.search_seconds(rounds, k, features)
        # Rows are whitened twice: those that are not held out, and all.
        return screening + effort * search + 2 * size.n_rows * size.row_seconds(k, features)

    def fit(self, task: MemberTask, plan: MemberPlan) -> list[FittedMember]:
        problem = task.train
        fitter = problem.fitter()
        structure, n_screened = problem.structure(task.trend, 0), 0
        if self.local:
            structure, n_screened = task.screened.structure, task.screened.n_evaluations
        rounds = plan.rounds(FITTED_ROUNDS if self.features else NEAR_ROUNDS)
        if self.features:
            structure = problem.with_features(
                structure, task.n_frequencies, "orthogonal+pnc", fitted=True
            )
        starts = None
        if self.local:
            starts = [task.screened.started(structure)]
            starts += [structure.start()] if self.features else []
        found = fitter.search(structure, rounds, starts).after(n_screened)
        model = NearModel(problem.prior(structure, found.vector))
        name = f"{name_of(structure)}{plan.remark}"
        return [FittedMember.scored(task, name, (model,), np.ones(1), found.n_evaluations)]


class FeatureMembers(NearMembers):
    """Features of fitted frequencies and a trend."""

    name: ClassVar[str] = "sparse-spectrum"
    local: ClassVar[bool] = False

    def suits(self, size: Size) -> bool:
        """Never: with a local part beside them, features tell more."""
        return False


class LocalMembers(NearMembers):
    """A local part and a trend."""

    name: ClassVar[str] = "local"
    features: ClassVar[bool] = False

    def suits(self, size: Size) -> bool:
        return size.n_rows > SOME_EXACT_ROWS


class HybridMembers(NearMembers):
    """A local part, features of fitted frequencies and a trend."""

    name: ClassVar[str] = "hybrid"


def name_of(structure: Structure) -> str:
    """Name of a model: its local kernel, and the number of its fitted frequencies."""
    parts = [] if structure.spectrum is None else [f"local, {structure.spectrum}"]
    if structure.frequencies is not None:
        parts.append(f"{len(structure.frequencies)} fitted frequencies")
    return " and ".join(parts)


# Rows from which a lattice has fewer waves than there are rows, for most kernels.
LEAST_ROWS = 5000
# Seconds of the searches on few rows; seconds a row of all passes, by the number of columns.
FIRST_SECONDS, ROW_SECONDS = 12.0, {1: 4e-6, 2: 6e-5, 3: 2e-4}
# Mean log density, nats a row, that a local part of the best kernel of few rows has to add to a
# lattice for other members to be fitted beside it.
LEAST_GAIN = 0.005
# Most waves of a lattice, as a share of the rows: on more, neighbours tell as much for less.
MOST_SHARE, FEW_WAVES = 0.25, 2000


@dataclass(frozen=True, eq=False)
class LatticeModel(MemberPrior):
    """A stationary kernel of all columns on a lattice, with a linear trend or without.

    Attributes
    ----------
    spectrum : Spectrum
        Gaussian or Matern kernel.
    hyperparameters : Hyperparameters
        Lengthscales (d,), and variances in normalised units.
    trend : TrendColumns
        Places and trend columns.
    seed : int
        Of draws by which variances are known.
    """

    spectrum: Spectrum
    hyperparameters: Hyperparameters
    trend: TrendColumns
    seed: int

    @property
    def noise(self) -> float:
        return self.hyperparameters.noise

    def with_noise(self, noise: float) -> LatticeModel:
        return replace(self, hyperparameters=replace(self.hyperparameters, noise=noise))

    def process(self, problem: LocalProblem, normalize: bool) -> LatticeGP:
        return LatticeGP.given(
            self.spectrum, self.hyperparameters, self.trend, problem.data, problem.units,
            normalize, seed=self.seed,
        )  # fmt: skip

    def left_out(self, task: MemberTask) -> LeftOutScores:
        process = self.process(task.train, task.normalize)
        if task.held is None:
            return LeftOutScores.of_law(process.left_out(np.arange(len(task.train.data))), task)
        return LeftOutScores.held_out(process, task, self.noise)


class LatticeMembers(MemberKind):
    """The best of some kernels on a lattice."""

    name: ClassVar[str] = "lattice"
    takes_tensors: ClassVar[bool] = False

    def suits(self, size: Size) -> bool:
        return size.dim <= MOST_AXES and size.n_rows > LEAST_ROWS

    def settles(self, task: MemberTask, members: list[FittedMember]) -> bool:
        """Whether a local part, not searched for further, adds little to the lattice."""
        own = members[-1].scores.log_densities
        try:
            near = NearModel(task.train.prior(task.screened.structure, task.screened.vector))
            densities = np.array([own, near.left_out(task).log_densities])
        except NumericalError:
            return False
        weights = mixture_weights(densities, 1.0, task.scored.counts)
        gains = mixture_log_density(densities, weights) - own
        return bool(np.average(gains, weights=task.scored.counts) < LEAST_GAIN)

    def forecast(self, size: Size, alone: bool = True, effort: float = 1.0) -> float:
        # Rows are given twice: those that are not held out, and all.
        each = ROW_SECONDS.get(size.dim, ROW_SECONDS[MOST_AXES])
        return FIRST_SECONDS * effort + 2 * each * size.n_rows

    def fit(self, task: MemberTask, plan: MemberPlan) -> list[FittedMember]:
        own = task.train
        most_waves = max(int(MOST_SHARE * len(own.data)), FEW_WAVES)
        points = own.data.points
        trend = TrendColumns.of(
            np.arange(points.shape[1]), task.trend == "linear", points, own.data.counts
        )
        shared = plan.shared or np.unique(own.groups).size == 1  # as of points of space
        problem = LatticeProblem(
            RowsInMemory(own.data, own.units, trend), task.normalize, shared, own.known_noise,
            own.seed, most_waves=most_waves, most_left_out=MOST_LEFT_OUT,
        )  # fmt: skip
        try:
            best, tried = problem.best([parse_spectrum(name) for name in KERNELS])
        except TooManyWavesError as error:
            raise NumericalError(f"lattice: {error}") from error
        assert best.search is not None
        prior = best.search.prior
        model = LatticeModel(prior.spectrum, prior.hyperparameters, trend, own.seed)
        name = f"lattice, {prior.spectrum}, {prior.lattice.n_waves} waves"
        n_steps = sum(each.n_steps for each in tried)
        return [FittedMember.scored(task, name, (model,), np.ones(1), n_steps)]
