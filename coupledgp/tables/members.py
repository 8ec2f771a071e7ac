"""Several models of a table as one mixture, whose weights rows that were left out decide.

The methods of an estimator by which a coupling and a size are chosen for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coupledgp.core.mixture import MixtureGP
from coupledgp.core.posterior_form import mixture_log_density, mixture_weights
from coupledgp.core.process import Data, GaussianProcess
from coupledgp.couplings.frequencies.registry import describe_coupling
from coupledgp.errors import InvalidInputError
from coupledgp.ground.codec import stored
from coupledgp.ground.notebook import ExplainedChoice, Notebook, NotebookTable
from coupledgp.ground.parameters import folded
from coupledgp.ground.progress import tell
from coupledgp.ground.validation import wrong
from coupledgp.random import FloatArray, IntArray
from coupledgp.tables.discrete_targets import discrete_outputs
from coupledgp.tables.exact_members import computed
from coupledgp.tables.local_problem import LocalProblem
from coupledgp.tables.local_search import LOCAL_ROUNDS
from coupledgp.tables.member_kinds import FittedMember, MemberKind, MemberPlan, MemberTask, Size
from coupledgp.tables.near_members import NearModel

# A tenth of the rows are held out, within these limits.
LEAST_HELD, MOST_HELD, LEAST_ROWS = 50, 4000, 8
# Rows that each member is credited with beforehand: few, since a table of fifty held-out rows
# should still tell a good member from bad ones. The one for the tails has more, since rows that are
# far off may be rarer than the rows.
PRIOR_COUNT, TAIL_COUNT = 0.2, 1.0
# Members of smaller weight are left out; the one for the tails is not.
LEAST_WEIGHT = 0.01
# Rows from which members are dropped that are hardly missed, since predictions of an exact member
# take a time that grows with the square of its rows; and the mean log density of the rows left out,
# nats a row, that all those dropped may cost together.
THINNED_ROWS, DROPPED_DENSITY = 500, 0.0003
# Remark on members that are left out.
LOSES = "left out, since its means err more than a constant"


@stored
@dataclass(frozen=True)
class MemberChoice:
    """A member of the mixture in a report: its name, weight and score.

    Attributes
    ----------
    name : str
        Name of the model.
    weight : float
        Its weight in the mixture; zero for one that was left out.
    log_density : float
        Mean log density of the rows that were left out, nats, targets of unit variance.
    remark : str
        Why it was left out, where that is not its density.
    """

    name: str
    weight: float
    log_density: float
    remark: str = ""


@stored
@dataclass(frozen=True, eq=False)
class Choice(ExplainedChoice):
    """The members of a mixture with their weights and scores.

    Attributes
    ----------
    members : tuple of MemberChoice
        All models that were fitted.
    log_density : float
        Mean log density under the mixture of the rows that were left out.
    n_scored : int
        Number of these rows.
    scored_by : str
        How they were left out.
    n_evaluations : int
        Evaluations of the evidence of all models.
    remarks : tuple of str
        Sentences on the targets.
    """

    members: tuple[MemberChoice, ...]
    log_density: float
    n_scored: int
    scored_by: str
    n_evaluations: int
    remarks: tuple[str, ...] = ()

    @property
    def ranked(self) -> list[MemberChoice]:
        """The members, the greatest weight first."""
        return sorted(self.members, key=lambda member: -member.weight)

    def explain(self) -> str:
        """The score of the mixture, its members with weights and scores, and the remarks."""
        return "\n".join(
            [
                self._scored(),
                "weight  nats a row  model",
                *(
                    f"{member.weight:6.3f}  {member.log_density:8.4f}  {member.name}"
                    + (f" ({member.remark})" if member.remark else "")
                    for member in self.ranked
                ),
                *self.remarks,
            ]
        )

    def _scored(self) -> str:
        """The number of members in use and the score of the mixture, in words."""
        return (
            f"Mixture of {sum(member.weight > 0 for member in self.members)} models, scored on "
            f"{self.n_scored} rows by {self.scored_by}: {self.log_density:.4f} nats a row (y of "
            "unit variance)."
        )

    def notebook(self) -> Notebook:
        """Its score and remarks, and a table of the members."""
        rows = [(one.name, one.weight, one.log_density, one.remark) for one in self.ranked]
        heads = ("member", "weight", "log density, nats a row", "remark")
        return Notebook(
            "Members of the mixture", sentences=(self._scored(), *self.remarks),
            tables=[NotebookTable("Members", heads, rows)],
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class MemberSearch:
    """Fits models to a table and mixes them.

    Attributes
    ----------
    problem : LocalProblem
        The table.
    normalize : bool
        Whether the units of y follow the data.
    trend : str
        Trend of every model.
    n_neighbours, n_frequencies : int
        Neighbours of local parts, frequencies of features.
    """

    problem: LocalProblem
    normalize: bool
    trend: str
    n_neighbours: int
    n_frequencies: int

    def choose(self, plans: tuple[MemberPlan, ...]) -> tuple[GaussianProcess, Choice]:
        """Fit the members of the plans, weigh them, and condition those of weight on all rows.

        Raises
        ------
        InvalidInputError
            None of the plans suits the targets, or too few rows are there to hold some out.
        """
        task = self.task(all(plan.kind.leaves_one_out for plan in plans))
        members = computed(self._makers(task, plans))
        if not members:
            raise InvalidInputError(
                "model: expected members beside 'transformed', since no transform of y has more "
                "evidence than y itself, y takes few values, or its noise is known"
            )
        members = self._with_broader(members, task)
        constant = constant_means(task)
        losers = [
            member
            for member in members
            if not member.is_tail and member.errs_more_than(constant, task)
        ]
        if len(losers) >= sum(not member.is_tail for member in members):
            losers = list(members)
            kind = ConstantMembers()
            members += kind.fit(task, MemberPlan(kind, 0.0))
        return self._mixed(members, losers, task)

    @staticmethod
    def _makers(
        task: MemberTask, plans: tuple[MemberPlan, ...]
    ) -> Iterator[Callable[[], list[FittedMember]]]:
        """Fits of the plans, one after the other, until a kind settles the table."""
        for plan in plans:
            found: list[FittedMember] = []

            def make(plan: MemberPlan = plan, found: list[FittedMember] = found) -> Any:
                found += plan.kind.fit(task, plan)
                return found

            yield make
            if plan.may_stop and found and plan.kind.settles(task, found):
                return

    def task(self, leaves_one_out: bool) -> MemberTask:
        """The rows that members are fitted to, and those by which they are weighed.

        Raises
        ------
        InvalidInputError
            The table has too few rows to hold some out.
        """
        data = self.problem.data
        given = self.normalize, self.trend, self.n_neighbours, self.n_frequencies
        if leaves_one_out:
            return MemberTask(self.problem, self.problem, None, *given)
        if len(data) < LEAST_ROWS:
            raise InvalidInputError(
                f"X: expected at least {LEAST_ROWS} rows, of which some are held out, got "
                f"n_samples={len(data)}; model='exact' holds out none"
            )
        n_held = min(max(len(data) // 10, LEAST_HELD), MOST_HELD, len(data) // 2)
        order = np.random.default_rng([self.problem.seed, 4]).permutation(len(data))
        train, held = np.sort(order[n_held:]), np.sort(order[:n_held])
        return MemberTask(self.problem, self.problem.take(train), data.take(held), *given)

    def _with_broader(self, members: list[FittedMember], task: MemberTask) -> list[FittedMember]:
        """The members, and the best member with more noise.

        Beside the member itself it makes the tails of the mixture heavier, which a few rows that
        are far off need: one Gaussian law would have to be wide everywhere.
        """
        best = max(members, key=lambda member: member.scores.log_densities.mean())
        if self.problem.known_noise is not None:
            return members
        return computed([lambda: members, lambda: [best.broader(task)]])

    def _mixed(
        self, members: list[FittedMember], losers: list[FittedMember], task: MemberTask
    ) -> tuple[GaussianProcess, Choice]:
        densities = np.array([member.scores.log_densities for member in members])
        counts = task.scored.counts
        able = np.array([k for k, member in enumerate(members) if member not in losers])
        weights = np.zeros(len(members))
        tails = np.array([member.is_tail for member in members])
        credits = np.where(tails, TAIL_COUNT, PRIOR_COUNT)
        weights[able] = mixture_weights(densities[able], credits[able], counts)
        weights = np.where((weights >= LEAST_WEIGHT) | tails, weights, 0.0)
        if len(self.problem.data) >= THINNED_ROWS:
            weights = _thinned(weights, densities, credits, counts, ~tails)
        weighty = [k for k in np.argsort(-weights, kind="stable") if weights[k] > 0]

        def given(k: int) -> list[tuple[int, list[Any]]]:
            tell(f"posterior: {members[k].name}")
            own = [prior.process(self.problem, self.normalize) for prior in members[k].priors]
            return [(k, own)]

        posteriors = computed(partial(given, k) for k in weighty)
        kept = [k for k, _ in posteriors]
        weights = np.where(np.isin(np.arange(len(members)), kept), weights, 0.0)
        weights /= weights.sum()
        processes = [process for _, own in posteriors for process in own]
        shares = np.concatenate([weights[k] * members[k].shares for k in kept])
        data = self.problem.data
        process = processes[0] if len(processes) == 1 else MixtureGP.of(processes, shares, data)
        mixed = mixture_log_density(densities[kept], weights[kept])
        choices = tuple(
            MemberChoice(
                member.name,
                float(weight),
                float(member.scores.log_densities.mean()),
                LOSES if member in losers else "",
            )
            for member, weight in zip(members, weights, strict=True)
        )
        outputs = discrete_outputs(data.targets)
        scored_by = (
            "leaving one row out at a time"
            if task.held is None
            else f"fitting to the other {len(task.train.data)} rows"
        )
        return process, Choice(
            choices, float(np.average(mixed, weights=counts)), len(mixed), scored_by,
            sum(member.n_evaluations for member in members),
            tuple(f"{one.explain(name)}." for name, one in outputs.items()),
        )  # fmt: skip


def _thinned(
    weights: FloatArray,
    densities: FloatArray,
    credits: FloatArray,
    counts: FloatArray | None,
    may_go: NDArray[np.bool_],
) -> FloatArray:
    """Weights (K,) of a mixture with as few members as predict about as well.

    The member that is missed least is dropped, and the others are weighed anew, as long as the
    mean log density of the rows left out loses at most `DROPPED_DENSITY` against all members.

    Parameters
    ----------
    weights
        Weights of all members; those without weight stay so.
    densities
        Log densities (K, b).
    credits
        Rows (K,) that each member is credited with.
    counts
        How often each row counts (b,); None for once.
    may_go
        Which members (K,) may be dropped. One for the tails is there for rows that are rare.
    """

    def weighed(kept: IntArray) -> tuple[float, FloatArray]:
        found = mixture_weights(densities[kept], credits[kept], counts)
        density = mixture_log_density(densities[kept], found)
        return float(np.average(density, weights=counts)), found

    kept = np.flatnonzero(weights)
    least = weighed(kept)[0] - DROPPED_DENSITY
    while np.count_nonzero(may_go[kept]) > 1:
        each = [np.delete(kept, place) for place in np.flatnonzero(may_go[kept])]
        tried = [weighed(others) for others in each]
        best = int(np.argmax([density for density, _ in tried]))
        if tried[best][0] < least:
            break
        kept = each[best]
        weights = np.zeros_like(weights)
        weights[kept] = tried[best][1]
    return weights


class ConstantMembers(MemberKind):
    """A constant and noise, for tables whose columns say nothing of y."""

    name: ClassVar[str] = "constant"

    def suits(self, size: Size) -> bool:
        """Never beforehand: it stands in where every other member errs more."""
        return False

    def forecast(self, size: Size, alone: bool = True, effort: float = 1.0) -> float:
        return 2 * size.n_rows * size.row_seconds(0, 0)

    def fit(self, task: MemberTask, plan: MemberPlan) -> list[FittedMember]:
        fitter = task.train.fitter()
        found = fitter.search(task.train.structure("constant", 0), LOCAL_ROUNDS[:1])
        model = NearModel(task.train.prior(found.structure, found.vector))
        return [FittedMember.scored(task, "a constant", (model,), np.ones(1), found.n_evaluations)]


def constant_means(task: MemberTask) -> FloatArray:
    """Means (b, k) of the other rows' targets, for each row of a task that is scored."""
    data, units = task.train.data, task.train.units
    targets = units.normalized(data.targets)
    counts = np.ones(len(data)) if data.counts is None else data.counts
    total, size = counts @ targets, counts.sum()
    if task.held is not None:
        return np.broadcast_to(total / size, task.targets.shape)
    left = np.maximum(size - counts, np.finfo(float).tiny)[:, None]
    means: FloatArray = (total - counts[:, None] * targets) / left
    return means


