"""Kernels of fields on surfaces and networks, as a search under a likelihood takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from coupledgp.gp.fields import FieldGP, FieldHyperparameters, FieldPrior
from coupledgp.gp.precise_fields import PreciseFieldGP
from coupledgp.gp.precise_prior import PrecisePrior
from coupledgp.gp.protocol import Data, Points
from coupledgp.gp.units import Units
from coupledgp.inference.fields.covariance import FieldCovariance
from coupledgp.kernels.fields import FieldKernel, WhittleMatern
from coupledgp.random import FloatArray
from coupledgp.search.fields.grid import SHARES, FieldGrid
from coupledgp.search.fields.precise import PRECISE_ALPHAS
from coupledgp.search.fields.routes import precise_kernel
from coupledgp.search.latent_places import STEPS, KernelsOfPlaces

# Prior variance of the constant over the square of the unit of f, whose mean is that of the data.
CONSTANT_VARIANCE = 4.0
# Observations up to which posteriors have a dense factor; more need a sparse precision.
DENSE_ROWS, PRECISE_ROWS = 2000, 50_000
# Seconds of a factorisation, a vertex of the operator, of an entry of columns, and of a row's site.
FACTOR_SECONDS, COLUMN_SECONDS, ROW_SECONDS = 2e-5, 1e-7, 2e-5


@dataclass(frozen=True, eq=False)
class KernelsOfFields(KernelsOfPlaces):
    """Field kernels of some families, and sums of the best ones.

    Attributes
    ----------
    covariance : FieldCovariance
        Covariances on the operator.
    families : sequence of FieldKernel
        Kernels whose parameters may be free.
    is_precise : bool
        Whether posteriors are by a sparse precision, of a kernel along the surface alone.
    """

    covariance: FieldCovariance
    families: Sequence[FieldKernel]
    is_precise: bool
    _grams: dict[Any, FloatArray] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        covariance: FieldCovariance,
        families: Sequence[FieldKernel],
        route: str,
        n_rows: int,
    ) -> KernelsOfFields:
        """The kernels for so many observations, by the route that is asked for or suits them."""
        precise = precise_kernel(families, covariance.operator.dimension)
        wanted = route == "precision" or (
            route == "auto" and n_rows > DENSE_ROWS and precise is not None
        )
        if not wanted or precise is None:
            return cls(covariance, families, False)
        # Only kernels along the surface have a precision; features stand for those of position.
        assert precise.surface is not None
        range_, own = precise.surface.range_, precise.surface.alpha
        alphas = PRECISE_ALPHAS[covariance.operator.dimension] if own is None else (own,)
        return cls(covariance, [FieldKernel(WhittleMatern(range_, a)) for a in alphas], True)

    @property
    def most_rows(self) -> int:  # type: ignore[override]
        """Observations up to which posteriors are found, by the route."""
        return PRECISE_ROWS if self.is_precise else DENSE_ROWS

    @property
    def constant(self) -> float:
        return CONSTANT_VARIANCE

    def kernels(self, points: Points) -> Sequence[FieldKernel]:
        grid = FieldGrid(self.covariance, points, np.zeros((len(points), 1)))
        alone = [family for family in self.families if family.family != "sum"]
        for family in self._sums:
            alone += [FieldKernel(family.surface), FieldKernel(None, family.position)]
        given = [f for f in self.families if f.family == "sum" and _is_given(f)]
        parts = dict.fromkeys(alone)
        return [*given, *(kernel for family in parts for kernel in grid.kernels(family))]

    @property
    def _sums(self) -> list[FieldKernel]:
        return [own for own in self.families if own.family == "sum" and not _is_given(own)]

    def is_asked(self, kernel: FieldKernel) -> bool:
        return kernel.family in {own.family for own in self.families}

    def joined(self, ranked: Sequence[FieldKernel]) -> Sequence[FieldKernel]:
        sums = self._sums
        surfaces = [k.surface for k in ranked if k.family == "surface"]
        positions = [k.position for k in ranked if k.family == "position"]
        if not (sums and surfaces and positions):
            return ()
        shares = SHARES if sums[0].share is None else (sums[0].share,)
        return [FieldKernel(surfaces[0], positions[0], share) for share in shares]

    def scaled(self, kernel: FieldKernel, factor: float) -> FieldKernel:
        surface, position = kernel.surface, kernel.position
        free = [f for f in self.families if f.family == kernel.family] or list(self.families)
        if surface is not None and all(f.surface and f.surface.range_ is None for f in free):
            assert surface.range_ is not None
            return replace(kernel, surface=WhittleMatern(factor * surface.range_, surface.alpha))
        if position is not None and all(
            f.position and f.position.lengthscale is None for f in free
        ):
            assert position.lengthscale is not None
            scale = factor * position.lengthscale
            return replace(kernel, position=replace(position, lengthscale=scale))
        return kernel

    def gram(self, kernel: FieldKernel, points: Points) -> FloatArray:
        return self.covariance.gram(kernel, points)

    def gram_seconds(self, n_points: int) -> float:
        n = self.covariance.operator.n_vertices
        return FACTOR_SECONDS * n + COLUMN_SECONDS * n * n_points / 100

    def posterior_seconds(self, n_rows: int) -> float:
        if not self.is_precise:
            return super().posterior_seconds(n_rows)
        return STEPS * (FACTOR_SECONDS * self.covariance.operator.n_vertices + ROW_SECONDS * n_rows)

    def function(
        self, kernel: FieldKernel, outputscale: float, unit: float, row: Data, units: Units
    ) -> FieldGP | PreciseFieldGP:
        hyper = FieldHyperparameters(kernel, outputscale, unit**2, CONSTANT_VARIANCE * unit**2)
        prior = FieldPrior(self.covariance, hyper)
        if self.is_precise:
            return PreciseFieldGP.given(PrecisePrior(prior, None), row, units, False)
        found = prior.given(row, units, False)
        assert isinstance(found, FieldGP)
        return found


def _is_given(family: FieldKernel) -> bool:
    """Whether no parameter of a sum is free."""
    assert family.surface is not None
    assert family.position is not None
    return None not in (
        family.share, family.surface.range_, family.surface.alpha, family.position.kernel,
        family.position.lengthscale,
    )  # fmt: skip
