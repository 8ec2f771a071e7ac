"""What a kind of models of a table states, so that its models are fitted, weighed and mixed.

Approximations compared with the exact process at rows that neither was given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from coupledgp.core.left_out import LeftOut
from coupledgp.core.normalized_process import NormalizedProcess
from coupledgp.core.posterior_form import mixture_log_density, mixture_weights
from coupledgp.core.process import Data, GaussianProcess, Points
from coupledgp.errors import NumericalError
from coupledgp.ground.progress import tell
from coupledgp.ground.validation import wrong
from coupledgp.likelihoods.gaussian import gaussian_log_density
from coupledgp.random import FloatArray
from coupledgp.spectra import parse_spectrum
from coupledgp.tables.local_prior import LocalPrior
from coupledgp.tables.local_problem import LocalProblem
from coupledgp.tables.local_search import LocalSearch, Round, kernels_for
from coupledgp.tables.nearest import BRUTE_ROWS, TREE_DIM

if TYPE_CHECKING:
    from coupledgp.diagnostics.laws.normal import Normal

# Seconds of one core of a server of 2023, which `benchmarks/performance/front_door_cost.py` sets
# beside those of the machine at hand: of one entry of the neighbours' covariances, and of each
# column in it, of one entry of the features with its gradient, of one entry of their Gram matrix,
# of one step of a search for neighbours, and of one column in a distance of two rows.
ENTRY_SECONDS, ENTRY_COLUMN_SECONDS = 2e-8, 3.5e-10
FEATURE_SECONDS, GRAM_SECONDS, STEP_SECONDS = 5e-8, 1e-10, 1e-7
DISTANCE_SECONDS = 1.2e-9
# Of a pair of rows in a search for neighbours by all distances to earlier rows, half of all pairs.
PAIR_SECONDS = 1.2e-9
# Of a cubed row of a dense covariance, factored and inverted.
CUBE_SECONDS = 7e-11
# Further seconds of an evaluation, whatever the table, and seconds of the proposal of starts.
EVALUATION_SECONDS, PROPOSAL_SECONDS = 1.5e-3, 0.15
# L-BFGS takes about this many evaluations an iteration.
EVALUATIONS_PER_ITERATION = 1.2
# Least share of its iterations with which a search is worth its cost.
LEAST_EFFORT = 0.25
# The kernel of which lengthscales start the search of all others; rows of the first searches, and
# iterations of the first kernel and of each other one.
FIRST_KERNEL, SCREENED_ROWS, FIRST_ITERATIONS, NEXT_ITERATIONS = "matern-3/2", 500, 20, 8
# Variances of the member that makes the tails of a mixture heavier, over those of the best one.
TAIL_FACTORS = tuple(2.0**k for k in range(1, 11))


class LeftOutScores(NamedTuple):
    """Laws of b rows under a model that did not see their targets, in normalised units of y.

    Attributes
    ----------
    log_densities : FloatArray (b,)
        Log densities of y itself, so that models of transformed targets compare with others.
    means : FloatArray (b, k)
        Predictive means.
    variances : FloatArray (b,)
        Predictive variances, noise included; means over outputs.
    """

    log_densities: FloatArray
    means: FloatArray
    variances: FloatArray

    @classmethod
    def mixed(
        cls, scores: list[LeftOutScores], shares: FloatArray, held: bool = True
    ) -> LeftOutScores:
        """Scores of a mixture of models with shares (q,) of sum one; means are its moments.

        Rows that took part in the shares have a part in each in proportion to their density. Each
        of them is given all others by the harmonic mean of its densities (Gelfand and others,
        1992), `1 / p(y_i | y_-i) = sum_q share_q / p_q(y_i | y_-i)`.

        Parameters
        ----------
        scores, shares
            Scores of each model, and its share.
        held
            Whether the rows took no part in the shares.
        """
        densities = np.array([one.log_densities for one in scores])
        if held:
            mixed = mixture_log_density(densities, shares)
            parts = np.broadcast_to(shares[:, None], densities.shape)
        else:
            mixed = -mixture_log_density(-densities, shares)
            parts = shares[:, None] * np.exp(mixed - densities)
        means = np.einsum("qb,qbk->bk", parts, np.array([one.means for one in scores]))
        variances = (parts * np.array([one.variances for one in scores])).sum(axis=0)
        return cls(mixed, means, variances)

    @classmethod
    def of_law(cls, law: LeftOut, task: MemberTask) -> LeftOutScores:
        """Scores of all rows of a task by their law, each given all others, in units of y."""
        units = task.train.units
        variance = law.variances[0, :, :1] / units.scale[0] ** 2
        means = units.normalized(law.means[0])
        densities = gaussian_log_density(task.targets, means, variance)
        return cls(densities, means, variance[:, 0])

    @classmethod
    def held_out(cls, process: NormalizedProcess, task: MemberTask, noise: float) -> LeftOutScores:
        """Scores of the rows of a task under a process of others, of Gaussian noise."""
        mean, variance = process.latent_law(task.scored.points, "variance")
        assert variance is not None
        observed = (variance + noise)[:, None]
        densities = gaussian_log_density(task.targets, mean, observed)
        return cls(densities, mean, observed[:, 0])


@dataclass(frozen=True, eq=False)
class MemberTask:
    """A table to whose rows members are fitted, and the rows by which they are weighed.

    Attributes
    ----------
    whole : LocalProblem
        The table.
    train : LocalProblem
        The rows that members are fitted to.
    held : Data or None
        Rows that were held out; None: all rows are fitted to, each is left out in turn.
    normalize : bool
        Whether the units of y follow the data.
    trend : str
        Trend of every model.
    n_neighbours, n_frequencies : int
        Neighbours of local parts, frequencies of features.
    """

    whole: LocalProblem
    train: LocalProblem
    held: Data | None
    normalize: bool
    trend: str
    n_neighbours: int
    n_frequencies: int

    @property
    def scored(self) -> Data:
        """The rows by which members are weighed."""
        return self.train.data if self.held is None else self.held

    @property
    def targets(self) -> FloatArray:
        """Normalised targets (b, k) of these rows."""
        return self.train.units.normalized(self.scored.targets)

    @cached_property
    def screened(self) -> LocalSearch:
        """The stationary kernel of greatest evidence of few rows, found once for all members.

        The evidence of few rows is exact; all kernels but the first start where that one ended.
        """
        rows = np.random.default_rng([self.train.seed, 7]).permutation(len(self.train.data))
        few = self.train.take(np.sort(rows[:SCREENED_ROWS]))
        structure, fitter = few.structure(self.trend, self.n_neighbours), few.fitter(exact=True)
        names = kernels_for(structure.dim, self.train.shared)
        first, *others = sorted(names, key=lambda name: name != FIRST_KERNEL)
        rounds = (Round(SCREENED_ROWS, FIRST_ITERATIONS), Round(SCREENED_ROWS, NEXT_ITERATIONS))
        found = [fitter.search(replace(structure, spectrum=parse_spectrum(first)), rounds[:1])]
        for name in others:
            own = replace(structure, spectrum=parse_spectrum(name))
            found.append(fitter.search(own, rounds[1:], [found[0].vector]))
        best = max(found, key=lambda search: search.value)
        return replace(best, n_evaluations=sum(search.n_evaluations for search in found))


class MemberPrior(ABC):
    """A model with its hyperparameters, which makes its process of any rows of a table."""

    @property
    @abstractmethod
    def noise(self) -> float:
        """Noise variance, normalised units."""

    @abstractmethod
    def with_noise(self, noise: float) -> Self:
        """The model with another noise variance."""

    @abstractmethod
    def process(self, problem: LocalProblem, normalize: bool) -> GaussianProcess:
        """The process given the rows of a problem, whose units of y follow them if `normalize`."""

    @abstractmethod
    def left_out(self, task: MemberTask) -> LeftOutScores:
        """Scores of the rows by which the members of a task are weighed."""


@dataclass(frozen=True, eq=False)
class PartsModel(MemberPrior):
    """A model that is a sum of parts: features, a trend, a local or a full part.

    Attributes
    ----------
    parts : LocalPrior
        The parts, with their hyperparameters.
    """

    parts: LocalPrior

    @property
    def noise(self) -> float:
        return self.parts.noise

    def with_noise(self, noise: float) -> Self:
        return replace(self, parts=self.parts.with_noise(noise))


@dataclass(frozen=True, eq=False)
class FittedMember:
    """A model with draws of its hyperparameters, and its laws of rows that were left out.

    Attributes
    ----------
    name : str
        Name of the model.
    priors : tuple of MemberPrior
        The model at each draw; one for the hyperparameters of greatest posterior.
    shares : FloatArray (q,)
        Weights of the draws, of sum one.
    scores : LeftOutScores
        Laws of the rows that were left out.
    n_evaluations : int
        Evaluations of the evidence.
    is_tail : bool
        Whether it is there for the tails of a mixture, where a small weight says much.
    """

    name: str
    priors: tuple[MemberPrior, ...]
    shares: FloatArray
    scores: LeftOutScores
    n_evaluations: int
    is_tail: bool = False

    @classmethod
    def scored(
        cls,
        task: MemberTask,
        name: str,
        priors: tuple[MemberPrior, ...],
        shares: FloatArray,
        n_evaluations: int,
    ) -> FittedMember:
        """The member with its scores of the rows that a task left out."""
        if task.held is not None:
            tell(f"{name}: {len(task.held)} rows that were held out")
        own = [prior.left_out(task) for prior in priors]
        scores = LeftOutScores.mixed(own, shares, held=task.held is not None)
        return cls(name, priors, shares, scores, n_evaluations)

    def errs_more_than(self, means: FloatArray, task: MemberTask) -> bool:
        """Whether its means miss the rows left out by more than other means (b, k) do.

        Mean squared errors are compared, by the standard error of their difference.
        """
        own, other = (
            np.square(task.targets - one).sum(axis=1) for one in (self.scores.means, means)
        )
        gaps, counts = own - other, task.scored.counts
        return bool(np.average(gaps, weights=counts) > np.std(gaps) / np.sqrt(len(gaps)))

    def broader(self, task: MemberTask) -> FittedMember:
        """The member with as much more noise as makes a mixture of both densest.

        Its predictive variances are about `TAIL_FACTORS` times those of the member. The factor is
        chosen by the density of the rows left out under normal laws of the member's means.
        """
        gaps = self.scores.means - task.targets
        variances = self.scores.variances[:, None]
        own = gaussian_log_density(
            gaps, np.zeros_like(gaps), np.broadcast_to(variances, gaps.shape)
        )

        def density(factor: float) -> float:
            wide = np.broadcast_to(factor * variances, gaps.shape)
            both = np.array([own, gaussian_log_density(gaps, np.zeros_like(gaps), wide)])
            weights = mixture_weights(both, 1.0, task.scored.counts)
            return float(np.average(mixture_log_density(both, weights), weights=task.scored.counts))

        factor = max(TAIL_FACTORS, key=density)
        noise = self.priors[0].noise + (factor - 1) * float(self.scores.variances.mean())
        priors = tuple(prior.with_noise(noise) for prior in self.priors)
        found = self.scored(task, f"{self.name}, more noise", priors, self.shares,
                            self.n_evaluations)  # fmt: skip
        return replace(found, is_tail=True)


class MemberKind(ABC):
    """A kind of models of a table, one class for each name that `GPRegressor(model=)` takes.

    Attributes
    ----------
    name : str
        The name.
    leaves_one_out : bool
        Whether its models score each row given all others without a fit for each.
    complements : bool
        Whether `"auto"` tries it beside other kinds only, with what they leave of the budget.
    takes_tensors : bool
        Whether its fit takes torch, an extra.
    """

    name: ClassVar[str]
    leaves_one_out: ClassVar[bool] = False
    complements: ClassVar[bool] = False
    takes_tensors: ClassVar[bool] = True

    @abstractmethod
    def suits(self, size: Size) -> bool:
        """Whether `"auto"` tries it on a table."""

    @abstractmethod
    def forecast(self, size: Size, alone: bool = True, effort: float = 1.0) -> float:
        """Seconds that the kind is expected to take, prediction of rows left out included.

        Parameters
        ----------
        size
            Size of the table.
        alone
            Whether all kinds of the fit leave one row out at a time.
        effort
            Share of the iterations of its search.
        """

    def settles(self, task: MemberTask, members: list[FittedMember]) -> bool:
        """Whether other kinds can add little to its members, which have been fitted."""
        return False

    @abstractmethod
    def fit(self, task: MemberTask, plan: MemberPlan) -> list[FittedMember]:
        """Fit the models of the kind to the rows of a task.

        Raises
        ------
        NumericalError
            No covariance has a factor; other kinds go on.
        """


@dataclass(frozen=True)
class MemberPlan:
    """Models of a kind to be fitted.

    Attributes
    ----------
    kind : MemberKind
        The kind.
    seconds : float
        Forecast of its cost, prediction of held-out rows included.
    shared : bool
        Whether all columns share one lengthscale, since one each would be beyond the budget.
    effort : float
        Share of the iterations of its search, in [1/4, 1]: below one where the rest of the budget
        is too small for all.
    may_stop : bool
        Whether it is left out where members that were fitted before it settle the table.
    """

    kind: MemberKind
    seconds: float
    shared: bool = False
    effort: float = 1.0
    may_stop: bool = False

    @classmethod
    def within(
        cls, kind: MemberKind, size: Size, alone: bool, budget: float, least: float
    ) -> MemberPlan | None:
        """The models of a kind with as much of their search as a budget pays for.

        Parameters
        ----------
        kind, size, alone
            See `MemberKind.forecast`.
        budget
            Seconds.
        least
            Least effort; with less the answer is None.
        """
        whole, without = (kind.forecast(size, alone, effort) for effort in (1.0, 0.0))
        if whole <= budget:
            return cls(kind, whole, size.shared)
        effort = (budget - without) / (whole - without) if whole > without else 0.0
        return cls(kind, budget, size.shared, effort) if least <= effort < 1.0 else None

    def rounds(self, whole: tuple[Round, ...]) -> tuple[Round, ...]:
        """Rounds of a search with this share of their iterations, one at least."""
        return tuple(
            replace(part, max_iterations=max(1, round(self.effort * part.max_iterations)))
            for part in whole
        )

    @property
    def remark(self) -> str:
        """End of the names of members: what the budget took from them."""
        sharing = ", one lengthscale" if self.shared else ""
        return sharing + (f", {self.effort:.0%} of the search" if self.effort < 1 else "")


@dataclass(frozen=True)
class Size:
    """Size of a table and of its models: rows n, columns d, neighbours k, frequencies m.

    With a `shared` lengthscale exact members are searched for in min(n, d) columns.
    """

    n_rows: int
    dim: int
    n_neighbours: int
    n_frequencies: int
    shared: bool = False

    @property
    def searched(self) -> Size:
        """Size of the table in which exact members are searched for."""
        return replace(self, dim=min(self.dim, self.n_rows)) if self.shared else self

    @property
    def entry_seconds(self) -> float:
        """Seconds of one entry of a covariance of neighbours, with its gradient."""
        return ENTRY_SECONDS + self.dim * ENTRY_COLUMN_SECONDS

    def search_seconds(self, rounds: tuple[Round, ...], k: int, features: int) -> float:
        """Seconds of a search with k neighbours and a number of columns of features."""
        columns = features + self.dim + 1
        row = k**2 * self.entry_seconds + columns * FEATURE_SECONDS + columns**2 * GRAM_SECONDS
        return PROPOSAL_SECONDS + sum(
            EVALUATIONS_PER_ITERATION
            * part.max_iterations
            * (min(part.batch_rows, self.n_rows) * row + EVALUATION_SECONDS)
            for part in rounds
        )

    def dense_seconds(self, n_rows: int) -> float:
        """Seconds of an evaluation of the exact evidence of some of the rows."""
        n = min(n_rows, self.n_rows)
        return (
            EVALUATION_SECONDS + n**2 * (PAIR_SECONDS + self.dim * DISTANCE_SECONDS) + 7e-11 * n**3
        )

    def screening_seconds(self, n_kernels: int) -> float:
        """Seconds in which the kernel of greatest evidence of few rows is found."""
        n_evaluations = FIRST_ITERATIONS + NEXT_ITERATIONS * (n_kernels - 1)
        each = EVALUATIONS_PER_ITERATION * self.dense_seconds(SCREENED_ROWS)
        return PROPOSAL_SECONDS + n_evaluations * each

    def row_seconds(self, k: int, features: int) -> float:
        """Seconds to whiten a row, its neighbours sought."""
        columns = features + self.dim + 1
        whitening = k**2 * self.entry_seconds + columns * 0.2 * FEATURE_SECONDS
        return whitening + columns**2 * GRAM_SECONDS + (self._neighbours() if k else 0.0)

    def _neighbours(self) -> float:
        if self.dim >= TREE_DIM and self.n_rows <= BRUTE_ROWS:
            return self.n_rows * PAIR_SECONDS
        return float(STEP_SECONDS * self.n_neighbours * 2 ** (min(self.dim, 16) / 1.5))


# Least number of rows per query point, so that at least three quarters of the rows are training
# rows: the posterior of fewer says little about that of the whole table.
ROWS_A_QUERY = 4
MIN_ROWS = 8


@dataclass(frozen=True)
class HeldOutRows:
    """Training and query rows of some data, and the exact law at the query rows.

    Attributes
    ----------
    model : Selectable
        Estimator whose approximations are compared.
    exact : GaussianProcess
        Exact process, fitted to the training rows.
    query : Points
        Query points.
    law : Normal
        Exact law at the query points.
    first_size, last_size : int
        Sizes that are tried.
    n_rows : int
        Rows given.
    """

    model: Any
    exact: GaussianProcess
    query: Points
    law: Normal
    first_size: int
    last_size: int
    n_rows: int

    @classmethod
    def of(
        cls,
        model: Any,
        data: Data,
        n_query: int,
        max_rows: int,
        seed: int,
        progress: bool | None = False,
        columns: Any = None,
    ) -> HeldOutRows:
        """Split the rows at random and fit the exact process to the training rows.

        Raises
        ------
        InvalidInputError
            There are fewer than eight rows.
        """
        n_rows = len(data)
        if n_rows < MIN_ROWS:
            raise wrong("X", f"at least {MIN_ROWS} rows", n_rows)
        used = np.random.default_rng(seed).permutation(n_rows)[:max_rows]
        n_query = min(n_query, len(used) // ROWS_A_QUERY)
        train, query = np.sort(used[n_query:]), used[:n_query]
        exact = model.exact_process(data.take(train), seed, progress, columns)
        points = data.points[query]
        first, last = model.size_range(data)
        from coupledgp.diagnostics.laws.normal import Normal

        law = Normal.of_process(exact, points)
        return cls(model, exact, points, law, first, last, n_rows)

    @property
    def n_train(self) -> int:
        """Rows that the laws are conditioned on."""
        return len(self.exact.data)

    @property
    def n_query(self) -> int:
        """Rows that the laws are compared at, jointly."""
        return len(self.query)

    def kl_per_point(self, coupling: Any, size: int, seed: int) -> float:
        """`KL(exact || approximate)` at the query rows, nats per row and output.

        It is infinite where the approximation has no posterior, as when the kernel of the walks
        overflows.
        """
        from coupledgp.diagnostics.distance.divergences import kl_per_point
        from coupledgp.diagnostics.laws.normal import Normal

        try:
            process = self.model.approximation(self.exact, coupling, size, seed)
            law = Normal.of_process(process, self.query)
        except NumericalError:
            return float("inf")
        return kl_per_point(self.law, law)
