"""Metrics of rows, in which stationary kernels are functions of one distance.

    r = (sum_j |t_j|^p)^(1/p) ,   t_j = (x_j - x'_j) / l_j ,   d r^p / d log l_j = -p |t_j|^p

Gradients in lengthscales follow from the derivative of a kernel in `r^p`, its power.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from coupledgp.random import FloatArray

if TYPE_CHECKING:
    from coupledgp.ground.tensors import Tensor

Numbers = TypeVar("Numbers", "FloatArray", "Tensor")


class Metric(StrEnum):
    """How a distance follows from differences of columns in lengthscales, and what it is called.

    `"l2"` is the Euclidean distance, p = 2; `"l1"` the sum of the columns' distances, p = 1.
    """

    L1 = "l1"
    L2 = "l2"

    @property
    def order(self) -> int:
        """The power p."""
        return 1 if self is Metric.L1 else 2

    def powers(self, differences: Numbers) -> Numbers:
        """`|t|^p` of differences or distances of any shape."""
        return abs(differences) if self is Metric.L1 else differences * differences

    def slopes(self, differences: FloatArray) -> FloatArray:
        """`d r^p / dt_j / p`, of differences `t_j` of any shape."""
        return np.sign(differences) if self is Metric.L1 else differences

    def distances(self, powers: Numbers) -> Numbers:
        """`r` of powers `r^p` of any shape."""
        return powers if self is Metric.L1 else powers**0.5
