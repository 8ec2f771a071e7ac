"""Figures of an audited law: beside the exact process of its kernel, or beside the data alone."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import ndtri, psi

from coupledgp.core.column_moments import column_spread
from coupledgp.core.dense_evidence import in_lengthscales
from coupledgp.diagnostics.compare import ReferenceLaw
from coupledgp.diagnostics.foreign.kernel import StatedKernel
from coupledgp.diagnostics.foreign.law import ForeignLaw
from coupledgp.diagnostics.foreign.table import ForeignTable
from coupledgp.diagnostics.limits import DENSE_ROWS
from coupledgp.diagnostics.probes import StochasticOptions, solved_law
from coupledgp.diagnostics.residuals.columns import equal_columns
from coupledgp.diagnostics.residuals.shapes import Reach
from coupledgp.diagnostics.rivals.tables import left_out_baselines, table_baselines
from coupledgp.diagnostics.score_errors import SolverErrors, solver_errors
from coupledgp.diagnostics.scoring.calibration import EDGE
from coupledgp.diagnostics.scoring.drawn_laws import DrawnLaws
from coupledgp.diagnostics.scoring.figures import Accuracy, Figures, OwnScores, Predictions
from coupledgp.diagnostics.scoring.laws import Law, law_of_process
from coupledgp.diagnostics.scoring.measures import (
    joint_scores,
    kl_per_point,
    marginal_scores,
    score_figures,
)
from coupledgp.diagnostics.scoring.score_table import PREFIXES, SCORES, JointScore, lacking
from coupledgp.diagnostics.sections.posterior import PosteriorReport
from coupledgp.diagnostics.verdicts.evidence import Evidence
from coupledgp.diagnostics.verdicts.gathering import (
    MAX_JUDGED,
    MIN_NEIGHBOURS,
    carried_of,
    correlations,
    gather,
    with_cost,
)
from coupledgp.diagnostics.verdicts.neighbour_residuals import (
    ResidualCorrelation,
    exchanged_correlation,
    residual_correlation_of,
)
from coupledgp.errors import NumericalError
from coupledgp.ground.progress import tell
from coupledgp.random import FloatArray
from coupledgp.tables.exact_process import StationaryPrior

# Parts of the test rows whose baselines are fitted to the other parts, without training rows.
FOLDS = 10
ALONE = (
    "No training rows are given, so that there is no exact process beside it. Rivals predict each "
    "tenth of the test rows from the others, which are their training rows."
)


class Way(NamedTuple):
    """How the exact law is computed: the method, its options and the progress."""

    method: str
    options: StochasticOptions


def beside_data(
    law: ForeignLaw,
    train: ForeignTable | None,
    test: ForeignTable,
    metadata: Mapping[str, Any],
    fitted: bool = False,
) -> PosteriorReport:
    """Report on a law without a reference; `fitted` laws are those of models."""
    own, y = law.law, test.y[:, None]
    scores = marginal_scores(y, own.single(law.own), "")
    if law.cov is not None:
        scores |= joint_scores(own, y, "")
    figures = Figures(n_test=len(y), n_outputs=1, **scores)
    predictions = Predictions(
        own.mean, own.std, None, None, y, None if law.cov is None else own.cov, None, test.X,
        own=OwnScores.of(law.own, y),
    )  # fmt: skip
    remarks = tuple(_remarks(law))
    joint = law.joint
    if joint is None:
        remarks += (
            "Nothing is known on how errors of neighbours go together, so that chance is that of "
            "independent points.",
        )
    evidence = evidence_of(law, train, test, metadata, joint, fitted=fitted)
    return PosteriorReport(figures, predictions, "", None, remarks=remarks, gather=evidence)


def beside_exact(
    law: ForeignLaw,
    stated: StatedKernel,
    train: ForeignTable,
    test: ForeignTable,
    way: Way,
    metadata: Mapping[str, Any],
    fitted: bool = False,
) -> PosteriorReport:
    """Report on a law beside the exact one; `fitted` laws are those of models."""
    exact = exact_law(stated, train, test.X, way)
    own, other = law.law, replace(exact.law, prior=None)
    # Where the model says nothing on how errors go together, the exact law does.
    joint = law.joint or other
    inputs = stated.in_its_metric(test.X)
    evidence = evidence_of(law, train, test, metadata, joint, inputs, fitted)
    remarks = _remarks(law)
    if law.cov is None:
        other = marginals(other)
        remarks.insert(
            0,
            "Only the laws of single points are known: the KL is the mean of theirs, and says "
            "nothing on how errors of neighbours go together.",
        )
    figures, accuracy = _figures(law, other, test.y[:, None])
    if exact.settings is not None:
        accuracy = replace(accuracy, method="stochastic", settings=exact.settings)
    predictions = Predictions(
        own.mean, own.std, other.mean, other.std, test.y[:, None], points=test.X,
        own=OwnScores.of(law.own, test.y[:, None]),
    )  # fmt: skip
    if law.cov is not None:
        predictions = replace(predictions, cov=own.cov, reference_cov=other.cov)
    evidence = with_cost(evidence, other, own, figures, accuracy)
    return PosteriorReport(
        figures, predictions, "", exact.text, accuracy, remarks=tuple(remarks), gather=evidence
    )


def _figures(law: ForeignLaw, other: Law, y: FloatArray) -> tuple[Figures, Accuracy]:
    """Figures of a law beside the exact one, and their errors."""
    own, joint = law.law, law.cov is not None
    scores = score_figures(own, other, y, (law.own, None))
    errors = SolverErrors()
    if other.cov_error is not None:
        errors = solver_errors(own, other, y)
    if not joint:
        joint_scores = (score for score in SCORES.values() if isinstance(score, JointScore))
        for name in (prefix + score.name for score in joint_scores for prefix in PREFIXES):
            del scores[name]
            errors.bounds.pop(name, None)
    kl, accuracy = kl_per_point(other, own), Accuracy("dense", errors.bounds,
                                                      unbounded=errors.unbounded)  # fmt: skip
    if isinstance(law.own, DrawnLaws):
        chance, error = chance_of_draws(len(law.own.draws), correlations(other.cov))
        below, above = errors.bounds.get("kl_per_point", (0.0, 0.0))
        errors.bounds["kl_per_point"] = (below + chance, above)
        accuracy.standard_errors["kl_per_point"] = error
    figures = Figures(
        n_test=len(y), n_outputs=1, kl_per_point=kl, reverse_kl_per_point=kl_per_point(own, other),
        **scores,
    )  # fmt: skip
    return figures, accuracy


def exact_law(
    stated: StatedKernel, train: ForeignTable, points: FloatArray, way: Way
) -> ReferenceLaw:
    """Law of the exact process at rows (p, d), by dense algebra or iterative solves."""
    text = f"exact GP of {stated.text}"
    large = len(train.y) > DENSE_ROWS and isinstance(stated.prior, StationaryPrior)
    if way.method == "dense" or (way.method == "auto" and not large):
        tell("exact GP")
        process = stated.process(train.X, train.y)
        return ReferenceLaw(law_of_process(process, stated.inputs(points)), text, None, None)
    start = time.perf_counter()
    problem = stated.problem(train.X, train.y)
    law, steps = solved_law(problem, stated.inputs(points), way.options)
    seconds = time.perf_counter() - start
    settings = asdict(way.options) | {"reference_iterations": steps, "seconds": seconds}
    return ReferenceLaw(law, text, None, settings)


def marginals(law: Law) -> Law:
    """The laws of the single points as one of independent points, within bounds that hold.

    With `e e' <= r^2 E` every `e_i^2 <= r^2 E_ii`, so that `e e' <= p r^2 diag(E)`.
    """

    def diagonal(matrices: FloatArray) -> FloatArray:
        found = np.zeros_like(matrices)
        places = np.arange(len(matrices))
        found[places, places] = matrices[places, places]
        return found

    error = None if law.cov_error is None else diagonal(law.cov_error)
    radius = None if law.mean_error is None else law.mean_error * np.sqrt(len(law.mean))
    return Law(law.mean, diagonal(law.cov), None, law.noise, error, radius)


def _remarks(law: ForeignLaw) -> list[str]:
    """Sentences on where a law comes from."""
    if law.own is None:
        return []
    remarks = [f"The law is stated by {law.form}, and judged as such."]
    if isinstance(law.own, DrawnLaws):
        n = len(law.own.draws)
        remarks.append(
            f"A KL is that of the moments of {n} draws, which alone give one of about {1 / n:.1g} "
            "nats per point."
        )
    elif lacking(law.own):
        remarks.append("A KL is that of normal laws with the same quantiles.")
    else:
        remarks.append("A KL is that of the normal law of the same moments.")
    if "nlpd" in lacking(law.own):
        remarks.append("The law has no density: it is compared by the CRPS in place of the NLPD.")
    return remarks


def chance_of_draws(n_draws: int, correlation: FloatArray) -> tuple[float, float]:
    """KL per point of a Gaussian law from the moments of m draws of it, and its standard error.

    The mean is exact, `(psi(v / 2) + log(2 / v) + (1 + 1 / m) v / (v - 2) - 1) / 2` with
    `v = m - 1` degrees of freedom. The variance is that of large m,
    `sum_ij (r_ij^2 + r_ij^4) / (2 m^2 p^2)` of correlations r (p, p, 1).
    """
    v, m = n_draws - 1, n_draws
    mean = 0.5 * (float(psi(v / 2)) + np.log(2 / v) + (1 + 1 / m) * v / (v - 2) - 1)
    squares = np.square(correlation[..., 0])
    total = float((squares + np.square(squares)).sum())
    return float(mean), float(np.sqrt(0.5 * total) / (m * len(squares)) * mean * m)


def evidence_of(
    law: ForeignLaw,
    train: ForeignTable | None,
    test: ForeignTable,
    metadata: Mapping[str, Any],
    joint: Law | None,
    inputs: FloatArray | None = None,
    fitted: bool = False,
) -> Evidence:
    """What the targets say of a law.

    `metadata` are columns that the model does not see. `joint` is a law that knows how errors of
    points go together, if any does. `inputs` are the rows in the metric of the kernel, and None in
    unit variances. Without training rows the baselines of each part of the test rows are fitted to
    the others. The scale of a law that is `fitted` to the training rows is known up to an
    error only. Predictions are judged as they are stated.
    """
    own, y = law.law, test.y[:, None]
    known = test if train is None else train
    if train is None:
        baselines = left_out_baselines(test.X, test.y, FOLDS, categories=test.categories)
        reach, carried = None, None
    else:
        baselines = table_baselines(train.X, train.y, test.X, train.categories)
        reach = Reach.of(train.X, test.X, y - own.mean, test.names, own.std)
        carried = carried_of(train.X, train.y, test.X, y, own, law.own, test.names)
    n_train = None if train is None or not fitted else len(train.y)
    given: dict[str, Any] = {
        "mixture": law.own, "n_train": n_train, "metadata": metadata, "inputs": test.X,
        "names": test.names,
    }  # fmt: skip
    equal = equal_columns(test.X, test.y, test.names)
    columns: dict[str, Any] = {"reach": reach, "carried": carried, "equal": equal}
    if joint is None:
        return replace(gather(y, own, baselines, is_joint=False, **given), **columns)
    shared = correlations(joint.cov)
    found = gather(
        y, own, baselines, correlation=shared, whiten=law.cov is not None, **given
    )  # fmt: skip
    if inputs is None:
        inputs = in_lengthscales(test.X, column_spread(known.X, True), test.X)
    return replace(found, misfit=_misfit(law, y, shared, inputs), **columns)


def _misfit(
    law: ForeignLaw, y: FloatArray, shared: FloatArray, inputs: FloatArray
) -> ResidualCorrelation | None:
    """Correlation of the residuals of nearest rows (p, d), at most `MAX_JUDGED` of them.

    Residuals of laws that are not normal are their normal scores.
    """
    rows = np.random.default_rng(0).permutation(len(y))[:MAX_JUDGED]
    if rows.size < MIN_NEIGHBOURS or not inputs.shape[1]:
        return None
    places = inputs[rows]
    _, near = cKDTree(places).query(places, k=2)
    # A row that has equal ones may find itself second.
    own = np.arange(rows.size)
    other = np.where(near[:, 1] == own, near[:, 0], near[:, 1])
    if isinstance(law.own, DrawnLaws):
        return exchanged_correlation(law.own.take(rows).scores_with(y[rows])[..., 0], other)
    std = law.law.std
    together = replace(law.law, cov=shared * std[:, None] * std[None])
    if law.own is not None:
        together = replace(law.law, mean=np.zeros_like(std), cov=shared)
        y = ndtri(np.clip(law.own.transforms(y), EDGE, 1 - EDGE))
    try:
        return residual_correlation_of(together.take(rows), y[rows], other)
    except NumericalError:
        return None
