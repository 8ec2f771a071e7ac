"""Classes in an order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy import special

from coupledgp.errors import InvalidInputError
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.likelihoods.base import Likelihood
from coupledgp.random import FloatArray

# Least distance of cuts that shares of classes suggest.
LEAST_GAP = 1e-2


@dataclass(frozen=True)
class Ordinal(Likelihood):
    """Classes 0 to m in an order: `P(y <= j) = sigmoid(c_j - f)`, cuts `c_0 = 0 < c_1 < ...`.

    Where the cuts lie as a whole is the prior mean of f. With `h = c_y - f` and `l = c_(y-1) - f`,

        log p(y | f) = log sigmoid(h) + log sigmoid(-l) + log(1 - exp(l - h)) ,

    without the first term for the last class and without the last two for the first one.

    Attributes
    ----------
    gaps : tuple of float
        Distances `c_j - c_(j-1)` of the m cuts, positive; none for two classes.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.likelihoods import Ordinal
    >>> law = Ordinal(gaps=(2.0,))
    >>> law.n_classes, law.cuts.tolist()
    (3, [0.0, 2.0])
    >>> law.cdf(np.arange(3.0), np.zeros(3)).round(3).tolist()  # sigmoid of the cuts, then one
    [0.5, 0.881, 1.0]
    """

    gaps: tuple[Any, ...]

    is_discrete: ClassVar[bool] = True

    def __post_init__(self) -> None:
        wrong = [gap for gap in self.gaps if not (isinstance(gap, Tensor) or gap > 0)]
        if wrong:
            raise InvalidInputError(f"gaps: expected positive numbers, got {wrong[0]!r}")

    @classmethod
    def of(cls, y: FloatArray) -> Self:
        """The law of as many classes as targets (n, k) have, cuts by the shares of the classes.

        Raises
        ------
        InvalidInputError
            Targets are no whole numbers from zero on, or there is one class.
        """
        n_classes = int(y.max(initial=0)) + 1 if np.isfinite(y).all() else 1
        if n_classes < 2:
            raise InvalidInputError("y: expected classes 0, 1, ..., two at least, got one")
        found = cls((1.0,) * (n_classes - 2))
        found.check_targets(y)
        counts = np.bincount(y.astype(np.int64).ravel(), minlength=n_classes) + 0.5
        cuts = special.logit(np.cumsum(counts)[:-1] / counts.sum())
        return cls(tuple(np.maximum(np.diff(cuts), LEAST_GAP).tolist()))

    @property
    def cuts(self) -> FloatArray:
        """The cuts (m,), the first one zero."""
        return np.concatenate([[0.0], np.cumsum(np.asarray(self.gaps, dtype=np.float64))])

    @property
    def n_classes(self) -> int:
        """Number of classes, m + 1."""
        return len(self.gaps) + 2

    @property
    def parameters(self) -> dict[str, float]:
        return {f"gap_{place}": float(gap) for place, gap in enumerate(self.gaps, 1)}

    def with_parameters(self, values: Mapping[str, Any]) -> Self:
        """The law of other gaps, of any number of classes."""
        if list(values) != [f"gap_{place}" for place in range(1, len(values) + 1)]:
            raise InvalidInputError(
                f"likelihood: expected parameters gap_1, gap_2, ..., got {list(values)}"
            )
        return type(self)(tuple(values.values()))

    def log_density(self, y: Tensor, f: Tensor) -> Tensor:
        gaps = [torch.as_tensor(gap, dtype=f.dtype) for gap in self.gaps]
        gap = torch.stack([torch.ones(()).to(f), *gaps, torch.ones(()).to(f)])
        cuts = torch.cat([torch.zeros(1).to(f), gap[1:-1].cumsum(0)])
        number, last = y.to(torch.int64), self.n_classes - 1
        high, low = cuts[number.clamp(max=last - 1)] - f, cuts[number.clamp(min=1) - 1] - f
        below = torch.where(number < last, -torch.nn.functional.softplus(-high), 0.0)
        above = torch.where(number > 0, -torch.nn.functional.softplus(low), 0.0)
        inside = (number > 0) & (number < last)
        return below + above + torch.where(inside, torch.log(-torch.expm1(-gap[number])), 0.0)

    def moments(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of the number of the class, a sum of steps at the cuts."""
        above = special.expit(np.asarray(f)[..., None] - self.cuts)
        below = special.expit(self.cuts - np.asarray(f)[..., None])
        # Covariances of steps at j < m are P(y > m) P(y <= j): sums of positive terms.
        further = np.cumsum(above[..., ::-1], axis=-1)[..., ::-1]
        return above.sum(-1), (below * (2 * further - above)).sum(-1)

    def cdf(self, y: FloatArray, f: FloatArray) -> FloatArray:
        number = np.floor(y)
        cuts = self.cuts[np.clip(number, 0, self.n_classes - 2).astype(np.int64)]
        inside = special.expit(cuts - f)
        return np.where(number < 0, 0.0, np.where(number < self.n_classes - 1, inside, 1.0))

    def draw(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """The number of cuts below `f + e`, e logistic."""
        values = f + rng.logistic(size=np.shape(f))
        return np.searchsorted(self.cuts, values).astype(np.float64)

    def check_targets(self, y: FloatArray) -> FloatArray:
        known = np.isin(y, np.arange(self.n_classes))
        if not known.all():
            raise InvalidInputError(
                f"y: expected classes 0 to {self.n_classes - 1}, got {y[~known][0]:g}"
            )
        return y

    def marginal_probabilities(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Chances (p, k, m + 1) of the classes, where f has means and variances (p, k)."""
        cuts = np.broadcast_to(np.arange(self.n_classes - 1.0), (*mean.shape, self.n_classes - 1))
        below = self.marginal_cdf(cuts, mean, variance)
        return np.diff(below, axis=-1, prepend=0.0, append=1.0)
