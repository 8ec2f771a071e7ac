"""Fits of fields on meshes whole and cut at creases, compared by evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from coupledgp.geometry import LaplaceOperator
from coupledgp.geometry.locations import place_numbers
from coupledgp.gp.protocol import Data
from coupledgp.ground.progress import Progress
from coupledgp.inference.fields.covariance import FieldCovariance
from coupledgp.kernels.fields import FieldKernel
from coupledgp.random import FloatArray
from coupledgp.search.fields.mixture import FieldSelection
from coupledgp.search.fields.routes import FittedField, RouteSettings, fit_field

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
    report: Progress,
) -> tuple[FittedField, LaplaceOperator]:
    """Fit on the mesh, and on the mesh cut at creases where that may help; return the better.

    Parameters
    ----------
    operator, families, data, settings, report
        As of `fit_field`.
    creases
        `"auto"`, or `"ignored"`: the operator as it is.
    """
    found = fit_field(FieldCovariance(operator), families, data, settings, report)
    along = any(family.surface is not None for family in families)
    if creases == "ignored" or not along or found.selection.is_default:
        return found, operator
    cut = separating_cut(operator, data.points)
    if cut is None:
        return found, operator
    report("creases")
    other = fit_field(FieldCovariance(cut), families, placed_on(cut, data), settings, report)
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
