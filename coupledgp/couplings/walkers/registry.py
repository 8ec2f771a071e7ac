"""Couplings of walkers: lengths x steps, and their text form `lengths[+steps]` (MATH 9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from coupledgp.couplings.walkers.lengths import (
    AntitheticLengths,
    GeometricLaw,
    IidLengths,
    LengthLaw,
    Lengths,
    MatchedLaw,
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
from coupledgp.ground.codec import stored_as
from coupledgp.random import FloatArray
from coupledgp.registry import Registry, TextForm, check_text

WORDS: set[str] = set()
LENGTHS: Registry[Lengths] = Registry(
    Lengths,
    "coupledgp.walker_lengths",
    {
        "iid": IidLengths(),
        "antithetic": AntitheticLengths(),
        "sigma": SigmaLengths(),
        "stratified": StratifiedLengths(),
    },
    taken=WORDS,
)
STEPS: Registry[Steps] = Registry(
    Steps,
    "coupledgp.walker_steps",
    {
        "independent": IndependentSteps(),
        "repelling": RepellingSteps(),
        "systematic": SystematicSteps(),
    },
    taken=WORDS,
)
FORM = TextForm(LENGTHS, STEPS, "independent", "lengths[+steps]")


Series: TypeAlias = Callable[[], FloatArray]
LengthLawFactory: TypeAlias = Callable[[float, Series], LengthLaw]
LengthLawLike: TypeAlias = str | LengthLaw | LengthLawFactory


LENGTH_LAWS: Registry[LengthLaw | LengthLawFactory] = Registry(
    LengthLaw,
    "coupledgp.length_laws",
    {
        "geometric": lambda p_halt, series: GeometricLaw(p_halt),
        "matched": lambda p_halt, series: MatchedLaw(series()),
    },
    accepts=lambda value: isinstance(value, LengthLaw) or callable(value),
    expected="a LengthLaw or a function (p_halt, series) that makes one",
)


@dataclass(frozen=True)
class WalkerCoupling:
    """A joint law of the walkers of one node whose marginals are all the simple random walk's.

    It does not depend on a kernel, except for sigma, which is solved for one. Walkers of different
    nodes are independent, so that off-diagonal kernel estimates are unbiased.

    Parameters
    ----------
    lengths
        Joint law of the lengths.
    steps
        Joint law of the moves.

    Examples
    --------
    >>> from coupledgp.couplings import StratifiedLengths, SystematicSteps, WalkerCoupling
    >>> from coupledgp.couplings import parse_walker_coupling
    >>> coupling = WalkerCoupling(StratifiedLengths(), SystematicSteps())
    >>> str(coupling), coupling.is_independent
    ('stratified+systematic', False)
    >>> coupling == parse_walker_coupling("stratified+systematic")
    True
    """

    lengths: Lengths = field(default_factory=IidLengths)
    steps: Steps = field(default_factory=IndependentSteps)

    @property
    def is_independent(self) -> bool:
        """Whether the walkers of a node are known to be independent."""
        return type(self.lengths) is IidLengths and type(self.steps) is IndependentSteps

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
        `"stratified+systematic"`; names added by `register_lengths` and `register_steps` count.
    name
        Name of the argument in error messages.

    Raises
    ------
    InvalidInputError
        The text is not of that form; the choices are listed.

    Examples
    --------
    >>> from coupledgp.couplings import parse_walker_coupling
    >>> coupling = parse_walker_coupling("stratified+systematic")
    >>> coupling.lengths, coupling.steps
    (StratifiedLengths(), SystematicSteps())
    """
    if isinstance(coupling, WalkerCoupling):
        return coupling
    text = check_text(coupling, WalkerCoupling, "stratified+systematic", name)
    lengths, steps, _ = FORM.parse(text, name)
    return WalkerCoupling(lengths, steps)


def walker_coupling_text(coupling: WalkerCoupling) -> str | None:
    """The text from which `parse_walker_coupling` makes an equal coupling, for files; or None.

    `str(coupling)` is a short text to print, of any coupling.
    """
    return FORM.text_of(coupling.lengths, coupling.steps)


