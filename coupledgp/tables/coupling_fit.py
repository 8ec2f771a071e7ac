"""Fits that choose their own coupling and the number of features that meets a target of the KL.

The choice of models of a table that are worth their cost, before any is fitted.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from coupledgp.core.fitted import seed_from_random_state
from coupledgp.core.process import GaussianProcess
from coupledgp.errors import InvalidInputError
from coupledgp.ground.extras import missing
from coupledgp.ground.progress import reporter, tell
from coupledgp.ground.tensors import has_torch
from coupledgp.ground.validation import check_positive
from coupledgp.ground.visible import warn
from coupledgp.random import IntArray
from coupledgp.tables.coupling_search import ERRORS, Prediction, Selection, select
from coupledgp.tables.exact_members import ExactMembers
from coupledgp.tables.expected import expected_selection
from coupledgp.tables.expression_members import additive_members, plain_members
from coupledgp.tables.member_kinds import (
    LEAST_EFFORT,
    MIN_ROWS,
    ROWS_A_QUERY,
    MemberKind,
    MemberPlan,
    Size,
)
from coupledgp.tables.members import is_auto, with_parameters
from coupledgp.tables.near_members import (
    FeatureMembers,
    HybridMembers,
    LatticeMembers,
    LocalMembers,
)
from coupledgp.tables.race import RaceMembers
from coupledgp.tables.transformed_members import TransformedMembers
from coupledgp.tables.tree_members import TreeMembers

# Most rounds of fitting, measuring the KL and growing: with MAX_GROWTH, up to 256 times a size.
MAX_ROUNDS = 5
# Factor on the size at which the measured KL would meet the target, since the KL is an estimate,
# and the largest ratio of one round's size to the last, since the extrapolation is local.
MARGIN, MAX_GROWTH = 1.2, 4.0
N_QUERY = 256
# Most rows at which the chosen model and the default one are compared.
MAX_HELD_OUT = 2048
# Rows up to which the exact law is that of dense algebra.
DENSE_ROWS = 5000


def fit_automatic(
    model: Any, X: Any, y: ArrayLike, *weights: ArrayLike | None
) -> tuple[Any, Selection, Measured]:
    """Choose on some rows, fit, measure the KL on all rows, and grow until it is met.

    Fourier features of the default coupling have a closed form that chooses (`expected`); others
    are compared on at most 2000 rows (`search`).

    On tables the model is then compared at held-out rows with the default one (the constructor's
    value in place of each `"auto"`). If it predicts worse by more than the standard error
    of the difference, the default model is returned.

    Parameters
    ----------
    model
        Estimator with `coupling` or its size `"auto"`, and a `kl_target`; it is not changed.
    X, y
        Data, as its `fit` takes them.
    weights
        Weights and noise variances (n,) of the rows of a table, or None.

    Returns
    -------
    (fitted estimator, Selection, Measured)
        A fitted copy whose coupling and size are known, the search that chose them, and the KL that
        was measured given the fitted hyperparameters: at 256 rows given the others, or at each
        quarter of a smaller table in turn. A ConvergenceWarning is given if this KL, or the mean of
        the quarters plus two standard errors, is above the target.

    Raises
    ------
    InvalidInputError
        `kl_target` is not positive, or spectra are to be fitted.
    """
    check_positive(model.kl_target, "kl_target")
    name = model.size_parameter
    if getattr(model, "frequencies", "auto") not in ("auto", "sampled"):
        raise InvalidInputError(
            f"{name}, coupling: 'auto' expects frequencies='auto' or 'sampled', "
            f"got frequencies={model.frequencies!r}"
        )
    seed = seed_from_random_state(model.random_state)
    chosen = _expected(model, X, y, seed, *weights) or _select(model, name, X, y, seed, *weights)
    largest = chosen.n_rows if name == "n_frequencies" else None
    candidate = chosen.estimator
    for last in (*[False] * (MAX_ROUNDS - 1), True):
        fitted = with_parameters(candidate).fit(X, y, *weights)
        measured = measured_kl(fitted.process_, seed, getattr(model, "progress", None))
        size = getattr(candidate, name)
        if measured.bound <= model.kl_target or not is_auto(getattr(model, name)):
            break
        growth = float(np.clip(MARGIN * measured.bound / model.kl_target, MARGIN, MAX_GROWTH))
        grown = int(np.ceil(size * growth))
        grown = grown if largest is None else min(grown, largest)
        if last or grown == size:
            break
        candidate = with_parameters(candidate, **{name: grown})
    default = with_parameters(model, **_defaults(model, name))
    if _are_compared(candidate, default, name):
        other = default.fit(X, y, *weights)
        prediction = _predicted(fitted, other, seed)
        chosen = replace(chosen, prediction=prediction)
        if prediction.is_worse:
            fitted, size = other, getattr(default, name)
            measured = measured_kl(fitted.process_, seed, getattr(model, "progress", None))
    outcome = f"After the fit the KL is {measured} with {name}={size}."
    chosen = replace(chosen, outcome=outcome)
    if measured.bound > model.kl_target:
        _warn(model, name, size, measured, largest)
    return fitted, chosen, measured


def _defaults(model: Any, name: str) -> dict[str, Any]:
    """The constructor's values of the parameters that are `"auto"`."""
    known = inspect.signature(type(model)).parameters
    return {one: known[one].default for one in (name, "coupling") if is_auto(getattr(model, one))}


