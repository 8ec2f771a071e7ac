"""Families of field kernels on grids of their free parameters, compared by evidence.

A family is `surface`, `position` or `sum`. Its evidence is the mean over its grid, so that families
have equal prior mass however many members they have. Few observations leave many kernels likely:
there the members that are mixed are systematic draws from the posterior of all grids, lined up and
cut into parts of equal mass, of each of which the middle is taken. Of many observations those of
greatest evidence of each family are kept.

Fits of fields: kernels compared by evidence, and a mixture of the best kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.special import logsumexp

from coupledgp.core.averaging import systematic_draws
from coupledgp.core.mixture import MixtureGP
from coupledgp.core.process import Data
from coupledgp.core.units import Units, are_constant
from coupledgp.fields.covariance import FieldCovariance
from coupledgp.fields.evidence import RatioEvidence, evidence_at_ratios, integrated_amplitude
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
    LEAST_SCALE,
    POSITION_KERNELS,
    RANGES,
    FieldKernel,
    PositionKernel,
    WhittleMatern,
    as_field_kernel,
)
from coupledgp.random import FloatArray

# Free lengths of columns, relative to the lengthscale of position.
COLUMN_SHARES = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
# Most rounds of the search over one parameter after the other, and the steps on either side of the
# best lengthscale that are tried.
ROUNDS, NEAR = 3, 2
# Free lengthscales, relative to the diameter of the operator; smaller lengthscales and ranges are
# added down to the distance between neighbouring sensors, and half of it. A range
# costs a factorisation, a lengthscale nearly nothing, and halved steps of it lessen the error of
# smooth fields by some 5 %.
LENGTHSCALES = tuple(0.05 * 2 ** (step / 2) for step in range(11))
# Free shares of the surface in the variance of a sum; 0 and 1 are families of their own.
SHARES = (0.1, 0.5, 0.9)
# Ratios of the variances of noise and field.
NOISE_RATIOS = np.logspace(-5, 1, 13)
# Number of observations beyond which sums are made of the kernels that are best alone, and how many
# of each: an eigendecomposition for each pair would take minutes.
ALL_PAIRS, BEST_ALONE = 100, 4
# Most members of a family that are kept, and the least share of the evidence of their family.
MAX_MEMBERS, LEAST_SHARE = 12, 0.01
# Observations up to which members are drawn from the posterior: the best alone are too sure there.
DRAWN_OBSERVATIONS = 200
# Least weight of a member of the mixture.
LEAST_WEIGHT = 1e-3

KernelPart: TypeAlias = WhittleMatern | PositionKernel


@stored
@dataclass(frozen=True)
class FieldCandidate:
    """A kernel without free parameters, with variances, and its evidence.

    Attributes
    ----------
    kernel : FieldKernel
        The kernel.
    outputscale, noise : float
        Variances of the field and of the noise, in units of the normalised targets.
    log_evidence : float
        Restricted log likelihood up to a constant that all candidates share, nats.
    weight : float
        Weight in the mixture of all candidates that are kept.
    """

    kernel: FieldKernel
    outputscale: float
    noise: float
    log_evidence: float = field(metadata={"finite": False})
    weight: float = 1.0


@stored
@dataclass(frozen=True)
class FamilyEvidence:
    """The evidence of a family on its grid.

    Attributes
    ----------
    name : str
        `"position"`, `"surface"` or `"sum"`; on a network `"network"`, with its alpha.
    n_candidates : int
        Number of kernels and noise ratios.
    log_evidence : float
        Logarithm of the mean evidence, up to the same constant for all families.
    weight : float
        Share of the families' evidence.
    """

    name: str
    n_candidates: int
    log_evidence: float
    weight: float


class FieldGrid:
    """Grids of kernels over observations.

    Parameters
    ----------
    covariance
        Covariances on the operator.
    points
        Locations of the observations (n, ...).
    targets
        Normalised targets (n, k).
    noise_ratios
        Ratios (r,) of the variances of noise and field.
    """

    def __init__(
        self,
        covariance: FieldCovariance,
        points: FloatArray,
        targets: FloatArray,
        noise_ratios: FloatArray = NOISE_RATIOS,
    ) -> None:
        self.covariance, self.points = covariance, points
        self.targets, self.noise_ratios = targets, noise_ratios
        self._grams: dict[KernelPart, FloatArray] = {}
        self._evidence: dict[FieldKernel, RatioEvidence] = {}

    def compare(
        self, families: Sequence[FieldKernel], averages: bool = True
    ) -> tuple[list[FieldCandidate], list[FamilyEvidence]]:
        """Selected candidates, with weights that sum to one, and the evidence of each family.

        Of few observations they are systematic draws from all candidates, `MAX_MEMBERS` for each
        family on average, unless none are averaged; else those of greatest evidence of each family.
        """
        grids = [self.candidates(family) for family in families]
        values = [np.array([member.log_evidence for member in members]) for members, _ in grids]
        means = [
            float(logsumexp(own) - np.log(n)) for own, (_, n) in zip(values, grids, strict=True)
        ]
        total = logsumexp(means)
        compared = [
            FamilyEvidence(self._name(family), n, mean, float(np.exp(mean - total)))
            for family, (_, n), mean in zip(families, grids, means, strict=True)
        ]
        if averages and len(self.points) <= DRAWN_OBSERVATIONS:
            everyone = [member for members, _ in grids for member in members]
            logs = np.concatenate(
                [own - np.log(n) for own, (_, n) in zip(values, grids, strict=True)]
            )
            return _drawn(everyone, logs, MAX_MEMBERS * len(families)), compared
        kept: list[tuple[float, FieldCandidate]] = []
        for own, (members, _), mean in zip(values, grids, means, strict=True):
            shares = np.exp(own - logsumexp(own))
            order = np.argsort(-shares)[:MAX_MEMBERS]
            order = order[shares[order] >= LEAST_SHARE * shares[order[0]]]
            scale = shares[order].sum()
            kept += [(mean + np.log(shares[j] / scale), members[j]) for j in order]
        total = logsumexp([weight for weight, _ in kept])
        mixed = [replace(member, weight=float(np.exp(w - total))) for w, member in kept]
        mixed = [member for member in mixed if member.weight >= LEAST_WEIGHT]
        rest = sum(member.weight for member in mixed)
        mixed = [replace(member, weight=member.weight / rest) for member in mixed]
        return sorted(mixed, key=lambda member: -member.weight), compared

    def candidates(self, family: FieldKernel) -> tuple[list[FieldCandidate], int]:
        """Kernels of a family at all noise ratios, and the size of the family's whole grid.

        Pairs that are left out since they are many count as if they had no evidence.
        """
        kernels, total = self._kernels(family)
        factor = integrated_amplitude(*self.targets.shape)
        found = []
        for j, kernel in enumerate(kernels):
            tell(f"{self._name(family)}: kernel {j + 1} of {len(kernels)}")
            evidence = self.evidence(kernel)
            found += [
                FieldCandidate(kernel, factor * float(v), factor * float(g * v), float(value))
                for g, v, value in zip(
                    self.noise_ratios, evidence.amplitude, evidence.log_evidence, strict=True
                )
            ]
        return found, total * self.noise_ratios.size

    def evidence(self, kernel: FieldKernel) -> RatioEvidence:
        """Evidence of a kernel at all noise ratios."""
        if kernel not in self._evidence:
            share = kernel.share
            assert share is not None
            K = np.zeros((len(self.points), len(self.points)))
            if kernel.surface is not None:
                K += share * self._gram(kernel.surface)
            if kernel.position is not None:
                K += (1.0 - share) * self._gram(kernel.position)
            self._evidence[kernel] = evidence_at_ratios(K, self.targets, self.noise_ratios)
        return self._evidence[kernel]

    def _gram(self, part: KernelPart) -> FloatArray:
        if part not in self._grams:
            self._grams[part] = self.covariance.gram(as_field_kernel(part), self.points)
        return self._grams[part]

    def _kernels(self, family: FieldKernel) -> tuple[list[FieldKernel], int]:
        """Kernels on the grids of a family's free parameters, and the size of the whole grid."""
        surfaces = self._surfaces(family.surface) if family.surface is not None else [None]
        positions: list[Any] = [None]
        n_positions = 1
        if family.position is not None:
            positions, n_positions = self._positions(family.position)
        shares = SHARES if family.share is None else (family.share,)
        total = len(surfaces) * n_positions * len(shares)
        if family.family == "sum" and len(self.points) > ALL_PAIRS:
            surfaces = self._best_alone(surfaces)
            positions = self._best_alone(positions)
        return [FieldKernel(s, p, w) for s in surfaces for p in positions for w in shares], total

    def _best_alone(self, parts: list[Any]) -> list[Any]:
        """The parts of greatest evidence alone."""

        def value(part: KernelPart) -> float:
            tell(f"alone: {part}")
            return -self._value(as_field_kernel(part))

        return sorted(parts, key=value)[:BEST_ALONE]

    def _surfaces(self, free: WhittleMatern) -> list[WhittleMatern]:
        """Kernels of a grid: for each kappa all alphas, of different ranges but one factor."""
        dimension = self.covariance.operator.dimension
        alphas = ALPHAS[dimension] if free.alpha is None else (free.alpha,)
        if free.range_ is not None:
            return [WhittleMatern(free.range_, alpha) for alpha in alphas]
        smoothness = [alpha - dimension / 2 for alpha in alphas]
        return [
            WhittleMatern(length * np.sqrt(nu / smoothness[0]), alpha)
            for length in self._scales(RANGES, 1.0)
            for alpha, nu in zip(alphas, smoothness, strict=True)
        ]

    def _positions(self, free: PositionKernel) -> tuple[list[PositionKernel], int]:
        """Kernels of a grid, and the size of the whole one; those with columns are searched for."""
        names = POSITION_KERNELS if free.kernel is None else (free.kernel,)
        columns, scales = free.columns, self._scales(LENGTHSCALES, 0.5)
        n_columns = self.covariance.operator.n_columns
        if columns is None and n_columns:
            scales += [scales[-1] * 2 ** (step / 2) for step in range(1, 5)]
        if free.lengthscale is not None:
            scales = [free.lengthscale]
        if columns is not None or not n_columns:
            found = [PositionKernel(n, scale, columns or ()) for n in names for scale in scales]
            return found, len(found)
        grid = ColumnGrid(names, scales, n_columns)
        if not self.targets.any():  # nothing to choose by
            return grid.few(), grid.size
        return grid.around(lambda part: self._value(as_field_kernel(part))), grid.size

    def _value(self, kernel: FieldKernel) -> float:
        """The greatest evidence over noise ratios."""
        return float(self.evidence(kernel).log_evidence.max())

    def _name(self, family: FieldKernel) -> str:
        """Name of a family: `"position"`, `"surface"` or `"sum"`; on networks with its alpha."""
        operator, position = self.covariance.operator, family.position
        own = operator.n_columns and position is not None and position.has_columns
        with_columns = " with columns" if own else ""
        if operator.dimension == 2:
            return family.family + with_columns
        name = "network" if position is None else family.family + with_columns
        alpha = None if family.surface is None else family.surface.alpha
        return name if alpha is None else f"{name}, alpha {alpha}"

    def _scales(self, relative: tuple[float, ...], lowest: float) -> list[float]:
        """Lengths of a grid, down to `lowest` distances between neighbouring sensors."""
        operator = self.covariance.operator
        places = int(place_numbers(self.points).max()) + 1
        spacing = (operator.measure / places) ** (1.0 / operator.dimension)
        scales = [scale * operator.diameter for scale in relative]
        step = scales[0] / scales[1]
        while scales[0] > lowest * spacing and scales[0] > LEAST_SCALE * operator.diameter:
            scales.insert(0, step * scales[0])
        return scales


