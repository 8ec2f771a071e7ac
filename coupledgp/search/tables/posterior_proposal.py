"""Frequencies drawn anew for the posterior, after a search with frequencies of the kernel's law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from coupledgp.errors import PrecisionWarning
from coupledgp.features import FeatureMap
from coupledgp.gp.weight_space import FeaturePrior
from coupledgp.ground.progress import Progress
from coupledgp.ground.warned import warn
from coupledgp.inference.evidence.problem import EvidenceProblem
from coupledgp.inference.evidence.rows import RowWeights
from coupledgp.inference.spectra.posterior_draw import (
    LAWS,
    LEAST_KL,
    MOST_KL,
    SCOUTS,
    Proposal,
    WeighedPool,
    pilot_form,
)
from coupledgp.random import FloatArray
from coupledgp.search.optimize import OptimizationResult, maximise_evidence
from coupledgp.search.space import SearchSpace


@dataclass(frozen=True, eq=False)
class PilotRows:
    """Rows of a table from which a pilot is drawn.

    Attributes
    ----------
    inputs : FloatArray (n, d)
        Some rows, or all.
    weights : RowWeights or None
        Their relative noise and counts; None for rows that are all alike.
    n_counted : float
        Number of rows that they stand for, each as often as it counts.
    queries : FloatArray (q, d) or None
        Further points at which the posterior matters.
    """

    inputs: FloatArray
    weights: RowWeights | None
    n_counted: float
    queries: FloatArray | None = None


def drawn_for_posterior(
    prior: FeaturePrior,
    search: OptimizationResult,
    rows: PilotRows,
    problem: Callable[[FeatureMap], EvidenceProblem],
    space: SearchSpace,
    rng: np.random.Generator,
    report: Progress,
    asked: str,
) -> tuple[FeaturePrior, OptimizationResult, Proposal]:
    """Draw frequencies for the posterior at the hyperparameters of a prior.

    Lengthscales are kept, and the variances maximise the evidence under the new frequencies.

    Parameters
    ----------
    prior, search
        The prior with frequencies of the kernel's law, and the search for its hyperparameters.
    rows
        Where the pilot comes from.
    problem
        The evidence of the table under a feature map.
    space
        Free hyperparameters and their bounds.
    rng
        Source of pilot, pool and draw.
    report
        Progress.
    asked
        `"posterior"` or `"leverage"`: the proposal to draw from, whatever the pilot expects.
        `"auto"`: the first, but the prior is kept where its second order does not hold.

    Warns
    -----
    PrecisionWarning
        Frequencies are drawn as asked where the second order does not hold.
    """
    own, hyper, center = prior.feature_map, prior.hyperparameters, prior.center
    as_asked = asked != "auto"
    proposal = asked if as_asked else "posterior"
    report("a draw of frequencies for the posterior")
    form = pilot_form(
        rows.inputs - center, own.spectrum, hyper, rng, rows.weights,
        None if rows.queries is None else rows.queries - center, rows.n_counted,
    )  # fmt: skip
    (of_scouts,) = rng.spawn(1)
    scouts = WeighedPool.drawn(form, own.dim, SCOUTS, of_scouts)
    independent = scouts.independent_kl(own.n_frequencies)
    if not (as_asked or LEAST_KL <= independent <= MOST_KL):
        near = independent < LEAST_KL
        reason = (
            f"independent ones are {independent:.2g} nats per point from the exact posterior, "
            + ("which leaves little to gain" if near else "too far for a draw for it")
        )
        return prior, search, Proposal("kernel", reason)
    if independent > MOST_KL:
        warn(
            f"proposal: expected a KL of at most {MOST_KL:g} nats per point by independent "
            f"frequencies, got {independent:.2g}; a draw for the posterior can predict "
            "worse there: take more frequencies, proposal='auto', or ExactGPRegressor",
            PrecisionWarning,
        )
    pool = WeighedPool.of(form, own.dim, own.n_frequencies, rng)
    draw = pool.draw(own.n_frequencies, rng, LAWS[proposal])
    moved = draw.features(own)
    kept = replace(space, free=space.free - {"lengthscale"}, lengthscale=hyper.lengthscale)
    found = maximise_evidence(problem(moved), kept, rng=rng, report=report)
    drawn = FeaturePrior(moved, center, found.hyperparameters, prior.likelihood, proposal=proposal)
    n_evaluations = search.n_evaluations + found.n_evaluations
    joined = replace(
        search, hyperparameters=found.hyperparameters, log_evidence=found.log_evidence,
        n_evaluations=n_evaluations,
    )  # fmt: skip
    reason = f"{own.n_frequencies} frequencies are enough for {own.dim} columns"
    chosen = Proposal(
        proposal, "as asked for" if as_asked else reason, draw.kl_per_point,
        draw.independent_kl, draw.largest_weight,
    )  # fmt: skip
    return drawn, joined, chosen
