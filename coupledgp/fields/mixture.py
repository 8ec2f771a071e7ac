"""Fits of fields: kernels compared by evidence, and a mixture of the best kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from coupledgp.core.mixture import MixtureGP
from coupledgp.core.process import Data
from coupledgp.core.units import Units, are_constant
from coupledgp.fields.covariance import FieldCovariance
from coupledgp.fields.grid import FamilyEvidence, FieldCandidate, FieldGrid
from coupledgp.fields.locations import place_numbers
from coupledgp.fields.process import (
    DEFAULT_LENGTH,
    DEFAULT_NOISE,
    DEFAULT_OUTPUTSCALE,
    MEAN_VARIANCE,
    FieldGP,
    FieldHyperparameters,
    FieldPrior,
)
from coupledgp.ground.codec import stored
from coupledgp.ground.notebook import ExplainedChoice
from coupledgp.ground.progress import tell
from coupledgp.kernels.fields import (
    ALPHAS,
    POSITION_KERNELS,
    FieldKernel,
    PositionKernel,
    WhittleMatern,
)
from coupledgp.random import FloatArray

# Fewest places whose observations say anything about a kernel.
FEWEST = 3


@stored
@dataclass(frozen=True)
class FieldSelection(ExplainedChoice):
    """Kernels that were compared by their evidence.

    Attributes
    ----------
    families : tuple of FamilyEvidence
        Evidence of each family of kernels.
    members : tuple of FieldCandidate
        Members of the mixture by weight, greatest first.
    reason : str
        How the weights were found.
    """

    families: tuple[FamilyEvidence, ...]
    members: tuple[FieldCandidate, ...]
    reason: str

    @property
    def is_default(self) -> bool:
        """Whether the data determine no kernel, so that defaults take the place of a fit."""
        return bool(np.isnan(self.members[0].log_evidence))

    @property
    def surface_share(self) -> float:
        """Mean share of the surface in the variance of the field, over members by weight."""
        return float(sum(m.weight * (m.kernel.share or 0.0) for m in self.members))

    def explain(self) -> str:
        """The families, the members and the reason, a line each."""
        lines = [self.reason]
        lines += [
            f"{family.name}: weight {family.weight:.3f}, log evidence {family.log_evidence:.2f} "
            f"({family.n_candidates} candidates)"
            for family in self.families
        ]
        lines += [
            f"{member.weight:.3f}  {member.kernel}, variance {member.outputscale:.3g}, noise "
            f"{member.noise:.3g} of the normalised y"
            for member in self.members
        ]
        return "\n".join(lines)


def fit_fields(
    covariance: FieldCovariance,
    families: Sequence[FieldKernel],
    data: Data,
    normalize: bool,
    averages: bool = True,
) -> tuple[FieldGP | MixtureGP, FieldSelection]:
    """Compare families of kernels by evidence and mix the best of each.

    Parameters
    ----------
    covariance
        Covariances on the operator.
    families
        Kernels with free parameters, compared with equal prior mass.
    data
        Locations (n, ...) and targets (n, k).
    normalize
        Whether targets are normalised.
    averages
        Whether kernels are mixed; otherwise that of greatest weight is the only member.
    """
    units = Units.of(data.targets, normalize)
    targets = units.normalized(data.targets)
    n_places = int(place_numbers(data.points).max()) + 1
    if n_places < FEWEST or are_constant(data.targets):
        members, compared = [_default(families[0], covariance)], list[FamilyEvidence]()
        reason = "too few places, or observations that are all alike, to compare kernels: defaults"
    else:
        grid = FieldGrid(covariance, data.points, targets)
        members, compared = (grid.compare if averages else grid.best)(families)
        reason = (
            "families by evidence with equal prior mass, in each the kernels of greatest evidence"
        )
        if not averages:
            members = [replace(members[0], weight=1.0)]
            reason = "the kernel of greatest evidence, as asked for"
    tell(f"{len(members)} members given the data")
    mean_variance = MEAN_VARIANCE * max(float(np.mean(targets**2)), np.finfo(float).tiny)
    fitted = [_member(covariance, member, mean_variance, data, units, normalize)
              for member in members]  # fmt: skip
    selection = FieldSelection(tuple(compared), tuple(members), reason)
    if len(fitted) == 1:
        return fitted[0], selection
    weights: FloatArray = np.array([member.weight for member in members])
    return MixtureGP.of(fitted, weights, data, "hyperparameters"), selection


def _member(
    covariance: FieldCovariance,
    member: FieldCandidate,
    mean_variance: float,
    data: Data,
    units: Units,
    normalize: bool,
) -> FieldGP:
    hyper = FieldHyperparameters(member.kernel, member.outputscale, member.noise, mean_variance)
    return FieldGP.given(FieldPrior(covariance, hyper), data, units, normalize)


def _default(family: FieldKernel, covariance: FieldCovariance) -> FieldCandidate:
    """A family's kernel with default values in place of free parameters."""
    operator = covariance.operator
    length = DEFAULT_LENGTH * operator.diameter
    surface, position = family.surface, family.position
    if surface is not None:
        alpha = surface.alpha or ALPHAS[operator.dimension][0]
        surface = WhittleMatern(surface.range_ or length, alpha)
    if position is not None:
        name = position.kernel or POSITION_KERNELS[0]
        position = PositionKernel(name, position.lengthscale or length, position.columns or ())
    kernel = FieldKernel(surface, position, family.share or 0.5)
    return FieldCandidate(kernel, DEFAULT_OUTPUTSCALE, DEFAULT_NOISE, float("nan"))
