"""The choice of models of a table that are worth their cost, before any is fitted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from coupledgp.errors import InvalidInputError
from coupledgp.inference.neighbours.nearest import BRUTE_ROWS, TREE_DIM
from coupledgp.metrics import Metric
from coupledgp.search.tables.local import FITTING_ROUNDS, LOCAL_ROUNDS, SCREENING, Round
from coupledgp.spectra import parse_spectrum

Kind: TypeAlias = Literal["exact", "local", "hybrid", "features"]
# Kinds by the names that `model=` takes; "auto" is all of them, where they suit the table.
KINDS: dict[str, Kind] = {
    "exact": "exact",
    "local": "local",
    "hybrid": "hybrid",
    "sparse-spectrum": "features",
}
# Rows up to which all members are exact, one for each kernel; up to which one exact member, of the
# kernel of greatest evidence, stands beside others, as dense matrices of all four would take most
# of the time and memory; and up to which hyperparameters of exact members are averaged.
EXACT_ROWS, SOME_EXACT_ROWS, AVERAGED_ROWS = 2000, 5000, 200
# Numbers in a table up to which hyperparameters are averaged: each draw passes over the table.
AVERAGED_NUMBERS = 10**6
# Kernels of exact members, and those among which local members choose by evidence.
EXACT_KERNELS = ("matern-1/2", "matern-3/2", "matern-5/2", "gaussian", "laplace")
LOCAL_KERNELS = EXACT_KERNELS
# Columns up to which kernels of another metric than the Euclidean one are among them: their
# distances are no products of matrices.
MOST_AXES = 50
# Neighbours by which the evidence of an exact member is found: with so many it is nearly exact.
EXACT_NEIGHBOURS = 32
EXACT_ROUNDS = (Round(512, 15), Round(EXACT_ROWS, 40))
# Draws of averaged hyperparameters of each exact member.
N_DRAWS = 16
# Seconds of one core of a server of 2023, which `benchmarks/performance/front_door_cost.py` sets
# beside those of the machine at hand: of one entry of the neighbours' covariances, and of each
# column in it, of one entry of the features with its gradient, of one entry of their Gram matrix,
# of one step of a search for neighbours, and of one column in a distance of two rows.
ENTRY_SECONDS, ENTRY_COLUMN_SECONDS = 3.1e-8, 1.4e-9
FEATURE_SECONDS, GRAM_SECONDS, STEP_SECONDS = 2.5e-7, 2e-10, 1e-7
DISTANCE_SECONDS = 1.2e-9
# Further seconds of an evaluation, whatever the table, and seconds of the proposal of starts.
EVALUATION_SECONDS, PROPOSAL_SECONDS = 1.5e-3, 0.15
# Least share of its iterations with which a search is worth its cost.
LEAST_EFFORT = 0.25
# L-BFGS takes about this many evaluations an iteration.
EVALUATIONS_PER_ITERATION = 1.2


@dataclass(frozen=True)
class MemberPlan:
    """A model to be fitted.

    Attributes
    ----------
    kind : str
        `"exact"`: an exact GP for each of `EXACT_KERNELS`, or, beside other members of more than
        `EXACT_ROWS` rows, for the one of greatest evidence. `"local"`: a local part and a trend.
        `"hybrid"`: the same with features of fitted frequencies. `"features"`: features of fitted
        frequencies and a trend.
    seconds : float
        Forecast of its cost, prediction of held-out rows included.
    shared : bool
        Whether all columns share one lengthscale, since one each would be beyond the budget.
    effort : float
        Share of the iterations of its search, in [1/4, 1]: below one where the rest of the budget
        is too small for all.
    """

    kind: Kind
    seconds: float
    shared: bool = False
    effort: float = 1.0

    def rounds(self, whole: tuple[Round, ...]) -> tuple[Round, ...]:
        """Rounds of a search with this share of their iterations, one at least."""
        return tuple(
            replace(part, max_iterations=max(1, round(self.effort * part.max_iterations)))
            for part in whole
        )


def kernels_for(kernels: tuple[str, ...], dim: int, shared: bool) -> tuple[str, ...]:
    """Those of the kernels that suit a table of d columns, with a shared lengthscale or not.

    A shared lengthscale is for wide tables, which are rotated into few columns: only functions of
    the Euclidean distance stay what they are.
    """
    if dim <= MOST_AXES and not shared:
        return kernels
    return tuple(name for name in kernels if parse_spectrum(name).metric == Metric.L2)


def averages(n_rows: int, dim: int) -> bool:
    """Whether hyperparameters of exact members are averaged on a table of n rows and d columns."""
    return n_rows <= AVERAGED_ROWS and n_rows * dim <= AVERAGED_NUMBERS


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

    def forecast(self, kind: Kind, alone: bool = True, effort: float = 1.0) -> float:
        """Seconds that a member of a kind is expected to take, alone or beside other kinds.

        The effort is the share of the iterations of its search; exact members know the whole alone.
        """
        if kind == "exact":
            every = alone or self.n_rows <= EXACT_ROWS
            n_kernels = len(kernels_for(EXACT_KERNELS, self.dim, self.shared))
            return n_kernels * self._exact_search() + (n_kernels if every else 1) * self._exact()
        features = 2 * self.n_frequencies if kind in ("hybrid", "features") else 0
        k = 0 if kind == "features" else self.n_neighbours
        n_kernels = len(kernels_for(LOCAL_KERNELS, self.dim, self.shared))
        screening = n_kernels * self._search(SCREENING, k, 0) if k else 0.0
        rounds = FITTING_ROUNDS if features else LOCAL_ROUNDS
        search = self._search(rounds, k, features)
        # Rows are whitened twice: those that are not held out, and all.
        return screening + effort * search + 2 * self.n_rows * self._row(k, features)

    def within(self, kind: Kind, alone: bool, budget: float, least: float) -> MemberPlan | None:
        """The member of a kind with as much of its search as a budget pays for, at least a share.

        Parameters
        ----------
        kind, alone
            See `forecast`.
        budget
            Seconds.
        least
            Least effort; with less the answer is None.
        """
        whole, without = (self.forecast(kind, alone, effort) for effort in (1.0, 0.0))
        if whole <= budget:
            return MemberPlan(kind, whole, self.shared)
        effort = (budget - without) / (whole - without) if whole > without else 0.0
        return MemberPlan(kind, budget, self.shared, effort) if least <= effort < 1.0 else None

    @property
    def _searched(self) -> Size:
        """Size of the table in which exact members are searched for."""
        return replace(self, dim=min(self.dim, self.n_rows)) if self.shared else self

    def _exact_search(self) -> float:
        """Seconds of the search for the hyperparameters of an exact member."""
        return self._searched._search(EXACT_ROUNDS, min(EXACT_NEIGHBOURS, self.n_rows - 1), 0)

    def _exact(self) -> float:
        """Seconds of the dense matrices of an exact member."""
        draws = 1
        k = min(EXACT_NEIGHBOURS, self.n_rows - 1)
        seconds = 1e-10 * self.n_rows**3
        if averages(self.n_rows, self.dim):
            draws = N_DRAWS
            evaluations = 2 * ((1 if self.shared else self.dim) + 4) + draws
            entries = self.n_rows * k**2 * self._searched._entry
            seconds += evaluations * (entries + EVALUATION_SECONDS)
        # Distances of all rows for two processes of each draw, and the rotation.
        return seconds + (2 * draws + 1) * self.n_rows**2 * self.dim * DISTANCE_SECONDS

    @property
    def _entry(self) -> float:
        """Seconds of one entry of a covariance of neighbours, with its gradient."""
        return ENTRY_SECONDS + self.dim * ENTRY_COLUMN_SECONDS

    def _search(self, rounds: tuple[Round, ...], k: int, features: int) -> float:
        columns = features + self.dim + 1
        row = k**2 * self._entry + columns * FEATURE_SECONDS + columns**2 * GRAM_SECONDS
        return PROPOSAL_SECONDS + sum(
            EVALUATIONS_PER_ITERATION
            * part.max_iterations
            * (min(part.batch_rows, self.n_rows) * row + EVALUATION_SECONDS)
            for part in rounds
        )

    def _row(self, k: int, features: int) -> float:
        """Seconds to whiten a row, its neighbours sought."""
        columns = features + self.dim + 1
        whitening = k**2 * self._entry + columns * 0.2 * FEATURE_SECONDS
        return whitening + columns**2 * GRAM_SECONDS + (self._neighbours() if k else 0.0)

    def _neighbours(self) -> float:
        if self.dim >= TREE_DIM and self.n_rows <= BRUTE_ROWS:
            return self.n_rows * 1e-8
        return float(STEP_SECONDS * self.n_neighbours * 2 ** (min(self.dim, 16) / 1.5))


def plan_members(size: Size, wanted: tuple[str, ...], budget: float) -> tuple[MemberPlan, ...]:
    """The members to fit, in the order in which they are fitted.

    Parameters
    ----------
    size
        Size of the table.
    wanted
        Names among `KINDS`, or `("auto",)`: exact members up to `EXACT_ROWS` rows; exact ones,
        features and hybrid ones up to `SOME_EXACT_ROWS`; above them features, local and hybrid
        ones, as far as the budget goes; a member beyond it has a shorter search. Where no member
        with a lengthscale for each column is within the budget, members share one among all
        columns, and where none of these is either, the cheapest has a shorter search.
    budget
        Seconds of one core that all members may take together.

    Raises
    ------
    InvalidInputError
        A member requested by name, or the cheapest member, is beyond the budget even with a shared
        lengthscale; the message gives the forecast.
    """
    sizes = (size, replace(size, shared=True)) if size.dim > 1 else (size,)
    for least in (1.0, LEAST_EFFORT):
        for tried in sizes:
            if plans := _affordable(tried, wanted, budget, least):
                return plans
    size = sizes[-1]
    if wanted != ("auto",):
        raise _beyond(
            size,
            " and ".join(wanted),
            sum(size.forecast(KINDS[w], effort=LEAST_EFFORT) for w in wanted),
            budget,
        )
    seconds = min(size.forecast(kind, effort=LEAST_EFFORT) for kind in _suited(size))
    raise _beyond(size, "the cheapest model", seconds, budget)


def _affordable(
    size: Size, wanted: tuple[str, ...], budget: float, least: float
) -> tuple[MemberPlan, ...]:
    """Members of a size within the budget; none if a member requested by name does not fit in.

    The first member has at least the effort `least`, further ones `LEAST_EFFORT`.
    """
    named = wanted != ("auto",)
    kinds = tuple(KINDS[name] for name in wanted) if named else _suited(size)
    alone = set(kinds) == {"exact"}
    plans: tuple[MemberPlan, ...] = ()
    left = budget
    for kind in kinds:
        plan = size.within(kind, alone, left, LEAST_EFFORT if plans else least)
        if plan is not None:
            plans, left = (*plans, plan), left - plan.seconds
        elif named:
            return ()
    return plans


def _suited(size: Size) -> tuple[Kind, ...]:
    """Kinds of members that suit a table."""
    if size.n_rows <= EXACT_ROWS:
        return ("exact",)
    return (
        ("exact", "features", "hybrid")
        if size.n_rows <= SOME_EXACT_ROWS
        else ("features", "local", "hybrid")
    )


def _beyond(size: Size, name: str, seconds: float, budget: float) -> InvalidInputError:
    return InvalidInputError(
        f"budget: {name} on {size.n_rows} rows of {size.dim} columns would take about "
        f"{seconds:.0f} s of one core, more than the budget of {budget:g} s; raise the budget, or "
        "fit on a sample of the rows"
    )
