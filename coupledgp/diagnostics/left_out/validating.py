"""Cross-validation of a fitted model from the factorisation that exists, without a test set."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from coupledgp.core.dense_evidence import in_lengthscales
from coupledgp.core.left_out import LeftOut
from coupledgp.core.process import GaussianProcess
from coupledgp.diagnostics.left_out.asked import LeftOutTask
from coupledgp.diagnostics.left_out.report import CrossValidationReport, Optimism, optimism
from coupledgp.diagnostics.residuals.columns import (
    Column,
    columns_of,
    equal_columns,
    kept_columns,
    with_row_order,
)
from coupledgp.diagnostics.residuals.findings import (
    Findings,
    look,
    normal_scores,
    predicted_columns,
)
from coupledgp.diagnostics.residuals.shapes import Shapes
from coupledgp.diagnostics.rivals.contest import BesideBaseline
from coupledgp.diagnostics.rivals.of_process import left_out_rivals
from coupledgp.diagnostics.scoring.calibration import Calibration
from coupledgp.diagnostics.scoring.figures import Figures, OwnScores, Predictions, versions
from coupledgp.diagnostics.scoring.laws import Law, PointLaws
from coupledgp.diagnostics.scoring.measures import marginal_scores
from coupledgp.diagnostics.scoring.subject import Subject, in_suited_threads, process_of
from coupledgp.diagnostics.sections.place_map import PlacesOf, moves_of
from coupledgp.diagnostics.sections.posterior import REMARK
from coupledgp.diagnostics.sections.section import short_numbers
from coupledgp.diagnostics.verdicts.evidence import Evidence
from coupledgp.diagnostics.verdicts.gathering import usual_groups
from coupledgp.diagnostics.verdicts.neighbour_residuals import (
    ResidualCorrelation,
    residual_correlation_of,
)
from coupledgp.diagnostics.verdicts.variations import Variation, left_out_variations
from coupledgp.errors import MemoryLimitError, NumericalError
from coupledgp.ground.validation import check_positive_int
from coupledgp.random import FloatArray, IntArray

# Most observations whose joint law is drawn from.
MAX_JUDGED = 1000
# Fewest observations among which the errors of neighbours say anything, and most groups by which
# coverage is looked at.
MIN_NEIGHBOURS, MAX_GROUPS = 10, 200
INDEPENDENT = (
    "How residuals that are left out go together is not at hand for this model: calibration is "
    "judged as of independent rows, and misfit not at all."
)


@in_suited_threads
def cross_validate(
    model: Any,
    groups: ArrayLike | str | None = None,
    *,
    title: str | None = None,
    data: str | None = None,
    max_rows: int = 10_000,
    random_state: int = 0,
    metadata: Any = None,
) -> CrossValidationReport:
    """Report how a fitted model predicts each observation from those of other groups.

    Nothing is fitted again: the law of what is left out follows from the factorisation that exists
    (`GaussianProcess.left_out_law`). Hyperparameters are those of all rows. Baselines leave out the
    same groups. Calibration and the correlation of neighbours' residuals are judged by draws of the
    joint law of the residuals, which go together under a true model, too. Models of transformed
    targets are scored in units of the transformed targets.

    Parameters
    ----------
    model
        Fitted estimator or process of this package, with its training rows.
    groups
        Group (n,) of each training row, such as a sensor, a day or a category: numbers or names; or
        the name of an input column. None: rows of equal inputs, observations of a node or of a
        place are left out together, all others alone.
    title, data
        Heading of the page, and a description of the data in words.
    max_rows
        At most so many rows, drawn at random, are scored; they are predicted from all rows of other
        groups all the same.
    random_state
        Seed of the choice of rows and of draws.
    metadata
        Columns (n,) of the training rows that the model does not see, such as times or sites: a
        data frame or a mapping by name. Residuals are looked at along these, the groups, the order
        of the rows, the inputs and the prediction.

    Returns
    -------
    CrossValidationReport
        Report with `to_html(path)`, `to_json(path)`, `left_out_table()`, `group_table()`,
        `verdicts`, and figures as attributes: `rmse`, `nlpd`, `coverage`, `standard_errors`, ...

    Raises
    ------
    InvalidInputError
        An argument is invalid, or all rows are in one group.
    CoupledGPError
        The model was saved without its training rows.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import cross_validate
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=40)
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.5, noise=0.02)
    >>> report = cross_validate(model.fit(X, y))  # each row from all others, without a further fit
    >>> report.rmse < 0.2, report.n_groups
    (True, 40)
    """
    check_positive_int(max_rows, "max_rows", minimum=2)
    seed = check_positive_int(random_state, "random_state", minimum=0)
    start = time.perf_counter()
    task = LeftOutTask.of(model, groups, max_rows, seed)
    law = task.process.left_out(task.groups, task.rows)
    y = task.data.targets[task.rows]
    losses = -law.log_density(y)
    found = judged(task, law, y, _columns(model, task, metadata), seed)
    mixture = None if len(law.shares) == 1 else law
    std, groups = np.sqrt(law.variance), task.groups[task.rows]
    laws = PointLaws(law.mean, std, mixture)
    scores = marginal_scores(y, laws, "", groups)
    figures = Figures(len(y), y.shape[1], **scores)
    evidence = Evidence(
        _baselines(task, y, laws, Subject(model, y, None).categories), found.calibration,
        found.misfit, findings=found.findings, variations=_variations(model, task, seed),
        shapes=_shapes(task, laws, y),
        n_judged=found.n_judged, n_points=len(y), equal=_equal(model, task, y),
    )  # fmt: skip
    process = process_of(model)
    flattery = optimism(task.process)
    return CrossValidationReport(
        figures,
        Predictions(law.mean, std, None, None, y, own=OwnScores.of(mixture, y)),
        repr(model),
        None,
        remarks=_remarks(task, found, process, flattery),
        gather=evidence,
        moves=moves_of(model),
        places=PlacesOf.of(model),
        title=title or f"Cross-validation of {type(model).__name__}",
        rows=task.rows,
        groups=task.labels,
        kind=task.kind,
        left_out=task.text(),
        losses=losses,
        is_joint=found.is_joint,
        optimism=flattery,
        provenance={
            "data": data or "not stated",
            "training rows": len(task.data),
            "hyperparameters": _hyperparameters(task.process),
            "random_state": seed,
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - start, 2),
            **versions(),
        },
    )


def _columns(model: Any, task: LeftOutTask, metadata: Any) -> tuple[Column, ...]:
    """Columns of the scored rows along which their residuals are looked at."""
    columns = with_row_order(metadata, len(task.data))
    if not task.leaves_one:
        columns = {"the groups": task.names[task.groups], **columns}
    subject = Subject(model, task.data.points[task.rows], task.process)
    return columns_of(
        kept_columns(columns, task.rows), subject.inputs, subject.input_names
    )  # fmt: skip


def _equal(model: Any, task: LeftOutTask, y: FloatArray) -> tuple[str, ...]:
    """Columns of a table that equal its targets but for rounding."""
    subject = Subject(model, task.data.points[task.rows], task.process)
    if subject.inputs is None or y.shape[1] > 1:
        return ()
    return equal_columns(subject.inputs, y[:, 0], subject.input_names)


def _variations(model: Any, task: LeftOutTask, seed: int) -> tuple[Variation, ...]:
    """Kernels near the model's where single rows are left out."""
    if not task.leaves_one:
        return ()
    names = Subject(model, task.data.points[:1], task.process).input_names
    return left_out_variations(task.process, names, seed)


