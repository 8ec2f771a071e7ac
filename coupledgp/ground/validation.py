"""Checks of arguments, whose errors name the argument, the expected value and the given one."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray

# Largest magnitude of a number of data or of a parameter, and the least size of a scale: of the
# spread of a column or an output, a lengthscale, a weight. The product of four of them is a number
# of float64, so that squares of ratios, and squares of squared errors, neither overflow nor vanish.
LARGEST, SMALLEST = 1e75, 1e-75
# The same bounds for products of two such numbers, such as variances and ratios.
LARGEST_PRODUCT, SMALLEST_PRODUCT = 1e150, 1e-150
# Largest whole number of a size or a count: all whole numbers up to it are floats, too.
LARGEST_INT = 2**53
# Relative spread below which numbers count as constant: a few rounding errors.
ROUNDING = 10 * float(np.finfo(float).eps)
# Most characters of a value that an error shows.
MOST_SHOWN = 100
# Most columns that an error names.
MOST_NAMED = 5
# Fewest numbers of which a repeated one can be a code of missing values.
LEAST_SENTINEL_ROWS = 10


def wrong(name: str, expected: str, got: Any) -> InvalidInputError:
    """The error for a wrong value: what it is called, what was expected, and what came.

    Classes are shown by name, arrays by their shape, other values by a `repr` that is cut.
    """
    if isinstance(got, np.ndarray) and got.ndim:
        shown = f"an array of shape {got.shape}"
    elif isinstance(got, np.generic):
        shown = repr(got.item())
    else:
        shown = got.__name__ if isinstance(got, type) else repr(got)
    short = shown if len(shown) <= MOST_SHOWN else f"{shown[:MOST_SHOWN]}..."
    return InvalidInputError(f"{name}: expected {expected}, got {short}")


def check_positive_int(value: Any, name: str, minimum: int = 1) -> int:
    """Return `value` as an int of at least `minimum`; bool and non-integers are refused."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise wrong(name, f"an int >= {minimum}", value)
    if value < minimum:
        raise wrong(name, f"an int >= {minimum}", int(value))
    if value > LARGEST_INT:
        raise InvalidInputError(f"{name}: expected an int of at most 2^53, got a larger one")
    return int(value)


def check_positive(value: Any, name: str) -> float:
    """Return `value` as a finite float above zero; bool and text are refused."""
    if isinstance(value, (bool, np.bool_, str, bytes)):
        raise wrong(name, "a number > 0", value)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise wrong(name, "a number > 0", value) from None
    if not (np.isfinite(number) and number > 0):
        raise wrong(name, "a finite number > 0", value)
    check_sizes(np.array(number), name)
    return number


def check_magnitude(values: FloatArray, name: str, largest: float = LARGEST) -> None:
    """Refuse numbers of any shape of which one is larger in magnitude; NaN is passed over.

    Raises
    ------
    InvalidInputError
        The message names the argument, the limit and the value.
    """
    if not values.size:
        return
    low, high = float(np.fmin.reduce(values, None)), float(np.fmax.reduce(values, None))
    if low < -largest or high > largest:
        raise InvalidInputError(
            f"{name}: expected magnitudes of at most {largest:g}, so that squares and products "
            f"stay finite, got {high if high > largest else low:g}; use another unit"
        )


def check_sizes(
    values: FloatArray, name: str, smallest: float = SMALLEST, largest: float = LARGEST
) -> None:
    """Refuse positive numbers of any shape of which one is smaller or larger."""
    if not values.size:
        return
    low, high = float(values.min()), float(values.max())
    if not (smallest <= low and high <= largest):
        raise InvalidInputError(
            f"{name}: expected sizes from {smallest:g} to {largest:g}, so that squares and ratios "
            f"stay finite, got {low if low < smallest else high:g}; use another unit"
        )


def varies(low: FloatArray, high: FloatArray) -> NDArray[np.bool_]:
    """Whether numbers from `low` to `high` (k,) differ by more than rounding of their magnitude.

    Columns and targets that do not vary by this rule count as constant. A standard deviation would
    be no such rule: rounding of the mean of equal numbers grows with their count, and passes for a
    spread.
    """
    found: NDArray[np.bool_] = high - low > ROUNDING * np.maximum(np.abs(low), np.abs(high))
    return found


