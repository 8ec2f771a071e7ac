"""The choice of models of a table that are worth their cost, before any is fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from coupledgp.errors import InvalidInputError
from coupledgp.selection.additive_members import AdditiveFeatureMembers, AdditiveLocalMembers
from coupledgp.selection.exact_members import ExactMembers
from coupledgp.selection.expression_members import additive_members
from coupledgp.selection.member_costs import Size
from coupledgp.selection.member_kinds import LEAST_EFFORT, MemberKind, MemberPlan
from coupledgp.selection.near_members import FeatureMembers, HybridMembers, LocalMembers
from coupledgp.selection.tree_members import TreeMembers

# Kinds by the names that `model=` takes, in the order in which they are fitted; "auto" is all of
# them that suit the table.
KINDS: dict[str, MemberKind] = {
    kind.name: kind
    for kind in (
        ExactMembers(),
        additive_members(),
        TreeMembers(),
        FeatureMembers(),
        LocalMembers(),
        HybridMembers(),
        AdditiveLocalMembers(),
        AdditiveFeatureMembers(),
    )
}


def plan_members(
    size: Size,
    wanted: tuple[str, ...],
    budget: float,
    known: Mapping[str, MemberKind] = KINDS,
) -> tuple[MemberPlan, ...]:
    """The members to fit, in the order in which they are fitted.

    Parameters
    ----------
    size
        Size of the table.
    wanted
        Names among `KINDS`, or `("auto",)`: all that suit the table, as far as the budget goes; a
        member beyond it has a shorter search. Where no member with a lengthscale for each column is
        within the budget, members share one among all columns, and where none of these is either,
        the cheapest has a shorter search.
    budget
        Seconds of one core that all members may take together.
    known
        Kinds by their names.

    Raises
    ------
    InvalidInputError
        A member requested by name, or the cheapest member, is beyond the budget even with a shared
        lengthscale; the message gives the forecast.
    """
    sizes = (size, replace(size, shared=True)) if size.dim > 1 else (size,)
    for least in (1.0, LEAST_EFFORT):
        for tried in sizes:
            if plans := _affordable(tried, wanted, budget, least, known):
                return plans
    size = sizes[-1]
    costs = [kind.forecast(size, effort=LEAST_EFFORT) for kind in _kinds(size, wanted, known)]
    if wanted != ("auto",):
        raise _beyond(size, " and ".join(wanted), sum(costs), budget)
    raise _beyond(size, "the cheapest model", min(costs), budget)


def _affordable(
    size: Size,
    wanted: tuple[str, ...],
    budget: float,
    least: float,
    known: Mapping[str, MemberKind],
) -> tuple[MemberPlan, ...]:
    """Members of a size within the budget; none if a member requested by name does not fit in.

    The first member has at least the effort `least`, further ones `LEAST_EFFORT`.
    """
    kinds = _kinds(size, wanted, known)
    alone = all(kind.leaves_one_out for kind in kinds)
    plans: tuple[MemberPlan, ...] = ()
    left = budget
    for kind in kinds:
        plan = MemberPlan.within(kind, size, alone, left, LEAST_EFFORT if plans else least)
        if plan is not None:
            plans, left = (*plans, plan), left - plan.seconds
        elif wanted != ("auto",):
            return ()
    return plans


def _kinds(
    size: Size, wanted: tuple[str, ...], known: Mapping[str, MemberKind]
) -> tuple[MemberKind, ...]:
    """Kinds of members of these names, or those that suit a table."""
    if wanted == ("auto",):
        return tuple(kind for kind in known.values() if kind.suits(size))
    return tuple(known[name] for name in wanted)


def _beyond(size: Size, name: str, seconds: float, budget: float) -> InvalidInputError:
    return InvalidInputError(
        f"budget: {name} on {size.n_rows} rows of {size.dim} columns would take about "
        f"{seconds:.0f} s of one core, more than the budget of {budget:g} s; raise the budget, or "
        "fit on a sample of the rows"
    )
