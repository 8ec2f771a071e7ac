"""Measurements of a law against targets; see `Evidence`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.core.conformal import conformal_intervals
from coupledgp.core.process import Data
from coupledgp.diagnostics.residuals.columns import PREDICTED, Carried, columns_of, equal_columns
from coupledgp.diagnostics.residuals.counts import CountLaw
from coupledgp.diagnostics.residuals.findings import look, normal_scores, predicted_columns
from coupledgp.diagnostics.residuals.shapes import Reach, Shapes
from coupledgp.diagnostics.rivals.contest import BesideBaseline
from coupledgp.diagnostics.rivals.observations import BaselinePrediction
from coupledgp.diagnostics.rivals.of_process import rivals_of
from coupledgp.diagnostics.rivals.tables import TableRivals
from coupledgp.diagnostics.scoring.calibration import Calibration
from coupledgp.diagnostics.scoring.drawn_laws import DrawnLaws
from coupledgp.diagnostics.scoring.figures import Accuracy, Figures
from coupledgp.diagnostics.scoring.laws import Law
from coupledgp.diagnostics.scoring.measures import gain_of
from coupledgp.diagnostics.scoring.score_table import OwnLaws, lacking
from coupledgp.diagnostics.scoring.scores import LEVELS, point_nlpd
from coupledgp.diagnostics.scoring.subject import Subject, in_suited_threads, some_rows
from coupledgp.diagnostics.verdicts.adequacy import Cost
from coupledgp.diagnostics.verdicts.closing import refitted, transform_gain
from coupledgp.diagnostics.verdicts.evidence import Evidence
from coupledgp.diagnostics.verdicts.neighbour_residuals import (
    ResidualCorrelation,
    residual_correlation_of,
    shared_variances,
    widened,
    with_shared,
)
from coupledgp.diagnostics.verdicts.quality import better_flexible
from coupledgp.diagnostics.verdicts.variations import problem_of, variations
from coupledgp.errors import CoupledGPError, NumericalError
from coupledgp.random import FloatArray, IntArray
from coupledgp.tables.exact_process import StationaryPrior

# Most points at which calibration and misfit are measured: draws of the joint law of more cost
# seconds. Of more, a random part is taken.
MAX_JUDGED = 1000
# Standard deviation of a baseline, over its prediction, that is rounding.
CERTAIN = 1e-8
# Fewest points among which the errors of neighbours say anything.
MIN_NEIGHBOURS = 10
# Most training rows from which conformal intervals are made for a page.
MOST_CONFORMAL = 1000
# Most training rows that are left out one by one, to know the tails of errors.
MOST_LEFT_OUT = 1000
# Parts of the points, by standard deviation and by mean, among which the worst group is sought.
N_PARTS = 3
# Most inputs by which groups are made.
MOST_INPUTS = 4


@in_suited_threads
def gathered(subject: Subject, y: FloatArray, law: Law, mixture: OwnLaws | None = None) -> Evidence:
    """Measure a model with law `law` at its points against targets (p, k).

    `mixture` are the laws of the points where they are mixtures.
    """
    found = gather(
        y, law, baselines_of(subject), mixture=mixture,
        groups={**input_groups(subject), **subject.groups}, n_train=_rows(subject),
        metadata={**subject.groups, **subject.metadata}, inputs=subject.inputs,
        names=subject.input_names,
        whiten=mixture is None and law.cov_error is None,
    )  # fmt: skip
    reach = _reach(subject, y - law.mean, law.std)
    known = _known(subject)
    carried = None if known is None else _carried(known, subject, y, law, mixture)
    shapes = found.shapes
    if shapes is not None:
        shapes = shapes.joined_by(
            _shapes_with_left_out(subject, (y - law.mean)[:, 0], law.std[:, 0])
        )
    found = _beside_refits(replace(found, shapes=shapes), subject, y, law, mixture)
    return replace(
        found, variations=variations(subject, y), reach=reach, conformal=conformal_of(subject, y),
        carried=carried,
        equal=() if known is None else equal_columns(subject.points, y[:, 0], subject.input_names),
    )  # fmt: skip


def _beside_refits(
    found: Evidence, subject: Subject, y: FloatArray, law: Law, mixture: OwnLaws | None
) -> Evidence:
    """The evidence with the model's own kernel fitted anew, where that may explain a fault."""
    problem = problem_of(subject.process)
    if problem is None or not isinstance(problem.prior, StationaryPrior) or mixture is not None:
        return found
    try:
        if better_flexible(found):
            again = refitted(problem, subject.points)
            one = BesideBaseline.of(y, law.mean, law.std, again)
            one = widened(one, law, correlations(law.cov), again)
            found = replace(found, baselines=(*found.baselines, one))
        if _may_be_skewed(found):
            losses = point_nlpd(y, law.mean, law.std)[:, 0]
            found = replace(found, transform=transform_gain(problem, subject.points, y, losses))
    except CoupledGPError:
        pass
    return found


