"""Two routes to a field: columns of covariances for few places, a sparse precision for many.

The columns route forms the covariance of the observations, for all kernels of the families, and
mixes them. The precision route finds one kernel of greatest evidence; its cost hardly grows with
the number of observations.

Fits of fields on meshes whole and cut at creases, compared by evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from coupledgp.core.mixture import MixtureGP
from coupledgp.core.process import Data
from coupledgp.core.units import Units
from coupledgp.couplings import CouplingLike
from coupledgp.errors import InvalidInputError
from coupledgp.fields import LaplaceOperator
from coupledgp.fields.covariance import FieldCovariance
from coupledgp.fields.grid import FieldCandidate, FieldGrid, FieldSelection, fit_fields
from coupledgp.fields.locations import place_numbers
from coupledgp.fields.process import FieldGP, PreciseFieldGP
from coupledgp.fields.search import PRECISE_ALPHAS, fit_precise
from coupledgp.ground.memory import check_memory
from coupledgp.ground.progress import tell
from coupledgp.kernels.fields import FieldKernel, WhittleMatern
from coupledgp.random import FloatArray

# Number of places beyond which the precision route is taken.
COLUMNS_LIMIT = 400
# Matrices of the size of the covariance of the observations that the columns route keeps: one for
# each part of a kernel, and those of an eigendecomposition.
GRAMS = 60
# Rows from which lengths of columns are found where the precision route fits the rest.
COLUMN_ROWS = 300
ROUTES = ("auto", "columns", "precision")


@dataclass(frozen=True)
class RouteSettings:
    """Settings of a fit of a field; the attributes are parameters of `FieldGPRegressor`.

    Attributes
    ----------
    route : str
        `"auto"`, `"columns"` or `"precision"`.
    n_frequencies : int
        Number of frequencies of the part of position in the precision route.
    coupling : CouplingLike
        Their coupling.
    seed : int
        Their seed.
    normalize : bool
        Whether targets are normalised.
    averages : bool
        Whether the columns route mixes kernels by their evidence, or takes that of greatest weight.
    """

    route: str
    n_frequencies: int
    coupling: CouplingLike
    seed: int
    normalize: bool
    averages: bool = True


@dataclass(frozen=True)
class FittedField:
    """A fitted field.

    Attributes
    ----------
    process : FieldGP, MixtureGP or PreciseFieldGP
        The process.
    selection : FieldSelection
        Kernels that were compared.
    n_evaluations : int
        Number of evaluations of the evidence.
    converged : bool
        Whether the search converged; a grid always does.
    """

    process: FieldGP | MixtureGP | PreciseFieldGP
    selection: FieldSelection
    n_evaluations: int
    converged: bool


def fit_field(
    covariance: FieldCovariance,
    families: Sequence[FieldKernel],
    data: Data,
    settings: RouteSettings,
) -> FittedField:
    """Fit by the requested route, or by the one that suits the number of places.

    Raises
    ------
    InvalidInputError
        The precision route is asked for, but the kernel has none.
    MemoryLimitError
        The matrices of the route do not fit in memory.
    """
    kernel = precise_kernel(families, covariance.operator.dimension)
    route = settings.route
    if route == "auto":
        many = int(place_numbers(data.points).max()) >= COLUMNS_LIMIT
        route = "precision" if many and kernel is not None else "columns"
    if route == "columns":
        check_memory(
            8.0 * len(data) * (GRAMS * len(data) + 6 * covariance.operator.n_vertices),
            f"places: the covariances of {len(data)} observations",
            "use route='precision' with a kernel along the surface, or GPRegressor on positions",
        )
        process, selection = fit_fields(
            covariance, families, data, settings.normalize, settings.averages
        )
        n_evaluations = sum(family.n_candidates for family in selection.families)
        return FittedField(process, selection, n_evaluations, True)
    if kernel is None:
        raise InvalidInputError(
            "route: expected 'columns' for this kernel, got 'precision': there has to be a part "
            f"along the surface, with alpha {PRECISE_ALPHAS[covariance.operator.dimension]}"
        )
    return _precise(covariance, kernel, data, settings)


def _precise(
    covariance: FieldCovariance, kernel: FieldKernel, data: Data, settings: RouteSettings
) -> FittedField:
    kernel = with_known_columns(covariance, kernel, data, settings)
    process, search = fit_precise(
        covariance, kernel, data, settings.normalize, n_frequencies=settings.n_frequencies,
        coupling=settings.coupling, seed=settings.seed,
    )  # fmt: skip
    hyper = process.hyperparameters
    member = FieldCandidate(hyper.kernel, hyper.outputscale, hyper.noise, -search.value)
    reason = (
        f"one kernel of greatest evidence, by a sparse precision ({search.n_evaluations} "
        f"evaluations), since there are more than {COLUMNS_LIMIT} places or it was asked for"
    )
    selection = FieldSelection((), (member,), reason)
    return FittedField(process, selection, search.n_evaluations, search.converged)


def precise_kernel(families: Sequence[FieldKernel], dimension: int) -> FieldKernel | None:
    """The kernel of the precision route for some families; None where it has none."""
    surfaces = [family.surface for family in families if family.surface is not None]
    if not surfaces:
        return None
    alphas = {surface.alpha for surface in surfaces}
    alpha = alphas.pop() if len(alphas) == 1 else None
    if alpha is not None and alpha not in PRECISE_ALPHAS[dimension]:
        return None
    both = [family for family in families if family.family == "sum"]
    if both:
        surface = both[-1].surface  # the last has columns, where there are any
        assert surface is not None
        return FieldKernel(WhittleMatern(surface.range_, alpha), both[-1].position, both[-1].share)
    return FieldKernel(WhittleMatern(surfaces[0].range_, alpha))


def with_known_columns(
    covariance: FieldCovariance, kernel: FieldKernel, data: Data, settings: RouteSettings
) -> FieldKernel:
    """The kernel with lengths of columns, which the columns route finds from some of the rows."""
    position = kernel.position
    if position is None or position.columns is not None or not covariance.operator.n_columns:
        return kernel
    rng = np.random.default_rng(settings.seed)
    rows = np.sort(rng.permutation(len(data))[: min(COLUMN_ROWS, len(data))])
    targets = Units.of(data.targets, settings.normalize).normalized(data.targets)[rows]
    grid = FieldGrid(covariance, data.points[rows], targets)
    with_columns = FieldKernel(None, position)
    without = replace(with_columns, position=replace(position, columns=()))
    found = [own for family in (without, with_columns) for own in grid.candidates(family)[0]]
    best = max(found, key=lambda candidate: candidate.log_evidence).kernel.position
    assert best is not None
    return replace(kernel, position=replace(position, columns=best.columns))


CREASES = ("auto", "ignored")
# Nats of log evidence by which a mesh cut at creases has to be better to be kept.
LEAST_GAIN = 5.0
# A cut is tried where patches of this share of the area at least make up that share of it, and
# there are so many observed places for each.
PATCH_SHARE, COVERED, PLACES_A_PATCH = 0.01, 0.9, 2


def fit_whole_or_cut(
    operator: LaplaceOperator,
    families: Sequence[FieldKernel],
    data: Data,
    settings: RouteSettings,
    creases: str,
) -> tuple[FittedField, LaplaceOperator]:
    """Fit on the mesh, and on the mesh cut at creases where that may help; return the better.

    Parameters
    ----------
    operator, families, data, settings
        As of `fit_field`.
    creases
        `"auto"`, or `"ignored"`: the operator as it is.
    """
    found = fit_field(FieldCovariance(operator), families, data, settings)
    along = any(family.surface is not None for family in families)
    if creases == "ignored" or not along or found.selection.is_default:
        return found, operator
    cut = separating_cut(operator, data.points)
    if cut is None:
        return found, operator
    tell("creases")
    other = fit_field(FieldCovariance(cut), families, placed_on(cut, data), settings)
    gain = log_evidence(other.selection) - log_evidence(found.selection)
    best, chosen, text = found, operator, "the surface is whole at creases"
    if gain >= LEAST_GAIN:
        best, chosen, text = other, cut, "the surface is cut at creases"
    compared = f"{best.selection.reason}; {text}: to cut it changes the log evidence by {gain:+.2f}"
    n_evaluations = found.n_evaluations + other.n_evaluations
    selection = replace(best.selection, reason=compared)
    return replace(best, selection=selection, n_evaluations=n_evaluations), chosen


def separating_cut(operator: LaplaceOperator, points: FloatArray) -> LaplaceOperator | None:
    """The operator cut at creases, where that makes patches of a sensible size; else None.

    Parameters
    ----------
    operator
        The operator of a whole mesh, or any other, which has no cut.
    points
        Locations (n, ...) of the observations.
    """
    if operator.centroids is None or operator.copies is not None:
        return None
    cut = operator.with_creases()
    if cut is operator:
        return None
    count, member = cut.components()
    if count == operator.components()[0]:
        return None
    shares = np.bincount(member, cut.mass) / cut.mass.sum()
    large = shares >= PATCH_SHARE
    n_places = int(place_numbers(points).max()) + 1
    is_sensible = shares[large].sum() >= COVERED and large.sum() > 1
    return cut if is_sensible and n_places >= PLACES_A_PATCH * large.sum() else None


def placed_on(operator: LaplaceOperator, data: Data) -> Data:
    """Observations at places of a mesh, as those of the same mesh cut at creases."""
    if operator.copies is None:
        return data
    batches = [batch._replace(points=operator.placed(batch.points)) for batch in data.batches]
    return Data(tuple(batches))


def log_evidence(selection: FieldSelection) -> float:
    """Log evidence of families of equal prior mass together, or of the one kernel there is."""
    if not selection.families:
        return selection.members[0].log_evidence
    values = [family.log_evidence for family in selection.families]
    return float(logsumexp(values) - np.log(len(values)))
