"""The model's own kernel fitted anew, to the targets and to transforms of them.

A rival that is fitted gains from the fit as well as from what it is. Beside the model's own kernel,
fitted to the same rows, what is left is the gain of the rival alone.
"""

from __future__ import annotations

import numpy as np

from coupledgp.diagnostics.rivals.observations import BaselinePrediction
from coupledgp.diagnostics.scoring.scores import MeanOverPoints, paired_difference, point_nlpd
from coupledgp.diagnostics.scoring.subject import some_rows
from coupledgp.gp.columns import spread_lengthscale
from coupledgp.gp.exact import ExactGP, StationaryPrior
from coupledgp.gp.protocol import Data
from coupledgp.gp.transformed import transformed_data
from coupledgp.gp.transforms import Identity
from coupledgp.gp.units import Units
from coupledgp.inference.dense.evidence import ExactEvidence
from coupledgp.inference.dense.system import ExactProblem
from coupledgp.random import FloatArray
from coupledgp.search.optimize import maximise_evidence
from coupledgp.search.space import SearchSpace
from coupledgp.search.tables.transforms import fit_transforms
from coupledgp.spectra import Spectrum

SAME = "same kernel"
# Rows that a kernel is fitted to, of more a random subset, and steps of the search.
MOST_ROWS, STEPS = 400, 40


def refitted(problem: ExactProblem, points: FloatArray) -> BaselinePrediction:
    """Predictions at rows (p, d) of a problem's kernel, all its hyperparameters fitted anew."""
    process = _fitted(problem.spectrum, _rows(problem))
    return BaselinePrediction(SAME, *_law(process, points))


def transform_gain(
    problem: ExactProblem, points: FloatArray, y: FloatArray, losses: FloatArray
) -> MeanOverPoints | None:
    """What a transform of the targets gains at rows (p, d) with targets (p, 1) of losses (p,).

    Transform and hyperparameters are chosen on the training rows. None where no transform is.
    """
    data = _rows(problem)
    (transform,) = fit_transforms(None, data, problem.spectrum, True, np.random.default_rng(5))
    if transform == Identity() or not np.all(transform.contains(y)):
        return None
    process = _fitted(problem.spectrum, transformed_data(data, (transform,)))
    own = point_nlpd(transform.forward(y), *_law(process, points)) - transform.log_slope(y)
    return paired_difference(losses, own[:, 0])


def _rows(problem: ExactProblem) -> Data:
    chosen = some_rows(len(problem.X), MOST_ROWS, [0, 41])
    noise = problem.relative_noise
    return Data.of(
        problem.X[chosen], problem.offset + problem.scale * problem.targets[chosen],
        None if noise is None else noise[chosen],
    )  # fmt: skip


def _fitted(spectrum: Spectrum, data: Data) -> ExactGP:
    units = Units.of(data.targets, True, data.counts)
    evidence = ExactEvidence(spectrum, data.points, units.normalized(data.targets), data.weights)
    found = maximise_evidence(
        evidence, SearchSpace(spread_lengthscale(data.points, True), True), n_restarts=1,
        max_iterations=STEPS, rng=np.random.default_rng(0),
    )  # fmt: skip
    return StationaryPrior(spectrum, found.hyperparameters).given(data, units, False)


def _law(process: ExactGP, points: FloatArray) -> tuple[FloatArray, FloatArray]:
    mean, variance = process.law(points, "variance")
    assert variance is not None
    return mean, np.sqrt(variance)