AUTO = "auto"


@runtime_checkable
class Selectable(Protocol):
    """An estimator with a coupling and a number of features.

    Attributes
    ----------
    size_parameter : str
        Parameter that is the number of features.
    candidate_couplings : tuple of str
        Couplings that are compared unless others are given.
    """

    size_parameter: str

    @property
    def candidate_couplings(self) -> tuple[str, ...]:
        """Couplings that are compared unless others are given."""

    def parse_coupling(self, coupling: Any, name: str) -> Any:
        """Return a coupling from its text form or an object; `name` is the argument's."""

    def checked(self, X: Any, y: ArrayLike) -> tuple[Data, int, Any]:
        """Return checked data, the number of dimensions of y, and the columns of X.

        The data hold points (n, d) of a table or node numbers (n,), and targets (n, k). The columns
        are None on graphs.
        """

    def modelled(self, data: Data, columns: Any) -> Data:
        """Return checked data with the targets of the process, transformed if so set."""

    def size_range(self, data: Data) -> tuple[int, int]:
        """Smallest and largest size that is tried on data."""

    def exact_process(
        self, data: Data, seed: int, progress: bool | None, columns: Any = None
    ) -> GaussianProcess:
        """Fit the exact process of the same settings on data, whose columns `checked` gave."""

    def approximation(
        self, exact: GaussianProcess, coupling: Any, size: int, seed: int
    ) -> GaussianProcess:
        """Return the process of this estimator at the hyperparameters and data of an exact one."""

    def chosen(self, coupling: Any, size: int) -> Any:
        """Return an unfitted copy with a coupling and a size as its parameters."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the constructor, as in scikit-learn."""


