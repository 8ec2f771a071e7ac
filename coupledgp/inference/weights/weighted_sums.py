"""Sums over rows that differ in noise or count more than once, stored in `Moments`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from coupledgp.ground.tensors import Tensor


@dataclass(frozen=True, eq=False)
class WeightedSums:
    """Sums over rows of relative noise r and count c, stored in `Moments`.

    Attributes
    ----------
    precision : float
        Sum of `c / r`.
    count : float
        Sum of c.
    log_noise : float
        Sum of `c log r`.
    target_sum, target_square : Tensor (k,)
        Sums of `c (y - offset)` and of `c (y - offset)^2`.
    """

    precision: float
    count: float
    log_noise: float
    target_sum: Tensor
    target_square: Tensor

    def added(self, weights: Tensor, centred: Tensor) -> WeightedSums:
        """The sums with rows of weights (b, 2) and targets minus the offset (b, k)."""
        noise, counts = weights[:, 0], weights[:, 1]
        return self.merge(
            WeightedSums(
                float((counts / noise).sum()),
                float(counts.sum()),
                float((counts * noise.log()).sum()),
                counts @ centred,
                counts @ centred.square(),
            )
        )

    def merge(self, other: WeightedSums) -> WeightedSums:
        """The sums over the rows of both."""
        mine, its = vars(self), vars(other)
        return WeightedSums(**{name: mine[name] + its[name] for name in mine})

    def copied(self) -> WeightedSums:
        """The same sums in tensors of their own."""
        sums = {name: getattr(self, name).clone() for name in ("target_sum", "target_square")}
        return replace(self, **sums)


def row_factors(weights: Tensor) -> Tensor:
    """`sqrt(c / r)` as a column (b, 1), for weights (b, 2)."""
    return (weights[:, 1:] / weights[:, :1]).sqrt()
