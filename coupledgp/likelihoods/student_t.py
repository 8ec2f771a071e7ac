"""Observations with heavy tails."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from scipy import stats

from coupledgp.ground.tensors import Tensor, torch
from coupledgp.likelihoods.base import Likelihood
from coupledgp.random import FloatArray


@dataclass(frozen=True)
class StudentT(Likelihood):
    """`y = f + scale * t`, t of Student's law with `dof` degrees of freedom.

    `log p(y | f) = log c - (dof + 1) / 2 log(1 + r^2 / dof)`, `r = (y - f) / scale`. It is not
    log-concave: observations further than `scale sqrt(dof)` from f have a negative curvature.

    Attributes
    ----------
    scale : float
        Scale of the noise, in units of f.
    dof : float
        Degrees of freedom, above two, so that observations have a variance.

    Examples
    --------
    >>> import torch
    >>> from coupledgp.likelihoods import Gaussian, StudentT
    >>> outlier, f = torch.tensor(10.0), torch.tensor(0.0)
    >>> [round(law.site(outlier, f).slope.item(), 3) for law in (Gaussian(1.0), StudentT(dof=4.0))]
    [10.0, 0.481]
    """

    scale: float = 1.0
    dof: float = 4.0

    bounds: ClassVar = {"scale": (0.0, math.inf), "dof": (2.0, 1e6)}
    is_log_concave: ClassVar[bool] = False

    def log_density(self, y: Tensor, f: Tensor) -> Tensor:
        scale, dof = (torch.as_tensor(own, dtype=f.dtype) for own in (self.scale, self.dof))
        constant = (
            torch.lgamma((dof + 1) / 2)
            - torch.lgamma(dof / 2)
            - 0.5 * torch.log(math.pi * dof)
            - scale.log()
        )
        return constant - (dof + 1) / 2 * torch.log1p(((y - f) / scale).square() / dof)

    def moments(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        variance = self.scale**2 * self.dof / (self.dof - 2)
        return f, np.full_like(f, variance)

    def cdf(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return np.asarray(stats.t.cdf(y, self.dof, f, self.scale))

    def center(self, y: FloatArray, exposure: FloatArray | None = None) -> FloatArray:
        """Medians (k,) of observations (n, k)."""
        return np.median(y, axis=0)

    def unit(self, y: FloatArray) -> FloatArray:
        """Standard deviations (k,) of observations (n, k); one where they are all the same."""
        spread = y.std(axis=0)
        return np.where(spread > np.finfo(float).eps * np.abs(y).max(axis=0), spread, 1.0)

    def rescaled(self, factor: float) -> Self:
        return replace(self, scale=factor * self.scale)

    def draw(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        return f + self.scale * rng.standard_t(self.dof, np.shape(f))
