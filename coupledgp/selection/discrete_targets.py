"""Targets of few distinct values, such as counts, classes and ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coupledgp.random import FloatArray

# Most distinct values, fewest rows for each of them, and fewest rows, of targets that are discrete.
MOST_VALUES, ROWS_A_VALUE, LEAST_ROWS = 100, 10, 20
# Most values that are likely to be ranks or classes.
MOST_RANKS = 10


@dataclass(frozen=True)
class DiscreteTargets:
    """Few values that all targets of an output take.

    Attributes
    ----------
    n_values : int
        Number of distinct values, two or more.
    whole : bool
        Whether all are whole numbers.
    least, most : float
        The least and the greatest value.
    """

    n_values: int
    whole: bool
    least: float
    most: float

    @classmethod
    def of(cls, targets: FloatArray) -> DiscreteTargets | None:
        """The values of targets (n,); None where they are many, or all the same."""
        if len(targets) < LEAST_ROWS:
            return None
        values = np.unique(targets)
        if not 2 <= len(values) <= min(MOST_VALUES, len(targets) / ROWS_A_VALUE):
            return None
        whole = bool((values == np.round(values)).all())
        return cls(len(values), whole, float(values[0]), float(values[-1]))

    @property
    def laws(self) -> tuple[str, ...]:
        """Models whose law is one of such values alone, each with the targets it is for."""
        if self.n_values == 2:
            return ("GPClassifier gives the chances of two values",)
        found = []
        if self.whole and self.least >= 0:
            found.append('likelihood="poisson" or "negative-binomial" is for counts')
        if self.n_values <= MOST_RANKS:
            found.append("GPClassifier is for numbers that name classes")
        return tuple(found)

    def explain(self, name: str = "y") -> str:
        """What follows for a Gaussian law, and laws to take instead, in words."""
        kind = "distinct whole numbers" if self.whole else "distinct values"
        laws = "; ".join(self.laws)
        alone = "" if name == "y" else f" for {name} alone"
        return (
            f"{name} has {self.n_values} {kind}: a Gaussian law puts chance between them, so that "
            "its NLPD does not compare with that of a law of the values alone"
        ) + (f". Fit such a law{alone}: {laws}" if laws else "")


def discrete_outputs(targets: FloatArray) -> dict[str, DiscreteTargets]:
    """The outputs of targets (n, k) that are discrete, by their names in messages."""
    single = targets.shape[1] == 1
    found = {
        "y" if single else f"y[{k}]": DiscreteTargets.of(column)
        for k, column in enumerate(targets.T)
    }
    return {name: one for name, one in found.items() if one is not None}