def _shapes(task: LeftOutTask, laws: PointLaws, y: FloatArray) -> Shapes | None:
    """What another scale, added noise and heavy tails gain where single rows are left out."""
    if not task.leaves_one or y.shape[1] > 1 or laws.own is not None:
        return None
    return Shapes.of((y - laws.mean)[:, 0], laws.std[:, 0])


def _baselines(
    task: LeftOutTask, y: FloatArray, laws: PointLaws, categories: tuple[IntArray, ...]
) -> tuple[BesideBaseline, ...]:
    """The model beside each baseline that leaves out the same groups."""
    found, groups = [], task.groups[task.rows]
    for one in left_out_rivals(task.process, task.groups, categories):
        # Where one weight outweighs all others, the rest have lost their digits.
        if one.std is not None and np.isfinite([one.mean, one.std]).all():
            other = one.take(task.rows)
            found.append(BesideBaseline.of(y, laws.mean, laws.std, other, laws.own, groups))
    return tuple(found)


def _remarks(
    task: LeftOutTask, found: Judged, process: GaussianProcess | None, flattery: Optimism
) -> tuple[str, ...]:
    """What a reader should know beside the figures."""
    remarks = [flattery.remark(), *([] if process is None else process.remarks)]
    if not found.is_joint:
        remarks.append(INDEPENDENT)
    elif found.n_judged < len(task.rows):
        remarks.append(
            f"Calibration and misfit are judged at {found.n_judged} of {len(task.rows)} rows."
        )
    if process is not task.process:
        remarks.append(REMARK.partition(";")[0] + ".")
    return tuple(remarks)


