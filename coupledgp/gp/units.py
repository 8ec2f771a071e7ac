"""Targets of the regressors on graphs: their checks, units and shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.errors import InvalidInputError
from coupledgp.models.base import target_scaling
from coupledgp.random import FloatArray

# Relative spread below which targets are one number.
ROUNDING = 10 * float(np.finfo(float).eps)


@dataclass(frozen=True)
class Targets:
    """Observations (n, k) in units of y, with the mean and scale of each output.

    Attributes
    ----------
    values
        Observations (n, k).
    mean, scale
        Shape (k,).
    ndim
        Dimensions of the y that was given, 1 or 2: results have the same.
    """

    values: FloatArray
    mean: FloatArray
    scale: FloatArray
    ndim: int

    @classmethod
    def of(cls, y: ArrayLike, n_rows: int, normalize: bool) -> Targets:
        """Check y, (n,) or (n, k), and measure its outputs."""
        try:
            array = np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"y: expected numbers, got {error}") from None
        if array.ndim not in (1, 2) or array.size == 0:
            raise InvalidInputError(
                f"y: expected a non-empty array, (n,) or (n, n_outputs), got shape {array.shape}"
            )
        if not np.isfinite(array).all():
            raise InvalidInputError("y: expected finite values, got NaN or inf")
        if len(array) != n_rows:
            raise InvalidInputError(f"y: expected {n_rows} values to match nodes, got {len(array)}")
        values = array.reshape(n_rows, -1)
        return cls(values, *target_scaling(values, normalize), array.ndim)

    @property
    def centred(self) -> FloatArray:
        """Observations in normalised units, (n, k)."""
        return (self.values - self.mean) / self.scale

    @property
    def are_constant(self) -> bool:
        """Whether every output is its mean, to rounding: nothing in them speaks of scales."""
        return bool((np.abs(self.values - self.mean) <= ROUNDING * np.abs(self.mean)).all())

    @property
    def given(self) -> FloatArray:
        """Observations in the shape they came in."""
        return self.shaped(self.values, 1)

    @property
    def log_jacobian(self) -> float:
        """What the log evidence of normalised targets exceeds that of y by."""
        return len(self.values) * float(np.log(self.scale).sum())

    def variance(self, normalized: float) -> Any:
        """A variance in units of y squared: a float, or (k,) for targets of two dimensions."""
        value = normalized * self.scale**2
        return float(value[0]) if self.ndim == 1 else value

    def shaped(self, array: FloatArray, axis: int) -> FloatArray:
        """Without the axis of outputs if y had none."""
        return np.moveaxis(array, axis, 0)[0] if self.ndim == 1 else array
