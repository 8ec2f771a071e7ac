"""Parameters of estimators with the constraints on their values, and entries of `options=`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from typing import Any

from coupledgp.ground.validation import check_choice, check_positive, check_positive_int, wrong

# A constraint: a function of a value and its name, which raises InvalidInputError.
Check = Callable[[Any, str], Any]


def param(*, default: Any, check: Check) -> Any:
    """A field of an estimator with the constraint on its values."""
    return field(default=default, metadata={"check": check})


class option:  # noqa: N801
    """An entry of `options=`, read as an attribute of the estimator.

    Parameters
    ----------
    default
        Its value where it is not given.
    check
        The constraint on given values.
    """

    def __init__(self, default: Any, check: Check) -> None:
        self.default, self.check = default, check

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name = name

    def __get__(self, model: Any, owner: type[Any] | None = None) -> Any:
        return self if model is None else (model.options or {}).get(self.name, self.default)

    def __set__(self, model: Any, value: Any) -> None:
        raise AttributeError(f"{self.name}: set_params(options={{{self.name!r}: ...}}) sets it")


def options_of(kind: type[Any]) -> dict[str, option]:
    """The entries that `options=` of a class of estimators takes."""
    found = [vars(base) for base in reversed(kind.__mro__)]
    return {name: own for names in found for name, own in names.items() if isinstance(own, option)}


def folded(kind: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of an estimator from values by name: those of options as its `options=`."""
    known = options_of(kind)
    found = {name: value for name, value in values.items() if name not in known}
    own = {name: value for name, value in values.items() if name in known}
    return found | ({"options": {**(found.get("options") or {}), **own}} if own else {})


def check_declared(model: Any) -> None:
    """Check fields and options of an estimator by their constraints.

    Raises
    ------
    InvalidInputError
        A value is wrong, or `options` has an entry that the estimator does not know.
    """
    for own in fields(model):
        if "check" in own.metadata:
            own.metadata["check"](getattr(model, own.name), own.name)
    if not isinstance(model.options, Mapping | None):
        raise wrong("options", "values by name, or None", model.options)
    known = options_of(type(model))
    for name, value in (model.options or {}).items():
        known[check_choice(name, known, "options")].check(value, name)


def one_of(*choices: str) -> Check:
    """Constraint of one of some texts."""
    return lambda value, name: check_choice(value, choices, name)


def at_least(minimum: int) -> Check:
    """Constraint of an int of at least a minimum."""
    return lambda value, name: check_positive_int(value, name, minimum)


def none_or(check: Check) -> Check:
    """Constraint of None or what another constraint allows."""
    return lambda value, name: None if value is None else check(value, name)


def auto_or(check: Check) -> Check:
    """Constraint of `"auto"` or what another constraint allows."""
    return lambda value, name: (
        None if isinstance(value, str) and value == "auto" else check(value, name)
    )


def some_of(*choices: str) -> Check:
    """Constraint of some of a few texts, or None."""
    return lambda value, name: [check_choice(one, choices, name) for one in value or ()]


def any_value(value: Any, name: str) -> None:
    """Constraint that is checked where the value is used."""


positive = check_positive