def _are_compared(candidate: Any, default: Any, name: str) -> bool:
    """Whether two models of a table differ; on graphs a second fit would cost too much."""
    names = (name, "coupling", "frequencies")
    return name == "n_frequencies" and any(
        getattr(candidate, one) != getattr(default, one) for one in names
    )


def _predicted(fitted: Any, default: Any, seed: int) -> Prediction:
    """Log densities of held-out rows under two fitted models, both given all other rows.

    A quarter of the rows is held out, at most 2048; hyperparameters are those of the fits.
    """
    data = fitted.process_.data
    order = np.random.default_rng(seed).permutation(len(data))
    n_held_out = min(max(len(data) // ROWS_A_QUERY, 1), MAX_HELD_OUT)
    held, rest = data.take(order[:n_held_out]), data.take(np.sort(order[n_held_out:]))
    gains = np.subtract(*(
        model.process_.conditioned(rest).log_density(held.points, held.targets)
        for model in (fitted, default)
    ))  # fmt: skip
    error = float(gains.std(ddof=1) / np.sqrt(gains.size)) if gains.size > 1 else 0.0
    return Prediction(
        str(fitted.drawn_), str(default.drawn_), float(gains.mean()), error, gains.size
    )


def _expected(
    model: Any, X: Any, y: ArrayLike, seed: int, *weights: ArrayLike | None
) -> Selection | None:
    if not model.has_closed_form:
        return None
    data, _, columns = model.checked(X, y, *weights)
    data = model.modelled(data, columns)
    return expected_selection(model, data, columns, seed, getattr(model, "progress", None))


def _select(
    model: Any, name: str, X: Any, y: ArrayLike, seed: int, *weights: ArrayLike | None
) -> Selection:
    size, coupling = getattr(model, name), model.coupling
    template = with_parameters(model, **_defaults(model, name))
    rows: dict[str, Any] = dict(zip(("sample_weight", "sample_noise"), weights, strict=False))
    return select(
        template, X, y, **rows, kl_target=model.kl_target,
        couplings=None if is_auto(coupling) else [getattr(model, "sampled_by", coupling)],
        sizes=None if is_auto(size) else [size],
        random_state=seed, progress=getattr(model, "progress", None),
    )  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """KL from the exact process to a fitted model, measured at held-out points.

    Attributes
    ----------
    kl_per_point : float
        Nats per point, the mean over the sets of held-out points.
    standard_error : float
        Standard error of this mean, nats per point; zero for one set.
    """

    kl_per_point: float
    standard_error: float = 0.0

    @property
    def bound(self) -> float:
        """The KL plus two standard errors."""
        return self.kl_per_point + ERRORS * self.standard_error

    def __str__(self) -> str:
        error = f" ± {self.standard_error:.2g}" if self.standard_error else ""
        return f"{self.kl_per_point:.3g}{error}"


def measured_kl(process: GaussianProcess, seed: int, progress: bool | None = None) -> Measured:
    """Measure the KL to the exact process at held-out rows; hyperparameters do not change.

    The held-out rows are 256 random ones of a large table. A smaller table is measured at each of
    its quarters in turn, since one quarter has few points; a graph at one quarter of its
    observations, since each measurement costs a walk from every node.
    """
    queries = _query_rows(len(process.data), seed, process.own_problem() is None)
    found = [_kl_given(process, query, progress) for query in queries]
    error = np.std(found, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else 0.0
    return Measured(float(np.mean(found)), float(error))


def _query_rows(n_rows: int, seed: int, every_quarter: bool) -> list[IntArray]:
    """Sets of held-out rows: the quarters of a small table, or one random set of at most 256."""
    order = np.random.default_rng(seed).permutation(n_rows)
    n_query = min(N_QUERY, max(n_rows // ROWS_A_QUERY, MIN_ROWS // ROWS_A_QUERY))
    if every_quarter and n_query < N_QUERY:
        return np.array_split(order, ROWS_A_QUERY)
    return [order[:n_query]]


def _kl_given(process: GaussianProcess, query: IntArray, progress: bool | None) -> float:
    """KL at the rows `query` given all others, the largest that the comparison's bounds allow."""
    from coupledgp.diagnostics.distance.solved import StochasticOptions, kl_from_exact

    data = process.data
    rest = np.setdiff1d(np.arange(len(data)), query)
    with reporter("measure", progress):
        tell(f"KL at {query.size} rows given {rest.size} rows")
        # On graphs the hyperparameters are those of normalised targets.
        renormalize = process.own_problem() is not None
        local = process.conditioned(data.take(rest), renormalize=renormalize)
        points = data.points[query]
        options = StochasticOptions() if len(local.data) > DENSE_ROWS else None
        kl, above = kl_from_exact(local, points, options)
    return kl + above


def _warn(model: Any, name: str, size: int, measured: Measured, largest: int | None) -> None:
    advice = "raise kl_target" if is_auto(getattr(model, name)) else f"raise kl_target or {name}"
    if largest is not None and size >= largest:
        advice += "; with more features than rows ExactGPRegressor costs less"
    met = "is not met" if measured.kl_per_point > model.kl_target else "may not be met"
    warn(
        f"kl_target: {model.kl_target:g} nats per point {met}: with {name}={size} the KL is "
        f"{measured}; {advice}",
        ConvergenceWarning,
    )


# Columns above which they share one lengthscale.
MOST_LENGTHSCALES = 1000
# Kinds by the names that `model=` takes, in the order in which they are fitted; "auto" is all of
# them that suit the table.
KINDS: dict[str, MemberKind] = {
    kind.name: kind
    for kind in (
        ExactMembers(),
        LatticeMembers(),
        additive_members(),
        FeatureMembers(),
        LocalMembers(),
        HybridMembers(),
        TreeMembers(),
        TransformedMembers(),
    )
}


def plan_members(
    size: Size,
    wanted: tuple[str, ...],
    budget: float,
    transforms: bool = True,
    known: Mapping[str, MemberKind] = KINDS,
) -> tuple[MemberPlan, ...]:
    """The members to fit, in the order in which they are fitted.

    Parameters
    ----------
    size
        Size of the table.
    wanted
        Names among `KINDS`, or `("auto",)`: all that suit the table, as far as the budget goes; a
        member beyond it has a shorter search. Where there are more than a thousand columns, or no
        member with a lengthscale for each column is within the budget, members share one among all
        columns, and where none of these is either, the cheapest has a shorter search.
    budget
        Seconds of one core that all members may take together.
    transforms
        Whether members may be given transforms of the targets.
    known
        Kinds by their names.

    Where torch is not installed, `"auto"` is of the members that do without it.

    Raises
    ------
    MissingLibraryError
        Torch is not installed, and no other member suits the table.
    InvalidInputError
        A member requested by name, or the cheapest member, is beyond the budget even with a shared
        lengthscale; the message gives the forecast.
    """
    auto = wanted == ("auto",)
    if auto and not has_torch():
        plain = plain_members()
        known = {plain.name: plain} | {k: v for k, v in known.items() if not v.takes_tensors}
        if not any(kind.suits(size) and not kind.complements for kind in known.values()):
            raise missing("torch")
    race = RaceMembers(transforms)
    if auto and has_torch() and race.suits(size):
        known = {race.name: race}
    kinds = tuple(
        kind for kind in known.values()
        if kind.suits(size) and (transforms or kind.name != TransformedMembers.name)
    ) if auto else tuple(known[name] for name in wanted)  # fmt: skip
    sizes = (size, replace(size, shared=True)) if size.dim > 1 else (size,)
    sizes = sizes[-1:] if size.dim > MOST_LENGTHSCALES else sizes
    for share in (1.0, LEAST_EFFORT):
        for tried in sizes:
            if plans := _affordable(tried, kinds, not auto, budget, share):
                return plans
    size = sizes[-1]
    costs = [kind.forecast(size, effort=LEAST_EFFORT) for kind in kinds]
    if not auto:
        raise _beyond(size, " and ".join(wanted), sum(costs), budget)
    least = min(cost for kind, cost in zip(kinds, costs, strict=True) if not kind.complements)
    raise _beyond(size, "the cheapest model", least, budget)


def _affordable(
    size: Size, kinds: tuple[MemberKind, ...], named: bool, budget: float, least: float
) -> tuple[MemberPlan, ...]:
    """Members of a size within the budget; none if one that was `named` does not fit in.

    The first member has at least the effort `least`, further ones `LEAST_EFFORT`.
    """
    alone = all(kind.leaves_one_out for kind in kinds)
    plans: tuple[MemberPlan, ...] = ()
    left = budget
    for kind in kinds:
        plan = MemberPlan.within(kind, size, alone, left, LEAST_EFFORT if plans else least)
        if plan is not None:
            plan = replace(plan, may_stop=not named)
            plans, left = (*plans, plan), left - plan.seconds
        elif named:
            return ()
    return plans if named or any(not plan.kind.complements for plan in plans) else ()


def _beyond(size: Size, name: str, seconds: float, budget: float) -> InvalidInputError:
    return InvalidInputError(
        f"budget: {name} on {size.n_rows} rows of {size.dim} columns would take about "
        f"{seconds:.0f} s of one core, more than the budget of {budget:g} s; raise the budget, or "
        "fit on a sample of the rows"
    )
