"""How much scores flatter a model whose hyperparameters saw the rows that are left out.

With p hyperparameters fitted to n rows the NLPD of rows left out is better than that of new data by
one to two times `p / n` nats per point where that is below a twentieth, by more where it is above:
`benchmarks/left_out_optimism.py` measures it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from coupledgp.gp.local import LocalGP
from coupledgp.gp.protocol import GaussianProcess
from coupledgp.gp.weight_space import WeightSpaceGP

# Hyperparameters per row above which a reader is warned.
MANY = 0.05


@dataclass(frozen=True)
class Optimism:
    """Numbers of hyperparameters and of targets.

    Attributes
    ----------
    n_hyperparameters, n_targets : int
    """

    n_hyperparameters: int
    n_targets: int

    @property
    def nats(self) -> float:
        """Least amount, nats per point, by which the NLPD is better than that of new data."""
        return self.n_hyperparameters / self.n_targets

    def remark(self) -> str:
        """What was kept, and what that is worth."""
        return (
            f"The {self.n_hyperparameters} hyperparameters are those of all {self.n_targets} "
            "targets. Where they were fitted to these, the NLPD is better than that of new data by "
            f"one to two times their ratio, {self.nats:.1g} nats per point."
        )

    def warning(self) -> str:
        """What a reader should doubt; empty where the hyperparameters are few."""
        if self.nats <= MANY:
            return ""
        return (
            f"{self.n_hyperparameters} hyperparameters of {self.n_targets} targets: if they were "
            f"fitted to these, what is left out flatters the model, by {self.nats:.1g} nats per "
            "point or more. Score it on new rows."
        )


def optimism(process: GaussianProcess) -> Optimism:
    """Numbers of the hyperparameters of a process, or its first member, and of its targets."""
    first = process.first
    count = _count(first.hyperparameters)
    if isinstance(first, LocalGP):
        count = first.local_prior.vector.size
    elif isinstance(first, WeightSpaceGP) and first.feature_prior.is_fitted:
        count += first.feature_map.n_frequencies * first.feature_map.dim
    return Optimism(count, process.data.targets.size)


def _count(value: Any) -> int:
    """Different numbers in an object and in its parts."""
    if is_dataclass(value):
        return sum(_count(getattr(value, item.name)) for item in fields(value))
    if isinstance(value, float | np.floating):
        return 1
    if isinstance(value, np.ndarray):
        return int(np.unique(value).size)
    own = getattr(value, "__dict__", None)
    return sum(_count(part) for part in own.values()) if own else 0
