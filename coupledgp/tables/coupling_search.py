"""Search for the coupling and the least size whose posterior is close enough to the exact one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.fitted import seed_from_random_state
from coupledgp.couplings.frequencies.registry import POSTERIOR
from coupledgp.ground.notebook import ExplainedChoice, Notebook, NotebookTable
from coupledgp.ground.progress import reporter, tell
from coupledgp.ground.validation import check_positive, check_positive_int, wrong
from coupledgp.tables.gains import cannot_gain
from coupledgp.tables.member_kinds import HeldOutRows
from coupledgp.tables.members import check_selectable, named_couplings

# A size passes if mean + ERRORS standard errors of its draws lies below the target: one-sided, with
# a confidence of about 97.5 percent.
ERRORS = 2.0
# Sizes tried between one that fails and one that passes are a fourth root of two apart: a size is
# found to 19 percent, finer than the errors of the KL tell apart.
STEPS_A_DOUBLING = 4
# Factor on the size at which the KL would meet the target if it fell as 1 / size, so that the
# search approaches it from below, and the largest ratio of that size to the last.
CAUTION, MAX_FACTOR = 0.7, 16


Candidate: TypeAlias = tuple[str, Any]


@dataclass(frozen=True)
class Trial:
    """KL of one coupling at one size, over several draws.

    Attributes
    ----------
    coupling : str
        Printed name of the coupling.
    size : int
        Number of frequencies, or of walkers per node.
    kl_per_point, standard_error : float
        Mean over draws of `KL(exact || approximate)` per query point, nats, and its standard error.
    candidate
        The coupling, as an object or the text that was given.
    """

    coupling: str
    size: int
    kl_per_point: float
    standard_error: float
    candidate: Any = field(default=None, repr=False, compare=False)

    @property
    def bound(self) -> float:
        """`kl_per_point` plus two standard errors."""
        return self.kl_per_point + ERRORS * self.standard_error

    @property
    def named(self) -> Candidate:
        """The printed name of the coupling and the coupling itself."""
        return self.coupling, self.candidate

    def to_dict(self) -> dict[str, Any]:
        """Return the figures and the coupling's printed name as plain values."""
        names = ("coupling", "size", "kl_per_point", "standard_error")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Prediction:
    """A chosen model beside the default one, at held-out rows.

    Attributes
    ----------
    chosen, default : str
        The two models in words.
    gain, error : float
        Mean log density of the held-out rows under the chosen model minus that under the default,
        nats a row, and its standard error.
    n_rows : int
        Held-out rows.
    """

    chosen: str
    default: str
    gain: float
    error: float
    n_rows: int

    @property
    def is_worse(self) -> bool:
        """Whether the chosen model predicts worse than the default by more than the error."""
        return self.gain < -self.error

    def explain(self) -> str:
        """The predictive scores of both models, and which model is used, in words."""
        used = "the default" if self.is_worse else self.chosen
        return (
            f"Its mean log density at {self.n_rows} held-out rows is {self.gain:+.4f} ± "
            f"{self.error:.4f} nats from that of the default, {self.default}: {used} is used."
        )


