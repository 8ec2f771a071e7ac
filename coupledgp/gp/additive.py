"""The exact process of a kernel that is a sum of parts, dense or by iterative solves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from coupledgp.core.codec import check_shapes, stored
from coupledgp.errors import ModelFileError
from coupledgp.gp.dense_prior import DensePrior, Loadings, parts_loadings
from coupledgp.gp.local_prior import (
    LocalHyperparameters,
    LocalPrior,
)
from coupledgp.gp.protocol import Points
from coupledgp.gp.tables import Box, Tables
from coupledgp.metrics import Metric
from coupledgp.random import FloatArray

Process = TypeVar("Process")


@stored
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
    """

    parts: LocalPrior
    tables: Tables | None = field(default=None, metadata={"stored": False})
    box: Box | None = None

    def read_back(self) -> AdditivePrior:
        """The prior of a file, which has the range of its rows."""
        if self.box is None:
            raise ModelFileError("box: expected the range of the rows, got none")
        check_shapes(self.box, low=self.parts.center.shape, high=self.parts.center.shape)
        return self

    def check_points(self, points: Points) -> None:
        check_shapes(self.parts, center=points.shape[1:])

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