def check_selectable(model: Any) -> Any:
    """Return a model with a coupling and a size.

    Raises
    ------
    InvalidInputError
        The model has neither.
    """
    if isinstance(model, Selectable):
        return model
    raise wrong("model", "a SparseSpectrumGPRegressor or a GraphGPRegressor", type(model))


def named_couplings(model: Any, couplings: Any) -> dict[str, Any]:
    """Couplings to compare, each once, by different names.

    Texts stay texts, objects stay objects.

    Raises
    ------
    InvalidInputError
        `couplings` is no list of couplings that the model takes.
    """
    if isinstance(couplings, str) or not len(couplings):
        raise wrong("couplings", "a list of texts or objects", couplings)
    named: dict[str, Any] = {}
    known: list[Any] = []
    for coupling in couplings:
        parsed = model.parse_coupling(coupling, "couplings")
        if parsed in known:
            continue
        known.append(parsed)
        text = describe_coupling(parsed)
        # Different objects may be described alike, where a description is cut short.
        name = text if text not in named else f"{text} ({len(known)})"
        named[name] = text if isinstance(coupling, str) else coupling
    return named


def with_parameters(model: Any, **changes: Any) -> Any:
    """An unfitted copy with some parameters changed; the graph is shared, not copied."""
    return type(model)(**folded(type(model), {**model.get_params(deep=False), **changes}))


def is_auto(value: Any) -> bool:
    """Whether a parameter is `"auto"`."""
    return isinstance(value, str) and value == AUTO