def _may_be_skewed(found: Evidence) -> bool:
    """Whether errors have a shape, or a course along the prediction, that a transform may give."""
    off = found.calibration is not None and found.calibration.is_shape_off
    along = any(one.origin == PREDICTED for one in found.findings.found)
    return found.shapes is not None and (off or along or found.shapes.is_heavy)


def _known(subject: Subject) -> Data | None:
    """Training rows of a table, of one output, where they were kept."""
    if subject.process is None or subject.inputs is None:
        return None
    try:
        data = subject.process.data
    except CoupledGPError:
        return None
    return data if data.targets.shape[1] == 1 else None


def _carried(
    known: Data, subject: Subject, y: FloatArray, law: Law, mixture: OwnLaws | None
) -> Carried | None:
    return carried_of(
        known.points, known.targets[:, 0], subject.points, y, law, mixture, subject.input_names
    )


def carried_of(
    known: FloatArray,
    targets: FloatArray,
    points: FloatArray,
    y: FloatArray,
    law: Law,
    mixture: OwnLaws | None,
    names: tuple[str, ...],
) -> Carried | None:
    """A column that is related to targets (n,) in training and not at test, with what it costs."""
    found = Carried.of(known, targets, points, y[:, 0], names)
    if found is None:
        return None
    rows, queries = (np.delete(one, found.number, axis=1) for one in (known, points))
    rivals = [
        BesideBaseline.of(y, law.mean, law.std, one, mixture)
        for one in TableRivals.of(rows, targets[:, None]).predict(queries).with_laws()
    ]
    best = max(rivals, key=lambda one: one.gain)
    return replace(found, gain=best.gain, standard_error=best.standard_error)


def _shapes_with_left_out(subject: Subject, errors: FloatArray, std: FloatArray) -> Shapes | None:
    """Cures of laws with errors (p,) at test points, and at training rows that are left out.

    Tails take many points to be known. None of more than `MOST_LEFT_OUT` training rows.
    """
    n_rows, process = _rows(subject), subject.process
    if process is None or n_rows is None or not 2 <= n_rows <= MOST_LEFT_OUT:
        return None
    try:
        law = process.left_out(np.arange(n_rows))
        y = process.data.targets[:, 0]
    except CoupledGPError:
        return None
    if len(law.shares) > 1:
        return None
    beside, spread = y - law.mean[:, 0], np.sqrt(law.variance[:, 0])
    return Shapes.of(np.concatenate([errors, beside]), np.concatenate([std, spread]))


def conformal_of(subject: Subject, y: FloatArray) -> dict[float, tuple[float, float]]:
    """Share of targets (p, k) in conformal intervals, and their mean width, by nominal level.

    None of more than `MOST_CONFORMAL` training rows or `MAX_JUDGED` points, nor of processes that
    have none.
    """
    n_rows, process = _rows(subject), subject.process
    if process is None or n_rows is None or not 2 <= n_rows <= MOST_CONFORMAL:
        return {}
    if len(y) > MAX_JUDGED:
        return {}
    try:
        low, high = conformal_intervals(process, subject.points, LEVELS)
    except CoupledGPError:
        return {}
    inside = (low <= y[..., None]) & (y[..., None] <= high)
    shares, widths = inside.mean(axis=(0, 1)), (high - low).mean(axis=(0, 1))
    found = zip(LEVELS, shares.tolist(), widths.tolist(), strict=True)
    return {level: (share, width) for level, share, width in found if np.isfinite(width)}


