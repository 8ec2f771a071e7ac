"""Checks of arguments, whose errors name the argument, the expected value and the given one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray


def check_positive_int(value: Any, name: str, minimum: int = 1) -> int:
    """Return `value` as an int of at least `minimum`; bool and non-integers are refused."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise InvalidInputError(f"{name}: expected an int >= {minimum}, got {value!r}")
    if value < minimum:
        raise InvalidInputError(f"{name}: expected an int >= {minimum}, got {value}")
    return int(value)


def check_positive(value: Any, name: str) -> float:
    """Return `value` as a finite float above zero; bool is refused."""
    if isinstance(value, (bool, np.bool_)):
        raise InvalidInputError(f"{name}: expected a number > 0, got {value!r}")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{name}: expected a number > 0, got {value!r}") from None
    if not (np.isfinite(number) and number > 0):
        raise InvalidInputError(f"{name}: expected a finite number > 0, got {value!r}")
    return number


def check_lengthscale(value: ArrayLike, dim: int, name: str = "lengthscale") -> FloatArray:
    """Return one positive lengthscale per dimension, shape (dim,), from a scalar or a vector."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{name}: expected numbers > 0, got {value!r}") from None
    if array.ndim == 0 or array.shape == (1,):
        array = np.full(dim, float(array.reshape(())))
    if array.shape != (dim,):
        raise InvalidInputError(
            f"{name}: expected a scalar or {dim} values (one a dimension), got shape {array.shape}"
        )
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise InvalidInputError(f"{name}: expected finite numbers > 0, got {array.tolist()}")
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
    sigma = np.asarray(cov, dtype=np.float64)
    if sigma.shape != (mu.size, mu.size):
        raise InvalidInputError(
            f"{cov_name}: expected shape ({mu.size}, {mu.size}) to match {mean_name}, "
            f"got {sigma.shape}"
        )
    if not np.isfinite(sigma).all():
        raise InvalidInputError(f"{cov_name}: expected finite values, got NaN or inf")
    # Rounding in a product leaves an asymmetry of a few ulps of the largest entry, not more.
    if np.abs(sigma - sigma.T).max() > 1e-8 * max(np.abs(sigma).max(), np.finfo(float).tiny):
        raise InvalidInputError(f"{cov_name}: expected a symmetric matrix")
    return mu, sigma


def check_vector(value: ArrayLike, name: str) -> FloatArray:
    """Return a non-empty finite vector (n,) in float64."""
    array = np.asarray(value, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise InvalidInputError(f"{name}: expected a non-empty 1-D array, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise InvalidInputError(f"{name}: expected finite values, got NaN or inf")
    return array


def plain_array(value: Any, name: str) -> Any:
    """Return masked arrays with NaN where they are masked, and tensors as arrays; else `value`.

    Raises
    ------
    InvalidInputError
        A masked array holds no numbers.
    """
    if hasattr(value, "detach") and hasattr(value, "numpy"):
        tensor = value.detach().cpu()
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
