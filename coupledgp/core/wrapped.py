"""A Gaussian process of which the law of y is made: what it passes on, and what it keeps."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, Self

from numpy.typing import ArrayLike

from coupledgp.core.process import (
    Data,
    GaussianProcess,
    Points,
)
from coupledgp.core.units import Units
from coupledgp.ground.tensors import torch
from coupledgp.likelihoods.base import Likelihood
from coupledgp.linalg.system import SystemOptions
from coupledgp.random import FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class WrappedGP(GaussianProcess):
    """A law of y by a process of other observations, which it wraps.

    A class states how observations of y become those of the inner process (`inner_targets`), and
    the laws of y. What is passed on to the inner process, and data, files and devices, are here.

    Attributes
    ----------
    inner : GaussianProcess
        The process that is wrapped.
    rows : Data or None
        Observations of y; None if they were not kept.
    units : Units
        Those of the inner process.
    """

    inner: GaussianProcess
    rows: Data | None
    units: Units = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", self.inner.units)

    @abstractmethod
    def inner_targets(self, points: Points, targets: FloatArray) -> FloatArray:
        """Observations (n, k) of the inner process for those of y at its rows.

        Raises
        ------
        InvalidInputError
            An observation of y has none.
        """

    def inner_data(self, data: Data) -> Data:
        """The same observations for the inner process, in the same batches."""
        return data.mapped(self.inner_targets)

    def around(self, inner: GaussianProcess) -> Self:
        """The same law around another process of the same data."""
        return replace(self, inner=inner, rows=self.rows if has_data(inner) else None)

    def with_data(self, rows: Data) -> Self:
        """The process with the observations that it was given, where it did without them."""
        inner = self.inner
        if not has_data(inner):
            inner = inner.with_data(self.inner_data(rows))
        return replace(self, inner=inner, rows=rows)

    def row_keys(self, points: Points) -> Points:
        return self.inner.row_keys(points)

    @property
    def noise(self) -> Likelihood:
        """Law of observations of the inner process given f."""
        return self.inner.noise

    @property
    def hyperparameters(self) -> Any:
        """Hyperparameters of the inner process."""
        return self.inner.hyperparameters

    def summary(self) -> dict[str, Any]:
        """Hyperparameters of the inner process by name."""
        return self.inner.summary()

    @property
    def log_evidence(self) -> float:
        return self.inner.log_evidence

    def left_out_correlation(self, groups: ArrayLike, rows: ArrayLike) -> FloatArray | None:
        """Correlations (m, m) of the residuals of the inner process, each given other groups."""
        return self.inner.left_out_correlation(groups, rows)

    def prior(self, points: Points) -> FloatArray:
        """Prior covariance (p, p, k) of the inner process, units of y squared."""
        return self.inner.prior(points)

    def exact(self) -> Self:
        exact = self.inner.exact()
        return self if exact is self.inner else self.around(exact)

    def exact_by(self, solver: SystemOptions) -> Self:
        return self.around(self.inner.exact_by(solver))

    def conditioned(self, data: Data, *, renormalize: bool = False) -> Self:
        """Return the same law, about the inner process given other data."""
        inner = self.inner.conditioned(self.inner_data(data), renormalize=renormalize)
        return replace(self, inner=inner, rows=data)

    def updated(self, data: Data) -> Self:
        """Return the process given further data too; the law about the inner process stays."""
        inner = self.inner.updated(self.inner_data(data))
        return replace(
            self, inner=inner, rows=None if self.rows is None else self.rows.followed_by(data)
        )

    def redrawn(self, coupling: Any, size: int, seed: int) -> Self:
        return self.around(self.inner.redrawn(coupling, size, seed))

    def on(self, device: torch.device) -> Self:
        return replace(self, inner=self.inner.on(device))

    def without_data(self) -> Self:
        return self.around(self.inner.without_data())


def has_data(process: GaussianProcess) -> bool:
    """Whether a process of a table has kept its observations."""
    return getattr(process, "rows", None) is not None


def innermost(process: GaussianProcess) -> GaussianProcess:
    """The process that is in all wrappings of a process; itself where there are none."""
    return innermost(process.inner) if isinstance(process, WrappedGP) else process


def rewrapped(process: GaussianProcess, inner: GaussianProcess) -> GaussianProcess:
    """The wrappings of a process around another innermost one of the same data."""
    if not isinstance(process, WrappedGP):
        return inner
    return process.around(rewrapped(process.inner, inner))
