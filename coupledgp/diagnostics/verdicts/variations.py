"""Nearby hyperparameters and kernels beside the model's: by evidence and held-out density.

A stationary kernel is varied one thing at a time, without a fit: lengthscales twice and half as
long, a quarter to 25 times the noise, rougher and smoother kernels, the product Laplace kernel and
additive kernels, of lengthscales to match. An expression has a term more or less. About the most
likely of these, ranges and sizes vary along a column (`varying`).
Each variation and the kernel itself are given the same training rows, at most `MOST_ROWS` of them;
the evidence is that of these and of at most `MOST_TESTS` test rows.

If the kernel were true, another one fixed beforehand would have a log evidence higher by e nats
with a probability of at most `exp(-e)` (Markov's inequality for the ratio of two densities), so
that a limit on e limits false alarms whatever the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from coupledgp.diagnostics.scoring.scores import paired_difference, point_nlpd
from coupledgp.diagnostics.scoring.subject import Subject, some_rows
from coupledgp.diagnostics.verdicts.nearby import Nearby, nearby
from coupledgp.diagnostics.verdicts.rules import EVIDENCE
from coupledgp.diagnostics.verdicts.varying import Sample, Varied, varied
from coupledgp.errors import CoupledGPError
from coupledgp.expressions import OPERATORS
from coupledgp.gp.additive import AdditiveProblem
from coupledgp.gp.dense_prior import DensePrior
from coupledgp.gp.exact import ExactGP, StationaryPrior
from coupledgp.gp.protocol import Data, GaussianProcess
from coupledgp.gp.units import Units
from coupledgp.inference.dense.system import ExactProblem
from coupledgp.inference.evidence.problem import Hyperparameters
from coupledgp.random import FloatArray

# Training and test rows that each variation is given, of more a random subset: a few hundredths of
# a second each.
MOST_ROWS, MOST_TESTS = 700, 300
# What to say of kernels that not every model takes.
_WHERE = {"laplace": " by an exact or local model, since it has no random features"}
_EXPRESSION = " by ExactGPRegressor or GPRegressor"


@dataclass(frozen=True)
class Variation:
    """A kernel near the model's, given the same rows.

    Attributes
    ----------
    name : str
        How it differs, in words.
    kernel : str
        Its kernel if that is another one, else empty.
    evidence_gain : float
        Log evidence of training and test rows above that of the model's kernel, nats.
    n_rows : int
        Number of these rows.
    gain, standard_error : float, float or None
        Decrease of the NLPD at the test points beside the model's kernel, nats per point.
    remedy : str
        What to do where the function is not stationary, as a sentence; else empty.
    """

    name: str
    kernel: str
    evidence_gain: float
    n_rows: int
    gain: float
    standard_error: float | None
    remedy: str = ""

    @property
    def action(self) -> str:
        """What to do, as a sentence."""
        if self.remedy:
            return self.remedy
        if self.kernel:
            other = _EXPRESSION if OPERATORS & set(self.kernel) else ""
            where = _WHERE.get(self.kernel, other)
            return f"Fit kernel={self.kernel!r} ({self.name}){where}."
        return f"Fit again, with more restarts, or starting at {self.name}."


def variations(subject: Subject, y: FloatArray, seed: int = 0) -> tuple[Variation, ...]:
    """Vary the kernel of a model at its test points with targets (p, k).

    Empty for processes that are no stationary kernel, and no expression of kernels, of a table.
    """
    problem = _problem(subject.process)
    if problem is None:
        return ()
    return variations_of(problem, subject.points, y, subject.input_names, seed)


def left_out_variations(
    process: GaussianProcess, names: tuple[str, ...] = (), seed: int = 0
) -> tuple[Variation, ...]:
    """Vary the kernel of a process at its own observations, each predicted from the others.

    Those of `variations`, with the evidence of the observations alone; at most `MOST_ROWS` of them.
    """
    problem = _problem(process)
    if problem is None:
        return ()
    own, data, units = _stated(problem, seed)
    sample = _sample(data, units)
    base = sample.tried(own)
    if base is None:
        return ()
    found, likeliest, most = [], Nearby("", "", own), EVIDENCE
    for one in nearby(own, data.points):
        other = sample.tried(one.prior)
        if other is None:
            continue
        gap, gain = paired_difference(base.losses, other.losses), other.evidence - base.evidence
        found.append(Variation(one.name, one.kernel, gain, len(data), gap.mean, gap.standard_error))
        if gain > most:
            likeliest, most = one, gain
    return *found, *_varying(likeliest, sample, names, seed)


def _problem(process: GaussianProcess | None) -> ExactProblem | AdditiveProblem | None:
    """The exact problem of a process of a table, if it has one whose targets vary."""
    if process is None or not process.is_gaussian:
        return None
    try:
        problem = process.exact_problem()
    except CoupledGPError:
        return None
    if not isinstance(problem, ExactProblem | AdditiveProblem) or not np.ptp(problem.targets):
        return None
    return problem


def variations_of(
    problem: ExactProblem | AdditiveProblem,
    points: FloatArray,
    y: FloatArray,
    names: tuple[str, ...] = (),
    seed: int = 0,
) -> tuple[Variation, ...]:
    """Vary the kernel of a problem at test rows (p, d) with targets (p, k) and named columns."""
    own, data, units = _stated(problem, seed)
    everything = _with_tests(data, points, y, seed)

    def measured(prior: DensePrior) -> tuple[FloatArray, float]:
        losses = _losses(prior.given(data, units, False), points, y)
        return losses, prior.given(everything, units, False).log_evidence

    try:
        base, evidence = measured(own)
    except CoupledGPError:
        return ()
    found, likeliest, most = [], Nearby("", "", own), EVIDENCE
    for one in nearby(own, data.points):
        try:
            losses, other = measured(one.prior)
        except CoupledGPError:
            continue
        gap = paired_difference(base, losses)
        gain = other - evidence
        found.append(
            Variation(one.name, one.kernel, gain, len(everything), gap.mean, gap.standard_error)
        )
        if gain > most:
            likeliest, most = one, gain
    return *found, *_varying(likeliest, _sample(data, units, points, y), names, seed)


def _sample(
    data: Data, units: Units, points: FloatArray | None = None, y: FloatArray | None = None
) -> Sample:
    """Observations, and tests if there are any, in normalised units."""
    noise = np.ones(len(data)) if data.relative_noise is None else data.relative_noise
    rows, targets = data.points, units.normalized(data.targets)
    if points is not None and y is not None:
        rows = np.vstack([rows, points])
        targets = np.vstack([targets, units.normalized(y)])
        noise = np.concatenate([noise, np.ones(len(points))])
    return Sample(rows, targets, noise, len(data))


def _varying(
    base: Nearby, sample: Sample, names: tuple[str, ...], seed: int
) -> Iterator[Variation]:
    """The most likely range or size that varies, about a kernel near the model's; or none."""
    found = varied(base.prior, sample, seed)
    if found is not None:
        yield variation_of(found, names, base.name)


