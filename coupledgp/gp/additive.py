"""The exact process of a kernel that is a sum of parts, dense or by iterative solves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from coupledgp.gp.dense_prior import DensePrior, Loadings, parts_loadings
from coupledgp.gp.exact import ExactGP
from coupledgp.gp.local_prior import (
    LocalHyperparameters,
    LocalPrior,
    prior_from_state,
    prior_state,
)
from coupledgp.gp.protocol import Arrays, Data, Header, Points
from coupledgp.gp.schema import Entries
from coupledgp.gp.state import data_from
from coupledgp.gp.tables import Box, Tables
from coupledgp.gp.units import Units
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.inference.dense.system import CovarianceSystem
from coupledgp.linalg.system import SystemOptions
from coupledgp.metrics import Metric
from coupledgp.random import FloatArray

Process = TypeVar("Process")
# Entries of the covariance that are formed at once: 64 MiB, and a few temporaries of the size.
BLOCK_ENTRIES = 2**23


@dataclass(frozen=True, eq=False)
class AdditivePrior(DensePrior):
    """The prior of a local model with the kernel that its features estimate.

    Attributes
    ----------
    parts : LocalPrior
        The parts of the sum.
    tables : Tables or None
        Tables that several priors share, see `sharing_tables`.
    box : Box or None
        Range of the standardised rows that it is given, by which its trend is bounded.
    solver : SystemOptions or None
        How equations in the covariance of rows are solved by iteration; None: by a factor.
    """

    parts: LocalPrior
    tables: Tables | None = None
    box: Box | None = None
    solver: SystemOptions | None = None

    def bounded_by(self, points: Points) -> AdditivePrior:
        """The prior whose trend is bounded by the range of rows (n, d)."""
        return replace(self, box=Box.of(self.parts.standardised(points)))

    @property
    def _own_tables(self) -> Tables:
        return self.tables or Tables(self.parts.center, self.parts.spread, self.box)

    @property
    def hyperparameters(self) -> LocalHyperparameters:
        """Hyperparameters of the parts."""
        return self.parts.hyperparameters

    @property
    def process_class(self) -> type[ExactGP]:
        return ExactAdditiveGP

    def covariance(self, a: Points, b: Points) -> FloatArray:
        """Prior covariance (n, p) of f between rows a (n, d) and b (p, d)."""
        return self.parts.covariance(a, b, self._own_tables)

    def variance(self, points: Points) -> FloatArray:
        return self.parts.variance(points, self._own_tables)

    @property
    def is_rough(self) -> bool:
        return self.parts.is_rough

    def loadings(self, points: Points, rng: np.random.Generator) -> Loadings | None:
        spectrum = self.parts.structure.spectrum
        if spectrum is not None and spectrum.metric != Metric.L2:
            return None
        return parts_loadings(self.parts, self._own_tables.box, rng)

    def extent(self, points: Points) -> float:
        """Largest coordinate of rows (n, d), in lengthscales of the local part."""
        tables = self.tables or Tables(self.parts.center, self.parts.spread)
        return self.parts.extent_of(tables.standardised(points))

    def problem(self, data: Data, units: Units) -> AdditiveProblem:
        return AdditiveProblem.of(self.bounded_by(data.points), data, units)


@dataclass(frozen=True, eq=False, repr=False)
class ExactAdditiveGP(ExactGP):
    """A sum of parts given data, by one Cholesky factor of its covariance."""

    def state(self) -> tuple[Header, Arrays]:
        prior = self.dense_prior
        assert isinstance(prior, AdditivePrior)
        header, arrays = self._completed(*prior_state(prior.parts))
        return header | {"process": type(self).__name__}, arrays

    @classmethod
    def from_state(cls, header: Header, arrays: Arrays) -> ExactAdditiveGP:
        """Put the process of `state` together again."""
        entries = Entries(header, arrays)
        prior, rows = AdditivePrior(prior_from_state(entries)), data_from(entries)
        return cls.restored(prior.bounded_by(rows.points), entries)


def sharing_tables(processes: Sequence[Process]) -> list[Process]:
    """The processes with one store of tables for sums of parts that standardise columns alike.

    Their answers do not change. The shared store lives as long as the processes do.
    """
    priors = [getattr(process, "dense_prior", None) for process in processes]
    known = [prior for prior in priors if isinstance(prior, AdditivePrior)]
    if not known:
        return list(processes)
    first = known[0]
    for prior in known[1:]:
        if not all(map(np.array_equal, _standardisation(prior), _standardisation(first))):
            return list(processes)
    tables = first._own_tables
    return [
        _with_tables(process, tables) if isinstance(prior, AdditivePrior) else process
        for process, prior in zip(processes, priors, strict=True)
    ]


def _with_tables(process: Any, tables: Tables) -> Any:
    """The process with other tables, and with its own factor, which stays known to it."""
    shared = replace(process, dense_prior=replace(process.dense_prior, tables=tables))
    vars(shared)["row_inverse"] = process.row_inverse
    return shared


def _standardisation(prior: AdditivePrior) -> tuple[FloatArray, ...]:
    """Centers and spreads (d,) of the columns, and the ends (d,) of the prior's box, if any."""
    parts, box = prior.parts, prior.box
    return (parts.center, parts.spread, *(() if box is None else (box.low, box.high)))


@dataclass(frozen=True, eq=False)
class AdditiveProblem:
    """Data and a prior whose covariances are formed in blocks.

    Attributes
    ----------
    prior : DensePrior
        The prior.
    data : Data
        Observations.
    targets : FloatArray (n, k)
        Normalised targets.
    offset, scale : FloatArray (k,)
        Units of the targets, `y = offset + scale * target`.
    """

    prior: DensePrior
    data: Data
    targets: FloatArray
    offset: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, prior: DensePrior, data: Data, units: Units) -> AdditiveProblem:
        """State a prior and data in given units of the targets."""
        return cls(prior, data, units.normalized(data.targets), units.offset, units.scale)

    def system(self, options: SystemOptions) -> AdditiveSystem:
        """Return the equations in the covariance of the data."""
        return AdditiveSystem(self, options)


class AdditiveSystem(CovarianceSystem):
    """`A = K + s diag(r)` with K a sum of kernels, formed anew in blocks for each product.

    Parameters
    ----------
    problem
        Data and prior.
    options
        Preconditioner; the precision is always double.
    """

    def __init__(self, problem: AdditiveProblem, options: SystemOptions) -> None:
        double = replace(options, dtype="float64")
        super().__init__(problem.targets, problem.prior.noise, problem.data.relative_noise, double)
        self.problem = problem

    @property
    def _points(self) -> Points:
        return self.problem.data.points

    def prior(self, points: Points) -> FloatArray:
        return self.problem.prior.covariance(points, points)

    def cross(self, points: Points) -> FloatArray:
        return self.problem.prior.covariance(self._points, points)

    def prior_variances(self) -> FloatArray:
        return self.problem.prior.variance(self._points)

    def prior_columns(self, pivots: NDArray[np.int64]) -> FloatArray:
        return self.cross(self._points[pivots])

    def product(self, V: Tensor) -> Tensor:
        out, weighted = self.noise * V, self.root * V
        step = max(BLOCK_ENTRIES // self.n_rows, 16)
        for start in range(0, self.n_rows, step):
            own = slice(start, start + step)
            block = torch.as_tensor(self.problem.prior.covariance(self._points[own], self._points))
            out[own] += self.root[own] * (block @ weighted)
        return out

    def bytes_needed(self, n_columns: int) -> float:
        return super().bytes_needed(n_columns) + 4 * 8 * max(BLOCK_ENTRIES, 16 * self.n_rows)