def check_spread(values: FloatArray, name: str, part: str) -> None:
    """Refuse columns of (n, k), n > 0, that vary by less than `SMALLEST`, but more than rounding.

    Magnitudes have been checked. The message calls a column `part` and names its number.
    """
    low, high = values.min(axis=0), values.max(axis=0)
    spread = high - low
    bad = np.flatnonzero(varies(low, high) & (spread < SMALLEST))
    if bad.size:
        raise InvalidInputError(
            f"{name}: expected values that are constant or differ by at least {SMALLEST:g}, so "
            f"that squares and ratios stay finite, got differences of {spread[bad[0]]:g} in {part} "
            f"{bad[0]}; use another unit"
        )


class Sentinel(NamedTuple):
    """A number that stands far outside, how often it comes, and the range of the others."""

    value: float
    repeats: int
    low: float
    high: float


def sentinels(values: FloatArray, bulk: bool = False) -> list[Sentinel]:
    """Numbers that values (n,) repeat far outside of all others, as codes of missing values are.

    One is the least or the greatest, comes twice or more and at most as often as all others, and
    is farther from them than five times their range. With `bulk` also one that comes five times
    and once in a thousand, and is farther from the quartiles of the others than three times the
    range between these, but not the end of a distribution that reaches it: it has four times as
    many repeats as others are within a tenth of that way.
    """
    found: list[Sentinel] = []
    rest: FloatArray | None = values
    while rest is not None and len(rest) >= LEAST_SENTINEL_ROWS:
        given, rest = rest, None
        for value in (float(given.min()), float(given.max())):
            others = given[given != value]
            count = len(given) - len(others)
            if not 1 < count <= len(others):
                continue
            low, high = float(others.min()), float(others.max())
            far = max(low - value, value - high) > 5.0 * (high - low)
            if not far and bulk and count >= max(5, len(given) / 1000):
                low, high = np.quantile(others, [0.25, 0.75]).tolist()
                away = max(low - value, value - high)
                near = int((abs(others - value) <= max(away / 10, (high - low) / 2)).sum())
                far = away > 3.0 * (high - low) > 0 and count > 4 * near
            if far and np.unique(others).size > 2:
                found.append(Sentinel(value, count, low, high))
                rest = others
                break
    return found


def check_lengthscale(value: ArrayLike, dim: int, name: str = "lengthscale") -> FloatArray:
    """Return one positive lengthscale per dimension, shape (dim,), from a scalar or a vector."""
    try:
        array = real_array(value, name)
    except InvalidInputError:
        raise
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError(f"{name}: expected numbers > 0, got {value!r}") from None
    if array.ndim == 0 or array.shape == (1,):
        array = np.full(dim, float(array.reshape(())))
    if array.shape != (dim,):
        raise InvalidInputError(
            f"{name}: expected a scalar or {dim} values (one a dimension), got shape {array.shape}"
        )
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise InvalidInputError(f"{name}: expected finite numbers > 0, got {array.tolist()}")
    check_sizes(array, name)
    return array


def check_choice(value: Any, choices: Iterable[str], name: str) -> str:
    """Return `value` if it is one of `choices`; the error lists them and the nearest."""
    options = sorted(choices)
    if isinstance(value, str) and value in options:
        return value
    raise InvalidInputError(unknown_choice(value, options, name))


def unknown_choice(value: Any, choices: Iterable[str], name: str) -> str:
    """Return the message for a value that is not among the choices."""
    options = sorted(choices)
    close = difflib.get_close_matches(value, options, n=1) if isinstance(value, str) else []
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"{name}: expected one of {', '.join(map(repr, options))}; got {value!r}{hint}"


def check_gaussian(
    mean: ArrayLike, cov: ArrayLike, mean_name: str, cov_name: str
) -> tuple[FloatArray, FloatArray]:
    """Return a mean (n,) and a symmetric covariance (n, n), finite, in float64."""
    mu = check_vector(mean, mean_name)
    check_magnitude(mu, mean_name)
    sigma = real_array(cov, cov_name)
    if sigma.shape != (mu.size, mu.size):
        raise InvalidInputError(
            f"{cov_name}: expected shape ({mu.size}, {mu.size}) to match {mean_name}, "
            f"got {sigma.shape}"
        )
    if not np.isfinite(sigma).all():
        raise InvalidInputError(f"{cov_name}: expected finite values, got NaN or inf")
    check_magnitude(sigma, cov_name, LARGEST_PRODUCT)
    # Rounding in a product leaves an asymmetry of a few ulps of the largest entry, not more.
    if np.abs(sigma - sigma.T).max() > 1e-8 * max(np.abs(sigma).max(), np.finfo(float).tiny):
        raise InvalidInputError(f"{cov_name}: expected a symmetric matrix")
    return mu, sigma