def _hyperparameters(process: GaussianProcess) -> str:
    named = process.summary().items()
    return short_numbers(", ".join(f"{name}={np.asarray(v)}" if not isinstance(v, str) else
                                   f"{name}={v}" for name, v in named))  # fmt: skip


class Judged(NamedTuple):
    """Calibration and misfit, and whether they are measured by the joint law.

    Attributes
    ----------
    calibration : Calibration
    misfit : ResidualCorrelation or None
    findings : Findings
    n_judged : int
        Number of observations of both.
    is_joint : bool
        Whether the correlations of the residuals are known; if not they count as independent.
    """

    calibration: Calibration
    misfit: ResidualCorrelation | None
    findings: Findings
    n_judged: int
    is_joint: bool


def judged(
    task: LeftOutTask, law: LeftOut, y: FloatArray, columns: Sequence[Column], seed: int
) -> Judged:
    """Judge the laws of the scored observations (m, k) against their targets (m, k)."""
    chosen = _chosen(task, max(MAX_JUDGED // y.shape[1], 100), seed)
    rows, mean, std = task.rows[chosen], law.mean[chosen], np.sqrt(law.variance[chosen])
    correlation = task.process.left_out_correlation(task.groups, rows)
    groups = usual_groups(mean, std)
    if not task.leaves_one and len(task.names) <= MAX_GROUPS:
        groups["the group"] = task.labels[chosen]
    calibration = Calibration.of_transforms(law.transforms(y)[chosen], correlation, groups)
    misfit = None
    if correlation is not None and len(rows) >= MIN_NEIGHBOURS:
        misfit = _misfit(task, rows, y[chosen], mean, std, correlation, seed)
    own = np.sqrt(law.variance)
    looked = look(
        normal_scores(law.transforms(y)), own,
        lambda some: task.process.left_out_correlation(task.groups, task.rows[some]),
        [*columns, *predicted_columns(law.mean, own)], MAX_JUDGED, seed,
    )  # fmt: skip
    return Judged(calibration, misfit, looked, len(rows), correlation is not None)


def _misfit(
    task: LeftOutTask,
    rows: IntArray,
    y: FloatArray,
    mean: FloatArray,
    std: FloatArray,
    correlation: FloatArray,
    seed: int,
) -> ResidualCorrelation | None:
    """Correlation of residuals of neighbours, beside that of draws of their joint law."""
    covariance = correlation[:, :, None] * std[:, None] * std[None]
    try:
        prior = task.process.prior(task.data.points[rows])
        return residual_correlation_of(Law(mean, covariance, prior), y, seed=seed)
    except (NumericalError, MemoryLimitError):
        return None


def _chosen(task: LeftOutTask, most: int, seed: int) -> IntArray:
    """Places of at most so many scored observations: all, or random ones each with its nearest.

    Of a table the nearest is that in the fitted metric, so that neighbours are as near as the data
    allow; elsewhere observations are drawn at random.
    """
    if task.rows.size <= most:
        return np.arange(task.rows.size)
    rng = np.random.default_rng([seed, 7])
    points = task.data.points[task.rows]
    scale = np.asarray(getattr(task.process.hyperparameters, "lengthscale", 0.0), dtype=np.float64)
    if points.ndim != 2 or scale.shape != points.shape[1:]:
        return np.sort(rng.choice(task.rows.size, most, replace=False))
    inputs = in_lengthscales(points, scale, points)
    first = rng.choice(task.rows.size, most // 2, replace=False)
    near = cKDTree(inputs).query(inputs[first], k=2)[1]
    other = np.where(near[:, 0] == first, near[:, 1], near[:, 0])
    found: IntArray = np.unique(np.concatenate([first, other]))
    return found