def available_walker_couplings() -> list[str]:
    """Text forms of every walker coupling now registered.

    Examples
    --------
    >>> from coupledgp.couplings import available_walker_couplings
    >>> [text for text in available_walker_couplings() if text.startswith("sigma")]
    ['sigma', 'sigma+repelling', 'sigma+systematic']
    """
    return FORM.available()


def register_lengths(
    name: str, make: Lengths | Callable[[], Lengths], *, replace: bool = False
) -> None:
    """Make a law of lengths known to the text form under `name`; see `Registry.register`.

    Examples
    --------
    >>> from coupledgp.couplings import SigmaLengths, parse_walker_coupling, register_lengths
    >>> register_lengths("coarse-sigma", SigmaLengths(order=5))
    >>> parse_walker_coupling("coarse-sigma+systematic").lengths.order
    5
    """
    LENGTHS.register(name, make, replace=replace)


def register_steps(name: str, make: Steps | Callable[[], Steps], *, replace: bool = False) -> None:
    """Make a law of steps known to the text form under `name`; see `Registry.register`.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import Steps, parse_walker_coupling, register_steps
    >>> class Together(Steps):
    ...     def choose(self, u, degree, weights):
    ...         shares = np.ones(degree) if weights is None else weights
    ...         sums = np.cumsum(shares) / shares.sum()
    ...         return np.full(u.shape[1], np.searchsorted(sums, u[0, 0], side="right"))
    >>> register_steps("together", Together)
    >>> str(parse_walker_coupling("stratified+together"))
    'stratified+together'
    """
    STEPS.register(name, make, replace=replace)


def parse_length_law(
    length_law: LengthLawLike, p_halt: float, series: Series, name: str = "length_law"
) -> LengthLaw:
    """Return the law of lengths that a text names, or the object itself.

    Parameters
    ----------
    length_law
        `"geometric"`, `"matched"`, a name that `register_length_law` or an installed package
        added, a `LengthLaw`, or a function `(p_halt, series)` that makes one.
    p_halt
        Chance of halting before each step, of the geometric law.
    series
        Function without arguments that returns the coefficients of the walked series, shape
        (n_terms,), or of several, (n_series, n_terms); only laws that need them call it.
    name
        Name of the argument in error messages.

    Raises
    ------
    InvalidInputError
        The text names no law, or a function makes something else.
    """
    law = LENGTH_LAWS.parse(length_law, name)
    made = law if isinstance(law, LengthLaw) else law(p_halt, series)
    if not isinstance(made, LengthLaw):
        raise InvalidInputError(
            f"{name}: expected a function that makes a LengthLaw, got one that makes "
            f"{type(made).__name__}"
        )
    return made


def check_length_law(length_law: LengthLawLike, name: str = "length_law") -> None:
    """Refuse a value that `parse_length_law` would refuse, without making a series."""
    LENGTH_LAWS.parse(length_law, name)


def length_law_text(length_law: LengthLawLike) -> str | None:
    """The registered name of a law of lengths; None if it has none."""
    return length_law if isinstance(length_law, str) else LENGTH_LAWS.text_of(length_law)


def available_length_laws() -> list[str]:
    """Names of every law of lengths now registered.

    Examples
    --------
    >>> from coupledgp.couplings import available_length_laws
    >>> available_length_laws()[:2]
    ['geometric', 'matched']
    """
    return LENGTH_LAWS.available()


def register_length_law(
    name: str, make: LengthLaw | LengthLawFactory, *, replace: bool = False
) -> None:
    """Make a law of lengths known under `name`.

    See `parse_length_law` for functions, `Registry.register` for the rest.

    Examples
    --------
    >>> import coupledgp as cgp
    >>> from coupledgp.couplings import GeometricLaw, register_length_law
    >>> register_length_law("lazy", lambda p_halt, series: GeometricLaw(p_halt / 2))
    >>> graph = cgp.Graph.from_edges([0, 1, 2], [1, 2, 0])
    >>> walks = cgp.features.sample_walks(graph, p_halt=0.5, length_law="lazy", max_length=2)
    >>> walks.survival.tolist()
    [1.0, 0.75, 0.5625]
    """
    LENGTH_LAWS.register(name, make, replace=replace)


stored_as(WalkerCoupling, walker_coupling_text, parse_walker_coupling)
stored_as(LengthLaw, length_law_text, LENGTH_LAWS.parse)
