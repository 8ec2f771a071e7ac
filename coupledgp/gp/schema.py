"""Checks of the values and arrays of a model file, each made as the entry is taken.

A file may hold anything: its checksum, which anyone can compute, shows damage and not intent. So no
entry is used before its type, shape and range are those that a saved process has, and no size is
taken from a header unless an array in the file has that size.

Time axes in a model file, and back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.gp.protocol import Arrays, Header
from coupledgp.ground.validation import LARGEST_PRODUCT
from coupledgp.random import FloatArray
from coupledgp.series import TimeAxis
from coupledgp.series.axis import LARGEST_SECONDS
from coupledgp.series.stamps import zone_of_name

# Largest magnitude of a number, and the inverse of the least scale: of the product of two numbers
# that a fit accepts. Sums of squares of such products may be larger.
LARGEST, LARGEST_SQUARE = LARGEST_PRODUCT, 1e304
# Largest absolute difference from one of weights that add up to one.
ROUNDING = 1e-6


class Entries:
    """The header and arrays of a file, and the sizes that its arrays share.

    A shape is given by numbers and letters: a letter stands for the same size in every array that
    is taken, `floats("X", "n", "d")` and `floats("y", "n", "k")` for as many rows in both.

    Parameters
    ----------
    header, arrays
        Contents of the file, of which nothing is known.

    Attributes
    ----------
    sizes : dict of str to int
        Sizes found so far by their letters.
    """

    def __init__(self, header: Header, arrays: Arrays, **sizes: int) -> None:
        self.header = require_type(header, dict, "header")
        self.arrays = arrays
        self.sizes: dict[str, int] = dict(sizes)

    def floats(
        self,
        name: str,
        *shape: int | str,
        low: float = -LARGEST,
        above: float = -np.inf,
        high: float = LARGEST,
        dtypes: tuple[str, ...] = ("float64",),
    ) -> NDArray[Any]:
        """An array of numbers that are at least `low`, above `above` and at most `high`.

        Raises
        ------
        ModelFileError
            The array is missing, or of another type or shape, or a number is outside the range.
        """
        array = self._array(name, shape, dtypes)
        if array.size:
            least, largest = float(array.min()), float(array.max())  # NaN wherever there is one
            if not (np.isfinite(least) and np.isfinite(largest)):
                raise ModelFileError(f"{name}: expected finite numbers, got NaN or inf")
            if least < low or least <= above or largest > high:
                raise ModelFileError(
                    f"{name}: expected numbers {_range(low, above, high)}, got {least} to {largest}"
                )
        return array

    def squares(self, name: str, *shape: int | str) -> NDArray[Any]:
        """An array of numbers that may be sums of squares of others: up to `LARGEST_SQUARE`."""
        return self.floats(name, *shape, low=-LARGEST_SQUARE, high=LARGEST_SQUARE)

    def scales(self, name: str, *shape: int | str) -> NDArray[Any]:
        """An array of numbers above zero whose squares are above zero and finite too."""
        return self.floats(name, *shape, low=1 / LARGEST, high=LARGEST)

    def integers(
        self,
        name: str,
        *shape: int | str,
        low: int,
        high: int,
        dtypes: tuple[str, ...] = ("int32", "int64"),
    ) -> NDArray[Any]:
        """An array of whole numbers from `low` to `high`."""
        array = self._array(name, shape, dtypes)
        if array.size:
            least, largest = int(array.min()), int(array.max())
            if least < low or largest > high:
                raise ModelFileError(
                    f"{name}: expected integers from {low} to {high}, got {least} to {largest}"
                )
        return array

    def factor(self, name: str, size: int | str) -> NDArray[Any]:
        """A lower Cholesky factor (size, size): its diagonal is above zero."""
        array = self.floats(name, size, size)
        if len(array) and not float(array.diagonal().min()) > 0:
            raise ModelFileError(f"{name}: expected a diagonal above zero")
        return array

    def _array(
        self, name: str, shape: tuple[int | str, ...], dtypes: tuple[str, ...]
    ) -> NDArray[Any]:
        if name not in self.arrays:
            raise ModelFileError(f"{name}: expected an array of this name, got none")
        array = np.asarray(self.arrays[name])
        if not shape and array.shape == (1,):  # as files hold an array ()
            array = array.reshape(())
        if array.dtype not in dtypes:
            wanted = " or ".join(dtypes)
            raise ModelFileError(f"{name}: expected {wanted}, got {array.dtype}")
        known = tuple(self.sizes.get(s, s) if isinstance(s, str) else s for s in shape)
        found = tuple(array.shape)
        if len(found) != len(known) or any(
            isinstance(want, int) and want != got for want, got in zip(known, found, strict=True)
        ):
            wanted = ", ".join(map(str, known))
            raise ModelFileError(f"{name}: expected shape ({wanted}), got {found}")
        for want, got in zip(known, found, strict=True):
            if isinstance(want, str) and self.sizes.setdefault(want, got) != got:
                raise ModelFileError(f"{name}: expected the same {want} twice, got {found}")
        return array

    def number(
        self,
        *path: str,
        low: float = -np.inf,
        above: float = -np.inf,
        high: float = np.inf,
    ) -> float:
        """A finite number of the header; further names lead into nested values."""
        value = self.value(*path)
        return check_number(value, ".".join(path), low=low, above=above, high=high)

    def integer(self, *path: str, low: int, high: int) -> int:
        """A whole number of the header, from `low` to `high`."""
        return check_integer(self.value(*path), ".".join(path), low, high)

    def flag(self, *path: str) -> bool:
        """`true` or `false` of the header."""
        return bool(require_type(self.value(*path), bool, ".".join(path)))

    def text(self, *path: str, among: Iterable[str] | None = None) -> str:
        """A text of the header, one of those in `among` if they are given."""
        name = ".".join(path)
        value = str(require_type(self.value(*path), str, name))
        if among is not None and value not in (choices := list(among)):
            raise ModelFileError(f"{name}: expected one of {choices}, got {value[:40]!r}")
        return value

    def value(self, *path: str) -> Any:
        """A value of the header that has to be there."""
        found: Any = self.header
        for depth, name in enumerate(path):
            where = ".".join(path[: depth + 1])
            if name not in require_type(found, dict, ".".join(path[:depth]) or "header"):
                raise ModelFileError(f"{where}: expected a value of this name, got none")
            found = found[name]
        return found

    def record(self, kind: type[Any], name: str, **given: Any) -> Any:
        """A dataclass of given arrays and of finite numbers of the header, by the field's name."""
        stored = require_type(self.value(name), dict, name)
        free = {f.name for f in fields(kind)} - set(given)
        for key, value in stored.items():
            if key not in free:
                raise ModelFileError(f"{name}: expected no value {key[:40]!r}")
            check_number(value, f"{name}.{key}")
        return kind(**given, **stored)