def variation_of(found: Varied, names: tuple[str, ...], base: str = "") -> Variation:
    """A range or size that varies, about a kernel with another change or with none."""
    column = found.change.column
    name = names[column] if column < len(names) else f"input {column + 1}"
    text = f"{base}, and {found.change.text(name)}" if base else found.change.text(name)
    return Variation(
        text, "", found.evidence_gain, found.n_rows, found.gain, found.standard_error,
        found.change.remedy(name),
    )  # fmt: skip


def _with_tests(data: Data, points: FloatArray, y: FloatArray, seed: int) -> Data:
    """Training rows and at most `MOST_TESTS` of the test rows."""
    chosen = some_rows(len(points), MOST_TESTS, [seed, 13])
    return data.followed_by(Data.of(points[chosen], y[chosen]))


def _stated(problem: ExactProblem | AdditiveProblem, seed: int) -> tuple[DensePrior, Data, Units]:
    """The prior of a problem, at most `MOST_ROWS` of its rows, and the units of its targets."""
    prior: DensePrior
    if isinstance(problem, ExactProblem):
        hyper = Hyperparameters(problem.lengthscale, problem.outputscale, problem.noise)
        prior, rows = StationaryPrior(problem.spectrum, hyper), problem.X
        noise = problem.relative_noise
    else:
        prior, rows, noise = problem.prior, problem.data.points, problem.data.relative_noise
    units = Units(problem.offset, problem.scale)
    chosen = some_rows(len(rows), MOST_ROWS, [seed, 11])
    targets = units.mean(problem.targets[chosen])
    return prior, Data.of(rows[chosen], targets, None if noise is None else noise[chosen]), units


def _losses(process: ExactGP, points: FloatArray, y: FloatArray) -> FloatArray:
    mean, variance = process.law(points, "variance")
    assert variance is not None
    return point_nlpd(y, mean, np.sqrt(variance))
