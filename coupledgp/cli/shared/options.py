"""Values of options that several commands share.

Sensors of a field, each as all others predict it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray, IntArray

AUTO = "auto"
# Refuses a value of an option of a name.
Check = Callable[[Any, str], object]
# Digits of the largest whole numbers of options.
MOST_DIGITS = 15
COMPARISONS = ("auto", "dense", "stochastic", "subset", "none")
# Most test rows of a comparison, since it forms their dense covariance.
MAX_TEST_ROWS = 1000
# Most test rows where each takes an iterative solve.
MAX_SOLVED_ROWS = 128
# Training rows up to which the whole model is compared by default, which takes minutes, and rows of
# the subset that is compared above them.
WHOLE_ROWS, SUBSET_ROWS = 40_000, 2000


def number_or_auto(text: str, name: str) -> int | str:
    """Return `"auto"`, or the whole number that an option's text is."""
    if text == AUTO:
        return AUTO
    if not is_whole(text):
        raise InvalidInputError(f"{name}: expected auto or a whole number, got {text!r:.60}")
    return int(text)


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    with suppress(ValueError):
        float(text)
        return True
    return False


def is_whole(text: str) -> bool:
    """Whether a text is a whole number of at most `MOST_DIGITS` digits."""
    return text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Name an option in errors about the argument that it stands for."""
    try:
        yield
    except InvalidInputError as error:
        text = str(error).removeprefix(f"{name.lstrip('-').replace('-', '_')}: ")
        raise type(error)(text if text.startswith("--") else f"{name}: {text}") from error


def check_level(level: float, name: str) -> None:
    """Refuse a number that is no probability of an interval, as a double tells it from 0 and 1."""
    if not 0 < level < 0.5 + 0.5 * level < 1:
        raise InvalidInputError(f"{name}: expected a probability in (0, 1), got {level}")


def check_share(share: float, name: str) -> None:
    """Refuse a number that is no share of rows or places of which some are left."""
    if not 0 <= share < 1:
        raise InvalidInputError(f"{name}: expected a share from 0 to below 1, got {share:g}")


def at_least(least: int) -> Check:
    """The check of a whole number that is not smaller."""

    def check(value: int, name: str) -> None:
        from coupledgp.ground.validation import check_positive_int  # slow, as all below

        check_positive_int(value, name, minimum=least)

    return check


def one_of(*words: str) -> Check:
    """The check of a text that is one of some words."""

    def check(value: str, name: str) -> None:
        from coupledgp.ground.validation import check_choice

        check_choice(value, words, name)

    return check


def check_above_zero(value: float, name: str) -> None:
    """Refuse a number that is not finite and above zero."""
    from coupledgp.ground.validation import check_positive

    check_positive(value, name)


def check_page(path: Path, name: str) -> None:
    """Refuse a page whose path has the ending of something else, such as .pdf."""
    if path.suffix.lower() not in ("", ".html", ".htm"):
        raise InvalidInputError(f"{name}: expected a path ending in .html, got {str(path)!r}")


def budget_seconds(text: str, name: str = "--budget") -> float:
    """Seconds of a time such as 90s or 5min, or of a number of seconds."""
    from coupledgp.inference.nodes.forecast import seconds_of

    with naming(name):
        return seconds_of(float(text) if is_number(text) else text)


def selection_of(model: Any) -> dict[str, Any] | None:
    """The choice that `"auto"` made and its reasons, as plain values; None without `"auto"`."""
    if not hasattr(model, "selection_"):
        return None
    return model.selection_.to_dict() | {"measured_kl_per_point": model.kl_per_point_}


def selection_line(selection: dict[str, Any] | None) -> list[str]:
    """A line that describes the choice in words; no line without a choice."""
    if selection is None:
        return []
    measured = f"{selection['measured_kl_per_point']:.3g}"
    return [f"{selection['explanation']} KL measured after the fit: {measured} nats per point."]


# Level of the intervals that tables and pictures of sensors show.
LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class LeftOutPlaces:
    """Predictions of each observation from those at all other places.

    Attributes
    ----------
    y, mean, std : FloatArray (n,)
        Observations, and the law of each.
    names : tuple of str
        Names of the sensors.
    """

    y: FloatArray
    mean: FloatArray
    std: FloatArray
    names: tuple[str, ...]

    @property
    def residual(self) -> FloatArray:
        """Standardised residuals (n,): observation minus mean, over std."""
        return (self.y - self.mean) / self.std

    def worst(self) -> IntArray:
        """Numbers of the sensors (n,), those with the largest residuals first."""
        return np.argsort(-np.abs(self.residual), kind="stable")
