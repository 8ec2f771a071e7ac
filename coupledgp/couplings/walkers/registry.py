"""Couplings of walkers: lengths x steps, and their text form `lengths[+steps]` (MATH 9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from coupledgp.couplings.frequencies.base import register
from coupledgp.couplings.walkers.lengths import (
    AntitheticLengths,
    IidLengths,
    Lengths,
    SigmaLengths,
    StratifiedLengths,
)
from coupledgp.couplings.walkers.steps import (
    IndependentSteps,
    RepellingSteps,
    Steps,
    SystematicSteps,
)
from coupledgp.errors import InvalidInputError
from coupledgp.validation import unknown_choice

LENGTHS: dict[str, Callable[[], Lengths]] = {
    "iid": IidLengths,
    "antithetic": AntitheticLengths,
    "sigma": SigmaLengths,
    "stratified": StratifiedLengths,
}
STEPS: dict[str, Callable[[], Steps]] = {
    "independent": IndependentSteps,
    "repelling": RepellingSteps,
    "systematic": SystematicSteps,
}


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
    steps: Steps = field(default_factory=IndependentSteps)

    def __str__(self) -> str:
        name, steps = _name_of(self.lengths, LENGTHS), _name_of(self.steps, STEPS)
        return name if steps == "independent" else f"{name}+{steps}"


WalkerCouplingLike: TypeAlias = str | WalkerCoupling


def parse_walker_coupling(coupling: WalkerCouplingLike, name: str = "coupling") -> WalkerCoupling:
    """Return the walker coupling a text names, or the object itself.

    Parameters
    ----------
    coupling
        `lengths[+steps]` with lengths `"iid"`, `"antithetic"`, `"sigma"` or `"stratified"` and
        steps `"independent"` (if left out), `"repelling"` or `"systematic"`, as in
        `"stratified+systematic"`; names added by `register_lengths` and
        `register_steps` count.
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
    return WalkerCoupling(LENGTHS[head](), STEPS[steps]())


def available_walker_couplings() -> list[str]:
    """Text forms of every walker coupling now registered."""
    return [
        str(WalkerCoupling(make_lengths(), make_steps()))
        for make_lengths in LENGTHS.values()
        for make_steps in STEPS.values()
    ]


def register_lengths(name: str, make: Callable[[], Lengths]) -> None:
    """Make a law of lengths known to the text form under `name`."""
    register(name, make, LENGTHS, {*LENGTHS, *STEPS})


def register_steps(name: str, make: Callable[[], Steps]) -> None:
    """Make a law of steps known to the text form under `name`."""
    register(name, make, STEPS, {*LENGTHS, *STEPS})


_Law = TypeVar("_Law", Lengths, Steps)


def _name_of(law: _Law, registry: dict[str, Callable[[], _Law]]) -> str:
    """The name of a law's class, whatever its parameters: a sigma that is solved is a sigma."""
    found = (name for name, make in registry.items() if type(make()) is type(law))
    return next(found, repr(law))