def _reach(subject: Subject, errors: FloatArray, std: FloatArray) -> Reach | None:
    """Test rows of a table beyond those of the model, with errors and deviations (p, k)."""
    if subject.process is None or subject.inputs is None:
        return None
    try:
        known = subject.process.data.points
    except CoupledGPError:
        return None
    return Reach.of(known, subject.inputs, errors, subject.input_names, std)


def _rows(subject: Subject) -> int | None:
    """Number of training rows, where it is known."""
    try:
        return None if subject.process is None else len(subject.process.data)
    except CoupledGPError:
        return None


def baselines_of(subject: Subject) -> list[BaselinePrediction]:
    """Simple predictions from the model's own observations; none where they were not kept."""
    if subject.process is None:
        return []
    try:
        return rivals_of(subject.process, subject.points, subject.categories)
    except CoupledGPError:
        return []


def with_cost(
    evidence: Evidence, exact: Law, law: Law, figures: Figures, accuracy: Accuracy
) -> Evidence:
    """The evidence with what the reference would gain, of laws at the points that are scored."""
    if figures.differences is None:
        return evidence
    shared = shared_variances(law, correlations(law.cov), exact.mean, exact.std)
    found = with_shared(figures.differences, shared)
    ratio = None
    if figures.rmse is not None and figures.reference_rmse:
        ratio = figures.rmse / figures.reference_rmse
    bound = max(accuracy.bounds.get("differences.nlpd", (0.0, 0.0)))
    cost = Cost(dict(gain_of(found)), bound, ratio, found.get("squared_error"))
    return replace(evidence, cost=cost)


def gather(
    y: FloatArray,
    law: Law,
    baselines: Sequence[BaselinePrediction] = (),
    *,
    mixture: OwnLaws | None = None,
    correlation: FloatArray | None = None,
    groups: Mapping[str, Any] | None = None,
    n_train: int | None = None,
    metadata: Mapping[str, Any] | None = None,
    inputs: FloatArray | None = None,
    names: tuple[str, ...] = (),
    is_joint: bool = True,
    seed: int = 0,
    whiten: bool = False,
) -> Evidence:
    """Measure a law against targets (p, k).

    Parameters
    ----------
    y, law
        Targets, and the joint law of their observations, with its prior where it is known.
    baselines
        Predictions (p, k) with standard deviations.
    mixture
        Laws of single observations where they are mixtures; None: those of the Gaussian law.
    correlation
        Correlations (p, p, k) of observations; None: those of the law.
    groups
        Labels (p,) of the points by name; groups by standard deviation and mean are added.
    n_train
        Number of training rows, from which the scale of the law is known up to an error.
    metadata, inputs, names
        Columns (p,) that the model does not see, by name, and those (p, d) that it does, with
        their names.
    is_joint
        Whether the correlations are known; if not, points count as independent.
    seed
        Seed of the choice of points and of draws.
    whiten
        The correlations are those that the law states, so that residuals are whitened by them.
    """
    p, k = y.shape
    if correlation is None:
        correlation = correlations(law.cov)
    beside = tuple(
        widened(BesideBaseline.of(y, law.mean, law.std, one, mixture), law, correlation, one)
        for one in baselines
        if one.std is not None and not is_certain(one)
    )
    chosen = _chosen(p, k, seed)
    part, targets = law.take(chosen), y[chosen]
    parts = {name: np.asarray(labels)[chosen] for name, labels in (groups or {}).items()}
    parts |= usual_groups(*_grouped_by(y, law, mixture, chosen))
    matrix = correlation[np.ix_(chosen, chosen)]
    if mixture is None:
        calibration = Calibration.of(
            targets, part.mean, part.std, matrix, parts, n_train, whiten=whiten
        )
    else:
        calibration = Calibration.of_transforms(
            mixture.transforms(y)[chosen], matrix, parts, n_train,
            getattr(mixture, "intervals", None), is_binned="nlpd" in lacking(mixture),
        )  # fmt: skip
    misfit = _misfit(part, targets, seed)
    # A law without spread, as of targets that are all alike, has no residuals in units of it.
    residuals = np.divide(y - law.mean, law.std, out=np.zeros_like(y), where=law.std > 0)
    if mixture is not None:
        residuals = normal_scores(mixture.transforms(y))
    sorted_by = _grouped_by(y, law, mixture, np.arange(p))
    columns = [*columns_of(metadata or {}, inputs, names), *predicted_columns(*sorted_by)]

    # Correlations of few draws are no more than those of chance.
    is_joint = is_joint and not isinstance(mixture, DrawnLaws)

    def shared(rows: IntArray) -> FloatArray | None:
        return correlation[np.ix_(rows, rows)] if is_joint else None

    looked = look(residuals, law.std, shared, columns, MAX_JUDGED, seed)
    shapes, counts = None, None
    if mixture is None and k == 1:
        shapes = Shapes.of((y - law.mean)[:, 0], law.std[:, 0])
        counts = CountLaw.of(y[:, 0], law.mean[:, 0], law.std[:, 0])
    return Evidence(
        beside, calibration, misfit, findings=looked, counts=counts, shapes=shapes,
        n_judged=len(chosen), n_points=p,
    )  # fmt: skip


