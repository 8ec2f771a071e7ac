"""Nearby hyperparameters and kernels beside the model's: by evidence and held-out density.

A stationary kernel is varied one thing at a time, without a fit: lengthscales twice and half as
long, four times the noise and a quarter, a rougher and a smoother kernel. Each variation and the
kernel itself are given the same training rows, at most `MOST_ROWS` of them.

If the kernel were true, another one fixed beforehand would have a log evidence higher by e nats
with a probability of at most `exp(-e)` (Markov's inequality for the ratio of two densities), so
that a limit on e limits false alarms whatever the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from coupledgp.diagnostics.scores import paired_difference, point_nlpd
from coupledgp.diagnostics.subject import Subject
from coupledgp.errors import CoupledGPError
from coupledgp.gp.exact import ExactGP, StationaryPrior
from coupledgp.gp.protocol import Data
from coupledgp.gp.units import Units
from coupledgp.inference.dense.system import ExactProblem
from coupledgp.inference.search.optimize import Hyperparameters
from coupledgp.random import FloatArray
from coupledgp.spectra import GaussianSpectrum, MaternSpectrum, Spectrum

# Rows that each variation is given, of more a random subset: a few tenths of a second each.
MOST_ROWS = 1000
# Kernels from the roughest to the smoothest.
ROUGHNESS = (0.5, 1.5, 2.5, np.inf)


@dataclass(frozen=True)
class Variation:
    """A kernel near the model's, given the same rows.

    Attributes
    ----------
    name : str
        How it differs, in words.
    evidence_gain : float
        Log evidence of the training rows above that of the model's kernel, nats.
    n_rows : int
        Number of these rows.
    gain, standard_error : float, float or None
        Decrease of the NLPD at the test points beside the model's kernel, nats per point.
    """

    name: str
    evidence_gain: float
    n_rows: int
    gain: float
    standard_error: float | None


def variations(subject: Subject, y: FloatArray, seed: int = 0) -> tuple[Variation, ...]:
    """Vary the kernel of a model at its test points with targets (p, k).

    Empty for processes that are no single stationary kernel of a table.
    """
    process = subject.process
    if process is None or not process.is_gaussian:
        return ()
    try:
        problem = process.exact_problem()
    except CoupledGPError:
        return ()
    if not isinstance(problem, ExactProblem):
        return ()
    return variations_of(problem, subject.points, y, seed)


def variations_of(
    problem: ExactProblem, points: FloatArray, y: FloatArray, seed: int = 0
) -> tuple[Variation, ...]:
    """Vary the kernel of a problem at test rows (p, d) with targets (p, k)."""
    data, units = _rows(problem, seed)
    hyper = Hyperparameters(problem.lengthscale, problem.outputscale, problem.noise)
    own = StationaryPrior(problem.spectrum, hyper)
    try:
        base: ExactGP = own.given(data, units, False)
        losses = _losses(base, points, y)
    except CoupledGPError:
        return ()
    found = []
    for name, prior in _nearby(own):
        try:
            other: ExactGP = prior.given(data, units, False)
            gap = paired_difference(losses, _losses(other, points, y))
        except CoupledGPError:
            continue
        gain = other.log_evidence - base.log_evidence
        found.append(Variation(name, gain, len(data), gap.mean, gap.standard_error))
    return tuple(found)


def _rows(problem: ExactProblem, seed: int) -> tuple[Data, Units]:
    """At most `MOST_ROWS` rows of a problem, and the units of its targets."""
    units = Units(problem.offset, problem.scale)
    n = len(problem.X)
    chosen = np.arange(n)
    if n > MOST_ROWS:
        chosen = np.sort(np.random.default_rng([seed, 11]).choice(n, MOST_ROWS, replace=False))
    noise = problem.relative_noise
    targets = units.mean(problem.targets[chosen])
    return Data.of(problem.X[chosen], targets, None if noise is None else noise[chosen]), units


def _losses(process: ExactGP, points: FloatArray, y: FloatArray) -> FloatArray:
    mean, variance = process.law(points, "variance")
    assert variance is not None
    return point_nlpd(y, mean, np.sqrt(variance))


def _nearby(prior: StationaryPrior) -> Iterator[tuple[str, StationaryPrior]]:
    hyper = prior.hyperparameters
    for name, factor in (("lengthscales twice as long", 2.0), ("lengthscales half as long", 0.5)):
        changed = replace(hyper, lengthscale=factor * hyper.lengthscale)
        yield name, replace(prior, hyperparameters=changed)
    for name, factor in (("four times the noise variance", 4.0), ("a quarter of the noise", 0.25)):
        yield name, replace(prior, hyperparameters=replace(hyper, noise=factor * hyper.noise))
    for kind, spectrum in _neighbours(prior.spectrum):
        yield f"a {kind} kernel ({spectrum!r})", replace(prior, spectrum=spectrum)


def _neighbours(spectrum: Spectrum) -> Iterator[tuple[str, Spectrum]]:
    """The next rougher and the next smoother kernel."""
    if isinstance(spectrum, GaussianSpectrum):
        own = np.inf
    elif isinstance(spectrum, MaternSpectrum):
        own = float(spectrum.nu)
    else:
        return
    rougher = [nu for nu in ROUGHNESS if nu < own]
    smoother = [nu for nu in ROUGHNESS if nu > own]
    if rougher:
        yield "rougher", MaternSpectrum(rougher[-1])
    if smoother:
        nu = smoother[0]
        yield "smoother", GaussianSpectrum() if np.isinf(nu) else MaternSpectrum(nu)