@dataclass(frozen=True)
class Selection(ExplainedChoice):
    """The coupling of least size that came close enough, and all trials of the search.

    Attributes
    ----------
    best : Trial
        Chosen trial: the first at the least size of all trials that met the target; if none did,
        the trial of least KL.
    met : bool
        Whether the bound of `best` lies below `kl_target`.
    kl_target : float
        Target of the KL, nats per point.
    trials : tuple of Trial
        All trials in the order in which they were made.
    size_name : str
        Name of the estimator's parameter that is the size.
    n_train, n_query : int
        Number of rows that the laws were conditioned on, and of rows at which they were compared,
        jointly.
    n_rows : int
        Number of given rows.
    estimator
        Unfitted estimator with the chosen coupling and size as its parameters.
    prediction : Prediction or None
        The fitted model beside the default one; None where they were not compared.
    expected : bool
        Whether the KLs are those that a pilot expects in closed form, instead of measured ones.
    outcome : str
        The size and the measured KL of the fitted model, in words; empty before the fit.
    cannot_gain : str
        Which couplings change the posterior by less than the draws can tell, in words.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> kept = {"lengthscale": 1.0, "outputscale": 1.0, "noise": 0.01, "optimizer": None}
    >>> model = cgp.SparseSpectrumGPRegressor(random_state=0, **kept).fit(X, np.sin(X[:, 0]))
    >>> choice = cgp.select(model, X, np.sin(X[:, 0]), couplings=["iid"], sizes=[2, 64], n_draws=2)
    >>> [trial.size for trial in choice.trials], choice.size, choice.met
    ([2, 64], 64, True)
    """

    best: Trial
    met: bool
    kl_target: float
    trials: tuple[Trial, ...]
    size_name: str
    n_train: int
    n_query: int
    n_rows: int
    estimator: Any = field(repr=False)
    prediction: Prediction | None = None
    expected: bool = False
    outcome: str = ""
    cannot_gain: str = ""

    @property
    def coupling(self) -> str:
        """Text form of the chosen coupling."""
        return self.best.coupling

    @property
    def size(self) -> int:
        """Chosen number of frequencies or walkers."""
        return self.best.size

    def explain(self) -> str:
        """The chosen coupling and size, and the figures that decided, in words."""
        prediction = "" if self.prediction is None else self.prediction.explain()
        parts = [self._kl(), self.outcome, self.cannot_gain, prediction]
        return " ".join(filter(None, parts))

    def _kl(self) -> str:
        best = self.best
        what = f"{self._how(best)}, {self.size_name}={best.size}"
        if self.expected:
            return self._expected(what)
        found = f"KL {best.kl_per_point:.3g} ± {best.standard_error:.2g} nats per point"
        where = (
            f"to the exact GP at {self.n_query} rows, given {self.n_train} of {self.n_rows} rows"
        )
        if not self.met:
            return (
                f"Nothing tried came below {self.kl_target:g}; the closest is {what}: {found} "
                f"{where}. {self._advice()}"
            )
        return f"Chosen: {what}: {found} {where}, below {self.kl_target:g}. {self._other_trials()}"

    @staticmethod
    def _how(trial: Trial) -> str:
        name = "frequencies" if trial.coupling == POSTERIOR else "coupling"
        return f"{name}={trial.coupling!r}"

    def _expected(self, what: str) -> str:
        """The expected KL that decided, in words."""
        by = f"by a pilot of {self.n_train} of {self.n_rows} rows and {self.n_query} queries"
        found = f"expected KL {self.best.kl_per_point:.3g} nats per point {by}"
        if not self.met:
            return (
                f"No number of frequencies up to {self.size} is expected to come below "
                f"{self.kl_target:g}: {what} has an {found}. {self._advice()}"
            )
        first = self.trials[0]
        text = f"Chosen before anything was drawn: {what}: {found}, below {self.kl_target:g}."
        if first is self.best:
            return text
        return f"{text} {first.coupling} would need {first.size}."

    def _advice(self) -> str:
        if self.size_name == "n_walks":
            return "More exact_hops bring it closer, or a larger kl_target is met."
        if self.size >= self.n_rows:
            return (
                "With more features than rows the exact GP costs less: use ExactGPRegressor, or a "
                "larger kl_target."
            )
        return "Allow larger sizes, or a larger kl_target."

    def _other_trials(self) -> str:
        """The KL of all other couplings at the chosen size, and of the size below it, in words."""
        others = [t for t in self.trials if t.size == self.size and t.coupling != self.coupling]
        others.sort(key=lambda trial: trial.kl_per_point)
        less = max((t.size for t in self.trials if t.size < self.size), default=None)
        parts = [f"{t.coupling} has {t.kl_per_point:.3g} there" for t in others]
        if less is not None:
            near = min(t.kl_per_point for t in self.trials if t.size == less)
            parts.append(f"with {less} the best has {near:.3g}")
        return ("; ".join(parts) + ".") if parts else "It is the smallest size tried."

    def notebook(self) -> Notebook:
        """Its explanation, and a table of the trials by KL."""
        trials = sorted(self.trials, key=lambda trial: trial.kl_per_point)
        rows = [(one.coupling, one.size, one.kl_per_point, one.standard_error) for one in trials]
        heads = ("coupling", self.size_name, "KL, nats per point", "standard error")
        return replace(super().notebook(), tables=[NotebookTable("Trials", heads, rows)])

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the estimator as plain values."""
        return {
            "coupling": self.coupling,
            self.size_name: self.size,
            "kl_per_point": self.best.kl_per_point,
            "standard_error": self.best.standard_error,
            "kl_target": self.kl_target,
            "met": self.met,
            "n_train": self.n_train,
            "n_query": self.n_query,
            "n_rows": self.n_rows,
            "explanation": self.explain(),
            "trials": [trial.to_dict() for trial in self.trials],
        }


def select(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    sample_noise: ArrayLike | None = None,
    kl_target: float = 0.01,
    couplings: Sequence[Any] | None = None,
    sizes: Sequence[int] | None = None,
    n_draws: int = 4,
    n_query: int = 256,
    max_rows: int = 2000,
    random_state: Any = 0,
    progress: bool | None = None,
) -> Selection:
    """Find the cheapest coupling and size whose posterior is within `kl_target` of the exact GP's.

    Some rows are put aside as query points; the exact GP is fitted to the others. Each coupling
    and size is given the exact GP's hyperparameters and the same rows, in `n_draws` draws, and
    `KL(exact || approximate)` of the joint predictive laws at the query points is measured. Sizes
    grow until a coupling's mean plus two standard errors lies below the target, then the sizes
    down to the last that failed are bisected in steps of a fourth root of two. Couplings that are
    worse than another by more than the errors of both are given up on the way.

    Parameters
    ----------
    model
        A `SparseSpectrumGPRegressor` or `GraphGPRegressor`, fitted or not, whose other parameters
        are kept; it is not changed.
    X, y
        Inputs (n, d), or labels of n nodes, and targets (n,) or (n, k), as for `model.fit`.
    sample_weight, sample_noise
        Weights or noise variances (n,) of the rows of a table, as for `model.fit`.
    kl_target
        Target of the KL, nats per query point.
    couplings
        Texts or objects to choose from; None: a few that serve the model's features.
    sizes
        Numbers of frequencies or walkers to try, in ascending order; None: see above.
    n_draws
        Number of draws of each coupling at each size, 2 or more.
    n_query
        Number of query points, at most a quarter of the rows.
    max_rows
        Largest number of rows that are used, query points included; the cost of the exact GP grows
        with its cube. With more rows the posterior is narrower, and the same features are farther
        from it: check the fitted model with `report`.
    random_state
        Seed of the choice of rows and of the draws.
    progress
        Show progress on stderr; None does so on a terminal.

    Raises
    ------
    InvalidInputError
        The model has no coupling and size to choose, or an argument is invalid.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = cgp.SparseSpectrumGPRegressor(n_frequencies=8, random_state=0).fit(X, y)
    >>> choice = cgp.select(model, X, y, kl_target=0.01, couplings=["iid", "orthogonal"])
    >>> choice.estimator.n_frequencies in [trial.size for trial in choice.trials]
    True
    """
    check_positive(kl_target, "kl_target")
    check_positive_int(n_draws, "n_draws", minimum=2)
    check_positive_int(n_query, "n_query", minimum=2)
    check_positive_int(max_rows, "max_rows", minimum=8)
    default = check_selectable(model).candidate_couplings
    named = [*named_couplings(model, default if couplings is None else couplings).items()]
    checked = None if sizes is None else _check_sizes(sizes)
    seed = seed_from_random_state(random_state)
    given = {"sample_weight": sample_weight, "sample_noise": sample_noise}
    data, _, columns = model.checked(X, y, **{k: v for k, v in given.items() if v is not None})
    data = model.modelled(data, columns)
    rows = HeldOutRows.of(model, data, n_query, max_rows, seed, progress, columns)
    name = model.size_parameter
    with reporter("select", progress):
        search = _Search(rows, name, kl_target, n_draws, seed)
        best = search.growing(named) if checked is None else search.given(named, checked)
    chosen = model.chosen(best.candidate, best.size)
    return Selection(
        best, best.bound < kl_target, kl_target, tuple(search.trials), name,
        rows.n_train, rows.n_query, rows.n_rows, chosen,
        cannot_gain=_remark(model, rows, search.trials, best.size),
    )  # fmt: skip


def _remark(model: Any, rows: HeldOutRows, trials: Sequence[Trial], size: int) -> str:
    """What the couplings that were tried at a size cannot gain, in words."""
    made = {t.coupling: t for t in trials if t.size == size and np.isfinite(t.kl_per_point)}
    errors = {name: t.standard_error / max(t.kl_per_point, 1e-300) for name, t in made.items()}
    couplings = {name: t.candidate for name, t in made.items()}
    return cannot_gain(model, rows.exact, couplings, errors, size)


def _check_sizes(sizes: Sequence[int]) -> list[int]:
    checked = [check_positive_int(size, "sizes") for size in sizes]
    if not checked or any(a >= b for a, b in pairwise(checked)):
        raise wrong("sizes", "ascending numbers", list(sizes))
    return checked


class _Search:
    """Trials made so far, and searches for the least size that passes."""

    def __init__(
        self,
        rows: HeldOutRows,
        size_name: str,
        target: float,
        n_draws: int,
        seed: int,
    ) -> None:
        self.rows, self.size_name, self.target = rows, size_name, target
        self.n_draws, self.seed = n_draws, seed
        self.trials: list[Trial] = []

    def given(self, candidates: list[Candidate], sizes: Sequence[int]) -> Trial:
        """The best trial at the first size of a list at which a coupling passes."""
        for size in sizes:
            passed = self._passing(candidates, size)
            if passed:
                return passed[0]
        return self._closest()

    def growing(self, candidates: list[Candidate]) -> Trial:
        """The best trial at the least size at which a coupling passes, to a fourth root of two."""
        failed, size = 0, self.rows.first_size
        while True:
            passed = self._passing(candidates, size)
            if passed or size == self.rows.last_size:
                break
            candidates, failed, size = self._contenders(size), size, self._next_size(size)
        if not passed:
            return self._closest()
        return self._between(failed, passed) if failed else passed[0]

    def _contenders(self, size: int) -> list[Candidate]:
        """Couplings whose KL at a size is within the standard errors of the least one."""
        made = [trial for trial in self.trials if trial.size == size]
        limit = min(trial.bound for trial in made)
        # The lower end of a trial, mean minus two errors, against the lowest upper end.
        if np.isinf(limit):
            return [trial.named for trial in made]
        finite = [trial for trial in made if np.isfinite(trial.kl_per_point)]
        return [t.named for t in finite if 2 * t.kl_per_point - t.bound <= limit]

    def _next_size(self, size: int) -> int:
        """Twice the size, or nearer to where the KL, falling as 1 / size, would meet the target."""
        nearest = min(trial.kl_per_point for trial in self.trials if trial.size == size)
        promised = CAUTION * nearest / self.target if np.isfinite(nearest) else 2
        factor = np.clip(promised, 2, MAX_FACTOR)
        return min(round(size * float(factor)), self.rows.last_size)

    def _between(self, failed: int, passed: list[Trial]) -> Trial:
        """Bisect the sizes between one that fails and one that passes."""
        size = passed[0].size
        n_steps = int(np.ceil(STEPS_A_DOUBLING * np.log2(size / failed)))
        grid = np.unique(np.geomspace(failed, size, n_steps + 1).round().astype(int))[1:-1]
        low, high = 0, grid.size
        while low < high:
            middle = (low + high) // 2
            better = self._passing([trial.named for trial in passed], int(grid[middle]))
            if better:
                passed, high = better, middle
            else:
                low = middle + 1
        return passed[0]

    def _passing(self, candidates: list[Candidate], size: int) -> list[Trial]:
        """Trials of couplings at a size that meet the target, the closest to the exact first."""
        made = [self._trial(name, candidate, size) for name, candidate in candidates]
        self.trials += made
        return sorted((t for t in made if t.bound < self.target), key=lambda t: t.kl_per_point)

    def _trial(self, name: str, candidate: Any, size: int) -> Trial:
        tell(f"{name}, {self.size_name}={size}")
        # The same seeds for every coupling and size.
        seeds = range(self.seed, self.seed + self.n_draws)
        draws = [self.rows.kl_per_point(candidate, size, seed) for seed in seeds]
        if not np.isfinite(draws).all():
            return Trial(name, size, float("inf"), 0.0, candidate)
        error = np.std(draws, ddof=1) / np.sqrt(self.n_draws)
        return Trial(name, size, float(np.mean(draws)), float(error), candidate)

    def _closest(self) -> Trial:
        return min(self.trials, key=lambda trial: trial.kl_per_point)
