"""Values of options that several commands share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from coupledgp.errors import InvalidInputError
from coupledgp.ground.output import find_clash

AUTO = "auto"
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


def check_level(level: float | None) -> None:
    """Refuse a number that is no probability of an interval, as a double tells it from 0 and 1."""
    if level is not None and not 0 < level < 0.5 + 0.5 * level < 1:
        raise InvalidInputError(f"--level: expected a probability in (0, 1), got {level}")


def budget_seconds(text: str) -> float:
    """Seconds of a time such as 90s or 5min, or of a number of seconds."""
    from coupledgp.models.other_models.judge import seconds_of  # slow

    with naming("--budget"):
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


def check_distinct(outputs: dict[str, Path | None], inputs: list[Path | None]) -> None:
    """Refuse outputs that would overwrite an input or each other."""
    wanted = {name: path for name, path in outputs.items() if path is not None}
    name = find_clash(wanted, [path for path in inputs if path is not None])
    if name is not None:
        raise InvalidInputError(f"{name}: expected a path of its own, got {str(wanted[name])!r}")
