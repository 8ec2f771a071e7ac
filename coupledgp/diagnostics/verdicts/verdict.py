"""Verdicts and advice as plain data, for pages, terminals and JSON.

Thresholds of the verdicts; docs/verdicts.md states them in words.

A verdict that finds fault needs two things: a figure beyond chance, and a figure that matters.
"""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from coupledgp.diagnostics.scoring.scores import MOST_NATS, nats_text

Colour = Literal["green", "amber", "red", "grey"]
# Signs and words of the colours of verdicts: nobody has to tell colours apart. Grey is a question
# that could not be judged.
SIGNS: dict[Colour, tuple[str, str]] = {
    "green": ("✓", "good"),
    "amber": ("!", "look at it"),
    "red": ("✕", "do not use as it is"),
    "grey": ("–", "not judged"),
}
# Letters of an answer that fit on one line.
LINE = 90
# The three questions, in the order in which they are answered.
QUALITY, HONESTY, ADEQUACY = (
    "Is the model good?",
    "Are its intervals honest?",
    "Is the approximation close enough?",
)


def in_units_of(text: str, target: str) -> str:
    """A text that speaks of `units of y`, with the reader's name of y."""
    return text.replace("units of y", f"units of {target}") if target else text


@dataclass(frozen=True)
class Verdict:
    """Answer to one question on a posterior.

    Attributes
    ----------
    question : str
        One of the three questions.
    colour : str
        `"green"`: nothing to do. `"amber"`: look at it. `"red"`: do not use it as it is. `"grey"`:
        not judged, as without targets.
    sentence : str
        The answer in the unit of the reader: of y, of standard deviations, or a share.
    reason : str
        The rule that decided, with its threshold.
    figure, error : float or None
        The figure of the sentence and its standard error.
    unit : str
        Unit of both.
    detail : str
        The figures behind the sentence in nats, which a page folds away; may be empty.

    Examples
    --------
    >>> from coupledgp.diagnostics import Verdict
    >>> sentence = "It is off by 0.1. No rival is better."
    >>> verdict = Verdict("Is the model good?", "green", sentence, reason="")
    >>> verdict.line, verdict.is_given
    ('It is off by 0.1.', True)
    """

    question: str
    colour: Colour
    sentence: str
    reason: str
    figure: float | None = None
    error: float | None = None
    unit: str = "nats per point"
    detail: str = ""

    def text(self) -> str:
        """The answer with the figures behind it."""
        return f"{self.sentence} {self.detail}".strip()

    def named(self, target: str) -> Verdict:
        """The same answer with the reader's name of y."""
        sentence, reason, detail = (
            in_units_of(text, target) for text in (self.sentence, self.reason, self.detail)
        )
        return replace(self, sentence=sentence, reason=reason, detail=detail)

    @property
    def line(self) -> str:
        """The answer on one line: its first sentence, or the first part of a long one."""
        answer = self.sentence.removeprefix("Not judged: ")
        first = re.split(r"(?<=\.) (?=[A-Z])", answer[:1].upper() + answer[1:])[0]
        cut = re.split(r"[;:] |, (?:and|as) ", first)[0] if len(first) > LINE else first
        return first if cut == first else f"{cut}."

    @property
    def is_given(self) -> bool:
        """Whether there was anything to judge by."""
        return not self.sentence.startswith("Not judged")

    def to_dict(self) -> dict[str, Any]:
        """Return all parts by name."""
        return asdict(self)


@dataclass(frozen=True)
class Advice:
    """One thing to do next, with what it gains.

    Attributes
    ----------
    action : str
        What to do, as a sentence.
    gain : float
        Decrease of the negative log predictive density that it brings, nats per point.
    error : float or None
        Standard error of the gain; None where it is not measured on single points.
    basis : str
        How the gain is known: `"measured"` at the test points, or `"estimated"`.

    Examples
    --------
    >>> from coupledgp.diagnostics import Advice
    >>> advice = Advice("Add the weekday as an input.", gain=0.1, error=0.02)
    >>> advice.worth
    'worth as much as intervals 9.5 % narrower, measured'
    >>> advice.figures
    '0.1 ± 0.02 nats per point'
    """

    action: str
    gain: float
    error: float | None = None
    basis: str = "measured"

    @property
    def worth(self) -> str:
        """The gain in the unit of intervals, and how it is known."""
        return f"worth {narrower(self.gain)}, {self.basis}"

    @property
    def figures(self) -> str:
        """The gain in nats with its error."""
        return f"{nats_text(self.gain, self.error, '.2g')} nats per point"

    def text(self) -> str:
        """The action and its gain in words."""
        return f"{self.action} It gains {self.figures}, {self.basis}."

    def to_dict(self) -> dict[str, Any]:
        """Return all parts by name."""
        return asdict(self)


def narrower(gain: float) -> str:
    """A gain of g nats as intervals of the same honesty that are shorter: by `1 - exp(-g)`."""
    if gain > MOST_NATS:
        return f"more than {MOST_NATS:g} nats per point"
    share = 100 * -math.expm1(-max(gain, 0.0))
    return f"as much as intervals {share:.2g} % narrower"


# A loss to a rival is beyond chance above this many standard errors: 6 in 1000 equals lose so.
LOST = 2.5
# Log evidence, in nats, above which a nearby kernel is better: one of nineteen has it by chance in
# 19 exp(-6) = 4.7 % of true models at most.
EVIDENCE = 6.0
# An advantage is told, and a green verdict given, above this many.
TOLD = 2.0
# The same for a kernel whose range or size varies: the evidence alone, from which the logarithm of
# the number of changes is taken off, bounds what chance does.
HINTED = 1.0
# Nats per point from which a loss matters (amber) and is serious (red): one hundredth is a shift of
# each prediction by .14 of its standard deviation, one tenth by .45.
MATTERS, SERIOUS = 0.01, 0.1
# Fewest test points at which standard errors of paired differences, and coverage, say anything.
FEWEST = 8
# Ratio of the RMSE to a rival's from which copying the rival is better.
WORSE_RMSE = 1.01
# Intervals are seriously off that hold this share too few at any level, or at the widest.
SERIOUS_SHARE, SERIOUS_TAIL = 0.10, 0.05
