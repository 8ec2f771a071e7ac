"""Shares between zero and one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from coupledgp.errors import InvalidInputError
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.likelihoods.base import Likelihood
from coupledgp.random import FloatArray

# Size of f beyond which a share stays as it is.
MOST_LOGIT = 30.0


@dataclass(frozen=True)
class Beta(Likelihood):
    """`y ~ Beta(mu c, (1 - mu) c)`, of mean `mu = sigmoid(f)` and variance `mu (1 - mu) / (c + 1)`.

    `log p(y | f) = log Gamma(c) - log Gamma(mu c) - log Gamma((1 - mu) c) + (mu c - 1) log y
    + ((1 - mu) c - 1) log(1 - y)`, c the concentration. It need not be log-concave.

    Attributes
    ----------
    concentration : float
        The concentration c.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.likelihoods import Beta
    >>> Beta().moments(np.array([0.0]))[0].tolist()  # the mean
    [0.5]
    """

    concentration: float = 1.0

    bounds: ClassVar = {"concentration": (0.0, 1e8)}
    is_log_concave: ClassVar[bool] = False

    def log_density(self, y: Tensor, f: Tensor) -> Tensor:
        whole = torch.as_tensor(self.concentration, dtype=f.dtype)
        logit = f.clamp(-MOST_LOGIT, MOST_LOGIT)
        a, b = whole * torch.sigmoid(logit), whole * torch.sigmoid(-logit)
        constant = torch.lgamma(whole) - torch.lgamma(a) - torch.lgamma(b)
        return constant + (a - 1) * y.log() + (b - 1) * torch.log1p(-y)

    def moments(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, rest = special.expit(f), special.expit(-f)
        return mean, mean * rest / (self.concentration + 1)

    def cdf(self, y: FloatArray, f: FloatArray) -> FloatArray:
        a, b = (self.concentration * special.expit(f), self.concentration * special.expit(-f))
        return np.asarray(special.betainc(a, b, np.clip(y, 0.0, 1.0)))

    def draw(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        a, b = (self.concentration * special.expit(f), self.concentration * special.expit(-f))
        eps = np.finfo(np.float64).eps
        return np.clip(rng.beta(a, b), eps, 1 - eps)

    def check_targets(self, y: FloatArray) -> FloatArray:
        inside = (y > 0) & (y < 1)
        if not inside.all():
            raise InvalidInputError(f"y: expected shares between 0 and 1, got {y[~inside][0]:g}")
        return y