def check_vector(value: ArrayLike, name: str) -> FloatArray:
    """Return a non-empty finite vector (n,) in float64."""
    array = real_array(value, name)
    if array.ndim != 1 or array.size == 0:
        raise InvalidInputError(f"{name}: expected a non-empty 1-D array, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise InvalidInputError(f"{name}: expected finite values, got NaN or inf")
    return array


def real_array(value: Any, name: str) -> FloatArray:
    """Return an array of float64 of any shape; complex numbers are refused, not cut.

    Raises
    ------
    InvalidInputError
        The numbers are complex.
    TypeError, ValueError, OverflowError
        They are none, or too large, or lists of several lengths.
    """
    array = np.asarray(value)
    _refuse_complex(array, name)
    return np.asarray(array, dtype=np.float64)


def _refuse_complex(value: Any, name: str) -> None:
    kind = getattr(value, "dtype", None)
    if getattr(kind, "kind", "") == "c":
        raise InvalidInputError(
            f"{name}: expected real numbers, got {kind}. Complex data not supported"
        )


def plain_array(value: Any, name: str) -> Any:
    """Return masked arrays with NaN where they are masked, and tensors as arrays; else `value`.

    Raises
    ------
    InvalidInputError
        A masked array holds no numbers, numbers are complex, or columns of a table of pandas have
        equal names.
    """
    _refuse_complex(value, name)
    columns = getattr(value, "columns", None) if hasattr(value, "iloc") else None
    if columns is not None and not columns.is_unique:
        repeated = [repr(column) for column in columns[columns.duplicated()].unique()[:MOST_NAMED]]
        raise InvalidInputError(
            f"{name}: expected columns of different names, got more than one {', '.join(repeated)}"
        )
    if hasattr(value, "detach") and hasattr(value, "numpy"):
        tensor = value.detach().cpu()
        if tensor.is_complex():
            _refuse_complex(tensor.resolve_conj().numpy(), name)
        try:
            return tensor.numpy()
        except TypeError:  # such as bfloat16
            return tensor.double().numpy()
    if isinstance(value, np.ma.MaskedArray):
        if value.dtype.kind not in "biuf":
            raise InvalidInputError(f"{name}: expected numbers, got masked values of {value.dtype}")
        return np.ma.filled(value.astype(np.float64), np.nan)
    return value


def forward_array(value: Any) -> FloatArray:
    """Return numbers as float64 in the order of the machine, with strides that are not negative."""
    array = np.asarray(value, dtype=np.float64)
    return np.ascontiguousarray(array) if any(step < 0 for step in array.strides) else array


def json_values(values: dict[str, Any]) -> dict[str, Any]:
    """Values as JSON: None in place of NaN and infinities, which are named beside.

    Where there are any, the key `"not_finite"` holds the name of each, such as `"accuracy.kl"`,
    with `"not a number"` or `"infinite"`.
    """
    reasons: dict[str, str] = {}
    found: dict[str, Any] = _finite(values, "", reasons)
    return found | {"not_finite": reasons} if reasons else found


def _finite(value: Any, name: str, reasons: dict[str, str]) -> Any:
    """The value without NaN and infinities, whose names are added to the reasons."""
    if isinstance(value, dict):
        within = f"{name}." if name else ""
        return {str(key): _finite(item, f"{within}{key}", reasons) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item, f"{name}[{i}]", reasons) for i, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        reasons[name] = "not a number" if math.isnan(value) else "infinite"
        return None
    return value


def check_row_numbers(value: ArrayLike, name: str, n_rows: int) -> FloatArray:
    """A vector (n_rows,) of finite numbers."""
    try:
        array = np.array(real_array(value, name))
    except InvalidInputError:
        raise
    except (TypeError, ValueError, OverflowError):
        raise wrong(name, f"{n_rows} numbers", value) from None
    if array.shape != (n_rows,):
        raise wrong(name, f"shape ({n_rows},), one number a row", array.shape)
    if not np.isfinite(array).all():
        raise InvalidInputError(f"{name}: expected finite values, got NaN or inf")
    return array
