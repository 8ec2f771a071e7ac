"""Couplings of walkers: lengths x steps, and their text form `lengths[+steps]` (MATH 9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from coupledgp.couplings.text_form import TextForm, check_text
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
from coupledgp.registry import Registry, Vocabulary

WORDS = Vocabulary()
LENGTHS: Registry[Lengths] = Registry(
    Lengths,
    "coupledgp.walker_lengths",
    {
        "iid": IidLengths(),
        "antithetic": AntitheticLengths(),
        "sigma": SigmaLengths(),
        "stratified": StratifiedLengths(),
    },
    vocabulary=WORDS,
)
STEPS: Registry[Steps] = Registry(
    Steps,
    "coupledgp.walker_steps",
    {
        "independent": IndependentSteps(),
        "repelling": RepellingSteps(),
        "systematic": SystematicSteps(),
    },
    vocabulary=WORDS,
)
FORM = TextForm(LENGTHS, STEPS, "independent", "lengths[+steps]")


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
        return FORM.describe(self.lengths, self.steps)


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
    text = check_text(coupling, WalkerCoupling, "stratified+systematic", name)
    lengths, steps, _ = FORM.parse(text, name)
    return WalkerCoupling(lengths, steps)


def walker_coupling_text(coupling: WalkerCoupling) -> str | None:
    """The text that `parse_walker_coupling` makes an equal coupling of; None if there is none.

    `str(coupling)` always gives a text, to show; this one is for files.
    """
    return FORM.text_of(coupling.lengths, coupling.steps)


def available_walker_couplings() -> list[str]:
    """Text forms of every walker coupling now registered."""
    return FORM.available()


def register_lengths(
    name: str, make: Lengths | Callable[[], Lengths], *, replace: bool = False
) -> None:
    """Make a law of lengths known to the text form under `name`; see `Registry.register`."""
    LENGTHS.register(name, make, replace=replace)


def register_steps(name: str, make: Steps | Callable[[], Steps], *, replace: bool = False) -> None:
    """Make a law of steps known to the text form under `name`; see `Registry.register`."""
    STEPS.register(name, make, replace=replace)
