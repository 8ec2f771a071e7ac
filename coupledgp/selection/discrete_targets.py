"""Targets of few distinct values, such as counts, classes and ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coupledgp.random import FloatArray

# Most distinct values, fewest rows for each of them, and fewest rows, of targets that are discrete.
MOST_VALUES, ROWS_A_VALUE, LEAST_ROWS = 100, 10, 20


@dataclass(frozen=True)
class DiscreteTargets:
    """Few values that all targets of an output take.

    Attributes
    ----------
    n_values : int
        Number of distinct values, two or more.
    whole : bool
        Whether all are whole numbers.
    """

    n_values: int
    whole: bool

    @classmethod
    def of(cls, targets: FloatArray) -> DiscreteTargets | None:
        """The values of targets (n,); None where they are many, or all the same."""
        if len(targets) < LEAST_ROWS:
            return None
        values = np.unique(targets)
        if not 2 <= len(values) <= min(MOST_VALUES, len(targets) / ROWS_A_VALUE):
            return None
        whole = bool((values == np.round(values)).all())
        return cls(len(values), whole)

    def explain(self, name: str = "y") -> str:
        """What follows for a Gaussian law, in words."""
        kind = "distinct whole numbers" if self.whole else "distinct values"
        return (
            f"{name} has {self.n_values} {kind}: a Gaussian law puts chance between them, so that "
            "its NLPD does not compare with that of a law of the values alone"
        )


def discrete_outputs(targets: FloatArray) -> dict[str, DiscreteTargets]:
    """The outputs of targets (n, k) that are discrete, by their names in messages."""
    single = targets.shape[1] == 1
    found = {
        "y" if single else f"y[{k}]": DiscreteTargets.of(column)
        for k, column in enumerate(targets.T)
    }
    return {name: one for name, one in found.items() if one is not None}