def named_text(text: str | None, name: str, value: Any) -> str:
    """The text that names an object of a model; refuse an object that none names.

    Raises
    ------
    InvalidInputError
        There is no text.
    """
    if text is None:
        raise InvalidInputError(
            f"{name}: expected an object with a text form that names it, since a file holds text "
            f"only, got {value!r}; register it under a name"
        )
    return text


def require_type(value: Any, kind: type[Any], name: str) -> Any:
    """Return a value of a type of JSON."""
    if type(value) is not kind:
        raise ModelFileError(f"{name}: expected {kind.__name__}, got {type(value).__name__}")
    return value


def plain_record(kind: type[Any], stored: Any, name: str, **given: Any) -> Any:
    """A dataclass from given values and from a header's, whose types have to be as annotated."""
    values = require_type(stored, dict, name)
    types = {f.name: str(f.type) for f in fields(kind) if f.name not in given}
    if values.keys() != types.keys():
        raise ModelFileError(f"{name}: expected {', '.join(types)}, got {', '.join(values)[:80]}")
    for key, wanted in types.items():
        value, where = values[key], f"{name}.{key}"
        if value is None and "None" in wanted:
            continue
        if wanted.startswith("int"):
            check_integer(value, where, 0, 2**62)
        elif wanted.startswith("float"):
            check_number(value, where)
        else:
            require_type(value, {"bool": bool, "str": str}[wanted.split(" ")[0]], where)
    return kind(**given, **values)


def check_number(
    value: Any, name: str, low: float = -np.inf, above: float = -np.inf, high: float = np.inf
) -> Any:
    """Return a finite number in a range; truth values and texts are none."""
    if type(value) not in (int, float):
        raise ModelFileError(f"{name}: expected a number, got {type(value).__name__}")
    if not (abs(value) < np.inf and low <= value <= high and value > above):
        if type(value) is int and abs(value) > 2**64:
            value = "a larger one"
        raise ModelFileError(f"{name}: expected a number {_range(low, above, high)}, got {value}")
    if type(value) is int and abs(value) > 2**64:
        raise ModelFileError(f"{name}: expected a number below 2^64, got a larger one")
    return value


def check_integer(value: Any, name: str, low: int, high: int) -> int:
    """Return a whole number in a range; truth values are none."""
    if type(value) is not int:
        raise ModelFileError(f"{name}: expected an integer, got {type(value).__name__}")
    if not low <= value <= high:
        shown = value if abs(value) < 2**64 else "one beyond 64 bits"
        raise ModelFileError(f"{name}: expected an integer from {low} to {high}, got {shown}")
    return value


def check_shares(weights: Any, name: str) -> None:
    """Refuse weights, the last axis of an array, whose sum is not one."""
    total = np.asarray(weights).sum(axis=-1)
    if not (np.abs(total - 1) <= ROUNDING).all():
        raise ModelFileError(f"{name}: expected weights whose sum is one, got others")


def _range(low: float, above: float, high: float) -> str:
    if above > low:
        return f"above {above:g} and up to {high:g}"
    return f"from {low:g} to {high:g}" if np.isfinite([low, high]).any() else "that is finite"


def axis_state(axis: TimeAxis) -> dict[str, Any]:
    """Origin, zone and tick of a time axis as a file holds them, beside the numbers."""
    origin = None if axis.origin is None else str(axis.origin.astype("datetime64[ns]"))
    return {"origin": origin, "zone": axis.zone, "tick": axis.tick, "whole": axis.whole}


def axis_from(state: Any, times: FloatArray) -> TimeAxis:
    """The axis of `axis_state`, whose first and last time are of the years 1678 to 2261."""
    entries = Entries(require_type(state, dict, "axis"), {})
    zone, origin = entries.value("zone"), entries.value("origin")
    if zone is not None:
        zone_of_name(entries.text("zone"))
    axis = TimeAxis(
        times, None if origin is None else _instant(entries.text("origin")), zone,
        entries.integer("tick", low=1, high=1000), "numpy", entries.flag("whole"),
    )  # fmt: skip
    axis.labels(times[[0, -1]])
    return axis


def _instant(text: str) -> np.datetime64:
    """The time of a text by ISO 8601, in nanoseconds, into which other years do not fit."""
    second = np.datetime64(text, "s")
    if not abs(second.astype(np.int64)) < LARGEST_SECONDS - 1:
        raise ModelFileError(f"axis.origin: expected a time of 1678 to 2261, got {second}")
    return np.datetime64(text, "ns")
