"""Test rows beyond the training rows, where the kernel alone decides what is predicted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coupledgp.diagnostics.scoring.scores import point_nlpd
from coupledgp.random import FloatArray

# Share of a column's range by which a row lies beyond it, and rows for each one beyond from which
# they are many.
MARGIN, MANY = 0.1, 20
# Ratio of the RMSE beyond to that inside from which rows beyond are what is wrong.
WORSE = 1.5


@dataclass(frozen=True)
class Reach:
    """How many test rows lie beyond the box of the training rows.

    Attributes
    ----------
    n_beyond, n_points : int
        Rows beyond the box by a tenth of its side in some column, and all.
    column : str
        The column in which most of them do.
    rmse_beyond, rmse_inside : float or None
        Root mean squared errors of both in units of y; None of no rows.
    gain : float
        Decrease of the mean NLPD if rows beyond were predicted as those inside are, nats per point;
        zero where there are not both.
    """

    n_beyond: int
    n_points: int
    column: str
    rmse_beyond: float | None
    rmse_inside: float | None
    gain: float = 0.0

    @classmethod
    def of(
        cls,
        known: FloatArray,
        points: FloatArray,
        errors: FloatArray,
        names: tuple[str, ...] = (),
        std: FloatArray | None = None,
    ) -> Reach:
        """Reach of test rows (p, d) with errors (p, k) from training rows (n, d).

        `std` are stated standard deviations (p, k); None: no gain is known.
        """
        low, high = known.min(axis=0), known.max(axis=0)
        margin = MARGIN * (high - low)
        outside = (points < low - margin) | (points > high + margin)
        beyond = outside.any(axis=1)
        most = int(outside.sum(axis=0).argmax()) if points.shape[1] else 0
        name = names[most] if len(names) == points.shape[1] > 0 else f"input {most + 1}"
        far, near = (
            float(np.sqrt(np.mean(np.square(errors[one])))) if one.any() else None
            for one in (beyond, ~beyond)
        )
        gain = 0.0
        if std is not None and beyond.any() and not beyond.all():
            losses = point_nlpd(errors, np.zeros_like(errors), np.maximum(std, 1e-300)).mean(axis=1)
            gain = float(losses.mean() - losses[~beyond].mean())
        return cls(int(beyond.sum()), len(points), name, far, near, gain)

    @property
    def is_far(self) -> bool:
        """Whether more than one in twenty rows lies beyond."""
        return MANY * self.n_beyond > self.n_points

    @property
    def is_fault(self) -> bool:
        """Whether rows beyond are many, and predicted much worse than the others."""
        beyond, inside = self.rmse_beyond, self.rmse_inside
        return self.is_far and inside is not None and (beyond or 0.0) > WORSE * inside

    def text(self) -> str:
        """The rows beyond in a sentence."""
        inside = ""
        if self.n_beyond < self.n_points:
            inside = f", {self.rmse_inside:.3g} at the others"
        return (
            f"{self.n_beyond} of {self.n_points} test rows lie beyond the training rows, most in "
            f"column `{self.column}`: there the kernel alone decides, and the RMSE is "
            f"{self.rmse_beyond:.3g}{inside}."
        )
