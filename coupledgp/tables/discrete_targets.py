"""Targets of few distinct values, such as counts, classes and ranks.

The power of chances of classes, by labels that are left out.

One function for each of K > 2 classes against all others gives chances that are not sure enough
where classes exclude each other. The power a of

    P(class c) = P(y_c = 1)^a / sum_k P(y_k = 1)^a

is that under which labels that are left out have the greatest chance, with a normal prior of
standard deviation one for its logarithm. Two classes keep their chances, which are calibrated: on
tables a power by labels left out made the log loss larger, by .002 in the mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from coupledgp.core.latent import LatentGP
from coupledgp.errors import CoupledGPError
from coupledgp.likelihoods.counts import class_log_chances
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


# Labels that are left out at most, and the largest power and one over it.
MOST_LABELS, MOST_POWER = 1000, 5.0


def left_out_power(process: LatentGP, seed: int) -> float:
    """Power of the chances of classes whose indicators are observations of a process.

    Labels are left out one at a time, at most `MOST_LABELS` of them at random. It is one for two
    classes, and where laws of what is left out are not at hand.
    """
    if len(process.functions) == 1:
        return 1.0
    targets, n = process.rows.targets, len(process.rows)
    rows = np.sort(np.random.default_rng([seed, 11]).permutation(n)[:MOST_LABELS])
    try:
        law = process.left_out_marginals(np.arange(n), rows)
    except CoupledGPError:
        return 1.0
    zero, one = (
        law.likelihood.marginal_log_density(np.full_like(law.mean, y), law.mean, law.variance)
        for y in (0.0, 1.0)
    )
    codes = targets[rows].argmax(axis=1)
    counts = np.ones(n) if process.rows.counts is None else process.rows.counts
    weights, places = counts[rows], np.arange(len(rows))

    def loss(log_power: float) -> float:
        chances = class_log_chances(zero, one, float(np.exp(log_power)))
        return float(-(weights * chances[places, codes]).sum() + 0.5 * log_power**2)

    bound = float(np.log(MOST_POWER))
    found = minimize_scalar(loss, bounds=(-bound, bound), method="bounded")
    return float(np.exp(found.x))
