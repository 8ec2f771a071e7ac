"""Sensors of a field, each as all others predict it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coupledgp.random import FloatArray, IntArray

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
