"""The log of a factor on the variance of observations, as a function of columns."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from coupledgp.errors import ModelFileError
from coupledgp.gp.left_out import LeftOut
from coupledgp.gp.protocol import Arrays, Points
from coupledgp.gp.schema import Entries
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.random import FloatArray

# Beginning of the names of its arrays in files.
PREFIX = "variance."


def variance_columns(points: Points, law: LeftOut) -> FloatArray:
    """Columns (m, d + 2) of rows (m, d) of a table: these, mean and log deviation of laws of y."""
    return np.column_stack([points, law.mean[:, 0], 0.5 * np.log(law.variance[:, 0])])


def variance_features(inputs: Tensor, frequencies: Tensor) -> Tensor:
    """A constant, the inputs u (n, c), and `sin w.u` and `cos w.u` of m frequencies, side by side.

    Shape (n, 1 + c + 2 m).
    """
    phases = inputs @ frequencies.T
    return torch.cat([torch.ones_like(inputs[:, :1]), inputs, phases.sin(), phases.cos()], dim=1)


@dataclass(frozen=True, eq=False)
class VarianceField:
    """`E exp(h(u))`, `h(u) = a + phi(u) . w` of weights w that have a normal law.

    `u = (clip(x, low, high) - center) / scale` are columns, which stay within the range of those
    that the field was fitted to: beyond it, the factor is that of the nearest end.

    Attributes
    ----------
    low, high, center, scale : FloatArray (c,)
        Range, shift and scale of each column.
    frequencies : FloatArray (m, c)
        Frequencies w of the features (`variance_features`).
    weights : FloatArray (M,)
        Means of the M = 1 + c + 2 m weights.
    root : FloatArray (M, M)
        Root R of the covariance `R R'` of the weights.
    level : FloatArray (1,)
        The constant a.
    """

    low: FloatArray
    high: FloatArray
    center: FloatArray
    scale: FloatArray
    frequencies: FloatArray
    weights: FloatArray
    root: FloatArray
    level: FloatArray

    def inputs(self, columns: FloatArray) -> Tensor:
        """The columns (n, c) in the form u."""
        inside = np.clip(columns, self.low, self.high)
        return torch.as_tensor((inside - self.center) / self.scale)

    def log_factor(self, columns: FloatArray) -> FloatArray:
        """Logarithms (n,) of the mean factor, `log E exp(h)`, at columns (n, c)."""
        features = variance_features(self.inputs(columns), torch.as_tensor(self.frequencies))
        found = features.numpy()
        spread = np.square(found @ self.root).sum(axis=1)
        return np.asarray(self.level + found @ self.weights + 0.5 * spread)

    def arrays(self) -> Arrays:
        """The arrays of a file, by name."""
        return {f"{PREFIX}{one.name}": getattr(self, one.name) for one in fields(self)}

    @classmethod
    def from_entries(cls, entries: Entries, n_columns: int) -> VarianceField:
        """The field of a file, of a table of so many columns.

        Raises
        ------
        ModelFileError
            Arrays do not fit each other, or a range or scale is none.
        """
        c = n_columns + 2

        def floats(name: str, *shape: int | str) -> FloatArray:
            return entries.floats(PREFIX + name, *shape)

        low, high, center = (floats(name, c) for name in ("low", "high", "center"))
        scale = entries.scales(f"{PREFIX}scale", c)
        if (low > high).any():
            raise ModelFileError(f"{PREFIX}low: expected at most {PREFIX}high, got more")
        frequencies = floats("frequencies", "variance_frequencies", c)
        size = 1 + c + 2 * len(frequencies)
        weights, root = floats("weights", size), floats("root", size, size)
        return cls(low, high, center, scale, frequencies, weights, root, floats("level", 1))