def _grouped_by(
    y: FloatArray, law: Law, own: OwnLaws | None, chosen: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Means and standard deviations (m, k) by which points are grouped.

    Where laws are known by draws, they are those of draws and target together. Points whose few
    draws happen to be near each other hold too few targets otherwise, even if the law is right.
    """
    if isinstance(own, DrawnLaws):
        mean, std = own.pooled_moments(y)
        return mean[chosen], std[chosen]
    return law.mean[chosen], law.std[chosen]


def is_certain(one: BaselinePrediction) -> bool:
    """Whether a baseline claims no error, as of training targets that are all equal.

    Its density is that of rounding, with which none can be compared.
    """
    assert one.std is not None
    return bool((one.std <= CERTAIN * np.maximum(np.abs(one.mean), 1e-280)).all())


def correlations(cov: FloatArray) -> FloatArray:
    """Correlations (p, p, k) of covariances (p, p, k)."""
    std = np.sqrt(np.einsum("iik->ik", cov))
    found: FloatArray = cov / (std[:, None] * std[None])
    return found


def usual_groups(mean: FloatArray, std: FloatArray) -> dict[str, Any]:
    """Thirds of the points by predicted standard deviation and by predicted mean, both (p, k)."""
    named = {"its standard deviation": std.mean(axis=1), "its mean": mean.mean(axis=1)}
    return {
        name: thirds(values)
        for name, values in named.items()
        if np.ptp(values) > 0.05 * np.abs(values).mean()
    }


def input_groups(subject: Subject) -> dict[str, Any]:
    """Thirds of the points by each of the four inputs that matter most, of a table's process.

    Those whose spread is the most lengthscales; noise may vary along an input.
    """
    process, points = subject.process, subject.points
    if process is None or np.ndim(points) != 2:
        return {}
    lengthscale = np.asarray(getattr(process.hyperparameters, "lengthscale", np.nan))
    if lengthscale.shape != points.shape[1:]:
        return {}
    order = np.argsort(-points.std(axis=0) / lengthscale, kind="stable")[:MOST_INPUTS]
    return {f"input {k + 1}": thirds(points[:, k]) for k in order if np.ptp(points[:, k]) > 0}


def thirds(values: FloatArray) -> NDArray[Any]:
    """Labels (p,) of the thirds of values (p,); equal values are in one of them."""
    limits = np.quantile(values, np.arange(1, N_PARTS) / N_PARTS)
    names = np.array(["in the least third", "in the middle", "in the largest third"])
    found: NDArray[Any] = names[np.searchsorted(limits, values)]
    return found


def _chosen(n_points: int, n_outputs: int, seed: int) -> IntArray:
    """Numbers of at most `MAX_JUDGED` points, fewer of many outputs."""
    return some_rows(n_points, max(MAX_JUDGED // n_outputs, 100), [seed, 7])


def _misfit(law: Law, y: FloatArray, seed: int) -> ResidualCorrelation | None:
    if law.prior is None or len(y) < MIN_NEIGHBOURS:
        return None
    try:
        return residual_correlation_of(law, y, seed=seed)
    except NumericalError:
        return None
