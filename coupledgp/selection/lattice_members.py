"""Features on a lattice of frequencies as a member, for tables of one to three columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from coupledgp.errors import NumericalError
from coupledgp.gp.lattice import LatticeGP
from coupledgp.gp.lattice_parts import TrendColumns
from coupledgp.inference.evidence.problem import Hyperparameters
from coupledgp.inference.lattice.lattice import MOST_AXES, TooManyWavesError
from coupledgp.search.tables.lattice_kernels import KERNELS, MOST_LEFT_OUT, LatticeProblem
from coupledgp.search.tables.lattice_rows import RowsInMemory
from coupledgp.search.tables.local_problem import LocalProblem
from coupledgp.selection.member_kinds import (
    FittedMember,
    LeftOutScores,
    MemberKind,
    MemberPlan,
    MemberPrior,
    MemberTask,
    Size,
)
from coupledgp.spectra import Spectrum, parse_spectrum

# Rows from which a lattice has fewer waves than there are rows, for most kernels.
LEAST_ROWS = 5000
# Seconds of the searches on few rows; seconds a row of all passes, by the number of columns.
FIRST_SECONDS, ROW_SECONDS = 12.0, {1: 4e-6, 2: 6e-5, 3: 2e-4}
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
            own.seed, most_waves=most_waves, report=task.report, most_left_out=MOST_LEFT_OUT,
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