def _drawn(
    members: Sequence[FieldCandidate], logs: FloatArray, n_draws: int
) -> list[FieldCandidate]:
    """Systematic draws of members by logarithms of their chances, with weights, heaviest first."""
    chances = np.exp(logs - logsumexp(logs))
    places, counts = systematic_draws(chances, n_draws)
    order = np.lexsort((-chances[places], -counts))
    drawn = zip(places[order], counts[order], strict=True)
    return [replace(members[j], weight=float(count / n_draws)) for j, count in drawn]


class GridPlace(NamedTuple):
    """A kernel's place on the grid: its name, and numbers of its lengthscale and of its shares."""

    name: str
    scale: int
    shares: tuple[int, ...]


@dataclass(frozen=True)
class ColumnGrid:
    """Kernels of position and columns, by names, lengthscales and lengths of columns.

    Parameters
    ----------
    names, scales
        Names of kernels, and lengthscales of position, ascending.
    n_columns
        Number of columns, each of a length that is one of `COLUMN_SHARES` of the lengthscale.
    """

    names: Sequence[str]
    scales: Sequence[float]
    n_columns: int

    @property
    def size(self) -> int:
        """Number of kernels of the whole grid."""
        return int(len(self.names) * len(self.scales) * len(COLUMN_SHARES) ** self.n_columns)

    def kernel(self, place: GridPlace) -> PositionKernel:
        """The kernel at a place of the grid."""
        length = self.scales[place.scale]
        columns = tuple(COLUMN_SHARES[share] * length for share in place.shares)
        return PositionKernel(place.name, length, columns)

    def few(self) -> list[PositionKernel]:
        """Each column alone and all together, each as long as the lengthscale of position."""
        one, n = COLUMN_SHARES.index(1.0), self.n_columns
        rows = [tuple(one * (j == k) for j in range(n)) for k in range(n)]
        rows += [(one,) * n] * (n > 1)
        scales = range(0, len(self.scales), 2)
        return [
            self.kernel(GridPlace(m, k, row)) for m in self.names for k in scales for row in rows
        ]

    def around(self, value: Callable[[PositionKernel], float]) -> list[PositionKernel]:
        """All kernels that a coordinate ascent tries, and those about the one that it finds.

        Columns without effect are left out: that is another family.
        """
        tried: dict[GridPlace, float] = {}

        def score(place: GridPlace) -> float:
            if place not in tried:
                tried[place] = value(self.kernel(place))
            return tried[place]

        best = max(self._starts(), key=score)
        for _ in range(ROUNDS):
            before = best
            for number in range(self.n_columns):
                best = max(self._of_column(best, number), key=score)
            best = max(self._of_scale(best, range(len(self.scales))), key=score)
            best = max((best._replace(name=name) for name in self.names), key=score)
            if best == before:
                break
        near = range(max(best.scale - NEAR, 0), min(best.scale + NEAR + 1, len(self.scales)))
        for name in self.names:
            for place in self._of_scale(best._replace(name=name), near):
                score(place)
        return [self.kernel(place) for place in tried if any(place.shares)]

    def _starts(self) -> list[GridPlace]:
        last = len(self.scales) - 1
        shares = (COLUMN_SHARES.index(1.0),) * self.n_columns
        return [GridPlace(self.names[-1], scale, shares) for scale in (last // 2, last)]

    def _of_column(self, at: GridPlace, number: int) -> Iterator[GridPlace]:
        before, after = at.shares[:number], at.shares[number + 1 :]
        return (at._replace(shares=(*before, k, *after)) for k in range(len(COLUMN_SHARES)))

    def _of_scale(self, at: GridPlace, scales: range) -> Iterator[GridPlace]:
        return (at._replace(scale=scale) for scale in scales)


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
        members, compared = grid.compare(families, averages)
        reason = (
            "families by evidence with equal prior mass, in each the kernels of greatest evidence"
        )
        if not averages:
            members = [replace(members[0], weight=1.0)]
            reason = "the kernel of greatest evidence, as asked for"
    tell(f"{len(members)} members given the data")
    mean_variance = MEAN_VARIANCE * max(float(np.mean(targets**2)), np.finfo(float).tiny)
    fitted: list[FieldGP] = []
    for one in members:
        hyper = FieldHyperparameters(one.kernel, one.outputscale, one.noise, mean_variance)
        fitted.append(FieldGP.given(FieldPrior(covariance, hyper), data, units, normalize))
    selection = FieldSelection(tuple(compared), tuple(members), reason)
    if len(fitted) == 1:
        return fitted[0], selection
    weights: FloatArray = np.array([member.weight for member in members])
    return MixtureGP.of(fitted, weights, data, "hyperparameters"), selection


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
