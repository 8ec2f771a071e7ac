"""The choice of models of a table that are worth their cost, before any is fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from coupledgp.errors import InvalidInputError
from coupledgp.ground.extras import missing
from coupledgp.ground.tensors import has_torch
from coupledgp.selection.exact_members import ExactMembers
from coupledgp.selection.expression_members import additive_members, plain_members
from coupledgp.selection.lattice_members import LatticeMembers
from coupledgp.selection.member_kinds import LEAST_EFFORT, MemberKind, MemberPlan, Size
from coupledgp.selection.near_members import (
    FeatureMembers,
    HybridMembers,
    LocalMembers,
)
from coupledgp.selection.transformed_members import TransformedMembers
from coupledgp.selection.tree_members import TreeMembers

# Kinds by the names that `model=` takes, in the order in which they are fitted; "auto" is all of
# them that suit the table.
KINDS: dict[str, MemberKind] = {
    kind.name: kind
    for kind in (
        ExactMembers(),
        additive_members(),
        FeatureMembers(),
        LocalMembers(),
        HybridMembers(),
        LatticeMembers(),
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
        member beyond it has a shorter search. Where no member with a lengthscale for each column is
        within the budget, members share one among all columns, and where none of these is either,
        the cheapest has a shorter search.
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
    kinds = tuple(
        kind for kind in known.values()
        if kind.suits(size) and (transforms or kind.name != TransformedMembers.name)
    ) if auto else tuple(known[name] for name in wanted)  # fmt: skip
    sizes = (size, replace(size, shared=True)) if size.dim > 1 else (size,)
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
