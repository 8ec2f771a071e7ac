"""Predictions of baselines, and those that were left out with the reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from coupledgp.random import FloatArray


@dataclass(frozen=True, eq=False)
class BaselinePrediction:
    """A baseline's predictions.

    Attributes
    ----------
    name : str
        `"mean"`, `"nearest"`, `"linear"`, `"plain process"`, `"additive kernel"`,
        `"boosted trees"`, `"harmonic"` or `"position GP"`.
    mean : FloatArray (p,) or (p, k)
        Predictions, in units of y.
    std : FloatArray (p,) or (p, k), or None
        Standard deviations of observations; None where too few observations tell one.

    Examples
    --------
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import baseline_predictions
    >>> road = cgp.LaplaceOperator.from_edges([0, 1, 2], [1, 2, 3], lengths=[1.0, 2.0, 1.0])
    >>> sensors = road.at_vertices([0, 3])
    >>> mean, nearest, harmonic = baseline_predictions(road, sensors, [1.0, 5.0], sensors)
    >>> nearest.name, nearest.mean.tolist()
    ('nearest', [1.0, 5.0])
    """

    name: str
    mean: FloatArray
    std: FloatArray | None = None

    def first_output(self) -> BaselinePrediction:
        """The predictions (p,) of the first output, from those (p, k) of all."""
        return BaselinePrediction(
            self.name, self.mean[:, 0], None if self.std is None else self.std[:, 0]
        )


class Rivals(list[BaselinePrediction]):
    """Baselines that apply.

    Attributes
    ----------
    left_out : dict of str to str
        Names of baselines that are left out, and why.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import rivals_of
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.5, noise=0.02)
    >>> process = model.fit(X, 2 * X[:, 0]).process_
    >>> rivals = rivals_of(process, np.array([[2.5]]))
    >>> len(rivals), rivals.left_out["boosted trees"]
    (3, 'expected 60 rows at least, got 20')
    """

    def __init__(
        self, found: Iterable[BaselinePrediction] = (), left_out: dict[str, str] | None = None
    ) -> None:
        super().__init__(found)
        self.left_out = dict(left_out or {})

    def with_laws(self) -> Rivals:
        """Those that have a standard deviation; the others are left out."""
        lacking = {
            one.name: "too few observations to tell its error" for one in self if one.std is None
        }
        return Rivals((one for one in self if one.std is not None), self.left_out | lacking)

    def first_outputs(self) -> Rivals:
        """The predictions (p,) of the first output."""
        return Rivals((one.first_output() for one in self), self.left_out)


def positive(std: FloatArray, y: FloatArray) -> FloatArray:
    """Standard deviations (k,) that are not zero: rounding of the targets (n, k) at least."""
    least = np.maximum(1e-9 * np.abs(y).max(axis=0, initial=0.0), 1e-300)
    found: FloatArray = np.maximum(std, least)
    return found
