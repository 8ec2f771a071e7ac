"""Couplings of walkers: lengths x steps, and their text form `lengths[+steps]` (MATH 9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from coupledgp.couplings.base import check_name
from coupledgp.couplings.lengths import (
    AntitheticLengths,
    IidLengths,
    Lengths,
    SigmaLengths,
    StratifiedLengths,
)
from coupledgp.errors import InvalidInputError
from coupledgp.validation import unknown_choice


class Steps(IntEnum):
    """How the walkers of one node choose neighbours; each alone makes a plain random walk.

    `INDEPENDENT`: each on its own. `REPELLING`: those that stand on the same node take distinct
    neighbours, without replacement, in blocks of its degree (unweighted graphs only).
    `SYSTEMATIC`: those that stand on the same node are spread evenly over its edge weights, from
    one random offset; not in the papers (MATH 9, "Beyond the papers", 1).
    """

    INDEPENDENT = 0
    REPELLING = 1
    SYSTEMATIC = 2


LENGTHS: dict[str, Callable[[], Lengths]] = {
    "iid": IidLengths,
    "antithetic": AntitheticLengths,
    "sigma": SigmaLengths,
    "stratified": StratifiedLengths,
}
STEPS = {member.name.lower(): member for member in Steps}


@dataclass(frozen=True)
class WalkerCoupling:
    """A joint law of the walkers of one node whose marginals are all the simple random walk's.

    It knows no kernel (but for sigma, which is solved for one). Walkers of different nodes are
    independent, which is what keeps off-diagonal kernel estimates unbiased.

    Parameters
    ----------
    lengths
        Joint law of the lengths.
    steps
        Joint law of the moves.
    """

    lengths: Lengths = field(default_factory=IidLengths)
    steps: Steps = Steps.INDEPENDENT

    def __str__(self) -> str:
        name = next(
            (name for name, make in LENGTHS.items() if type(make()) is type(self.lengths)),
            repr(self.lengths),
        )
        return name if self.steps is Steps.INDEPENDENT else f"{name}+{self.steps.name.lower()}"


WalkerCouplingLike: TypeAlias = str | WalkerCoupling


def parse_walker_coupling(coupling: WalkerCouplingLike, name: str = "coupling") -> WalkerCoupling:
    """Return the walker coupling a text names, or the object itself.

    Parameters
    ----------
    coupling
        `lengths[+steps]` with lengths `"iid"`, `"antithetic"`, `"sigma"` or `"stratified"` and
        steps `"independent"` (if left out), `"repelling"` or `"systematic"`, as in
        `"stratified+systematic"`; names added by `register_lengths` count.
    name
        What the argument is called in an error message.

    Raises
    ------
    InvalidInputError
        The text is not of that form; the choices are listed.
    """
    if isinstance(coupling, WalkerCoupling):
        return coupling
    if not isinstance(coupling, str):
        raise InvalidInputError(
            f"{name}: expected a text such as 'stratified+systematic' or a WalkerCoupling, "
            f"got {type(coupling).__name__}"
        )
    head, *rest = coupling.split("+")
    if head not in LENGTHS:
        raise InvalidInputError(unknown_choice(head, LENGTHS, name))
    steps = "+".join(rest) if rest else "independent"
    if steps not in STEPS:
        message = unknown_choice(steps, STEPS, f"{name}: after {head!r}")
        raise InvalidInputError(f"{message}; the form is lengths[+steps]")
    return WalkerCoupling(LENGTHS[head](), STEPS[steps])


def available_walker_couplings() -> list[str]:
    """Text forms of every walker coupling now registered."""
    return [str(WalkerCoupling(make(), steps)) for make in LENGTHS.values() for steps in Steps]


def register_lengths(name: str, make: Callable[[], Lengths]) -> None:
    """Make a law of lengths known to the text form under `name`."""
    check_name(name)
    if name in LENGTHS or name in STEPS:
        raise InvalidInputError(f"name: {name!r} is taken")
    LENGTHS[name] = make
