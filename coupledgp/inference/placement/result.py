"""Chosen places with their gains, and checks of the request for them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.ground.notebook import ExplainedChoice
from coupledgp.ground.validation import check_choice, check_positive_int
from coupledgp.inference.placement.greedy import GreedySet
from coupledgp.inference.placement.objectives import CRITERIA, Criterion
from coupledgp.random import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Placement(ExplainedChoice):
    """Places for the next sensors, in the order of a greedy search.

    Attributes
    ----------
    nodes : array or list (k,)
        The places: labels of nodes, or their numbers.
    gains : FloatArray (k,)
        Gain of each place given the places before it, in `unit`.
    criterion, unit : str
        The criterion, and the unit of gains.
    variance : FloatArray (k + 1,)
        Mean variance of f over the places of interest, in units of y squared, before the first and
        after each of the sensors.
    share_of_optimum : float
        Lower bound of the ratio of the summed gains to those of the best set of k places; at least
        `1 - 1/e` for `"variance"`. For `"mutual-information"` it holds as long as the information
        rises with every sensor. NaN for `"total-variance"`, which has no such bound.
    n_evaluations : int
        Number of gains that were evaluated.
    reason : str
        How gains were computed, and of how many candidates.
    """

    nodes: Any
    gains: FloatArray
    criterion: Criterion
    unit: str
    variance: FloatArray
    share_of_optimum: float
    n_evaluations: int
    reason: str

    @classmethod
    def of(
        cls, chosen: GreedySet, nodes: Any, criterion: Criterion, variance: FloatArray, reason: str
    ) -> Self:
        """The placement of a greedy search."""
        total = float(chosen.gains.sum())
        share = np.nan if np.isinf(chosen.bound) else total / max(chosen.bound, total, 1e-300)
        unit = "units of y squared" if criterion == "total-variance" else "nats"
        return cls(
            nodes, chosen.gains, criterion, unit, variance, share, chosen.n_evaluations, reason
        )

    def with_nodes(self, nodes: Any) -> Self:
        """The same places under other names."""
        return replace(self, nodes=nodes)

    def __len__(self) -> int:
        return len(self.gains)

    def explain(self) -> str:
        """The gain of each place, a line each, and the method of the search."""
        lines = [f"{self.criterion}: {self.reason}"]
        lines += [
            f"{k + 1}. {node}: {gain:.4g} {self.unit}, mean variance {left:.4g}"
            for k, (node, gain, left) in enumerate(
                zip(list(self.nodes), self.gains, self.variance[1:], strict=True)
            )
        ]
        if np.isfinite(self.share_of_optimum):
            lines.append(f"at least {self.share_of_optimum:.0%} of what the best places would add")
        return "\n".join(lines)


def check_request(k: Any, criterion: Any, n_candidates: int) -> tuple[int, Criterion]:
    """Number of sensors and criterion; invalid ones are refused.

    Raises
    ------
    InvalidInputError
        k is no whole number from one to the number of candidates, or there is no such criterion.
    """
    check_choice(criterion, CRITERIA, "criterion")
    count = check_positive_int(k, "k")
    if count > n_candidates:
        raise InvalidInputError(f"k: expected at most {n_candidates}, the candidates, got {count}")
    return count, criterion


def distinct(numbers: IntArray, name: str) -> IntArray:
    """Numbers (m,) in rising order; an empty list or a repeated number is refused."""
    found = np.unique(numbers)
    if not found.size:
        raise InvalidInputError(f"{name}: expected at least one place, got none")
    if found.size < numbers.size:
        raise InvalidInputError(
            f"{name}: expected distinct places, got {numbers.size - found.size} of {numbers.size} "
            "more than once"
        )
    return found
