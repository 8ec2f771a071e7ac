"""Nearby hyperparameters and kernels beside the model's: by evidence and held-out density.

A stationary kernel is varied one thing at a time, without a fit: lengthscales twice and half as
long, a quarter to 25 times the noise, rougher and smoother kernels and the product Laplace kernel,
of lengthscales to match.
Each variation and the kernel itself are given the same training rows, at most `MOST_ROWS` of them;
the evidence is that of these and of at most `MOST_TESTS` test rows.

If the kernel were true, another one fixed beforehand would have a log evidence higher by e nats
with a probability of at most `exp(-e)` (Markov's inequality for the ratio of two densities), so
that a limit on e limits false alarms whatever the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

from coupledgp.diagnostics.scoring.scores import paired_difference, point_nlpd
from coupledgp.diagnostics.scoring.subject import Subject, some_rows
from coupledgp.errors import CoupledGPError
from coupledgp.gp.exact import ExactGP, StationaryPrior
from coupledgp.gp.protocol import Data
from coupledgp.gp.state import text_of
from coupledgp.gp.units import Units
from coupledgp.inference.dense.system import ExactProblem
from coupledgp.inference.evidence.problem import Hyperparameters
from coupledgp.metrics import Metric
from coupledgp.random import FloatArray
from coupledgp.spectra import GaussianSpectrum, MaternSpectrum, ProductLaplace, Spectrum

# Training and test rows that each variation is given, of more a random subset: a few hundredths of
# a second each.
MOST_ROWS, MOST_TESTS = 700, 300
# Smoothness of kernels, and factors on lengthscales at which draws of them look most alike: rougher
# kernels have longer ones.
SMOOTHNESS = {0.5: 4.0, 1.5: 1.8, 2.5: 1.3, np.inf: 1.0}
# What to say of kernels that not every model takes.
_WHERE = {"laplace": " by an exact or local model, since it has no random features"}


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
    """

    name: str
    kernel: str
    evidence_gain: float
    n_rows: int
    gain: float
    standard_error: float | None

    @property
    def action(self) -> str:
        """What to do, as a sentence."""
        if self.kernel:
            return f"Fit kernel={self.kernel!r} ({self.name}){_WHERE.get(self.kernel, '')}."
        return f"Fit again, with more restarts, or starting at {self.name}."


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
    if not isinstance(problem, ExactProblem) or not np.ptp(problem.targets):
        return ()
    return variations_of(problem, subject.points, y, seed)


def variations_of(
    problem: ExactProblem, points: FloatArray, y: FloatArray, seed: int = 0
) -> tuple[Variation, ...]:
    """Vary the kernel of a problem at test rows (p, d) with targets (p, k)."""
    data, units = _rows(problem, seed)
    everything = _with_tests(data, points, y, seed)
    hyper = Hyperparameters(problem.lengthscale, problem.outputscale, problem.noise)
    own = StationaryPrior(problem.spectrum, hyper)

    def measured(prior: StationaryPrior) -> tuple[FloatArray, float]:
        losses = _losses(prior.given(data, units, False), points, y)
        return losses, prior.given(everything, units, False).log_evidence

    try:
        base, evidence = measured(own)
    except CoupledGPError:
        return ()
    found = []
    for name, kernel, prior in _nearby(own):
        try:
            losses, other = measured(prior)
        except CoupledGPError:
            continue
        gap = paired_difference(base, losses)
        gain = other - evidence
        found.append(Variation(name, kernel, gain, len(everything), gap.mean, gap.standard_error))
    return tuple(found)


def _with_tests(data: Data, points: FloatArray, y: FloatArray, seed: int) -> Data:
    """Training rows and at most `MOST_TESTS` of the test rows."""
    chosen = some_rows(len(points), MOST_TESTS, [seed, 13])
    return data.followed_by(Data.of(points[chosen], y[chosen]))


def _rows(problem: ExactProblem, seed: int) -> tuple[Data, Units]:
    """At most `MOST_ROWS` rows of a problem, and the units of its targets."""
    units = Units(problem.offset, problem.scale)
    chosen = some_rows(len(problem.X), MOST_ROWS, [seed, 11])
    noise = problem.relative_noise
    targets = units.mean(problem.targets[chosen])
    return Data.of(problem.X[chosen], targets, None if noise is None else noise[chosen]), units


def _losses(process: ExactGP, points: FloatArray, y: FloatArray) -> FloatArray:
    mean, variance = process.law(points, "variance")
    assert variance is not None
    return point_nlpd(y, mean, np.sqrt(variance))


def _nearby(prior: StationaryPrior) -> Iterator[tuple[str, str, StationaryPrior]]:
    hyper = prior.hyperparameters
    for name, factor in (("lengthscales twice as long", 2.0), ("lengthscales half as long", 0.5)):
        changed = replace(hyper, lengthscale=factor * hyper.lengthscale)
        yield name, "", replace(prior, hyperparameters=changed)
    for factor in (25.0, 4.0, 0.25, 0.04):
        name = f"the noise variance times {factor:g}"
        yield name, "", replace(prior, hyperparameters=replace(hyper, noise=factor * hyper.noise))
    for spectrum, factor in _others(prior.spectrum, hyper.lengthscale.size):
        for share, text in ((1.0, ""), (0.25, ", a quarter of the noise")):
            changed = replace(
                hyper, lengthscale=factor * hyper.lengthscale, noise=share * hyper.noise
            )
            kernel = text_of(spectrum, "kernel")
            name = f"{kernel}, lengthscales times {factor:.2g}{text}"
            yield name, kernel, replace(prior, spectrum=spectrum, hyperparameters=changed)


def _others(spectrum: Spectrum, dim: int) -> Iterator[tuple[Spectrum, float]]:
    """Kernels of another smoothness or metric, and factors on the d lengthscales that fit them."""
    if spectrum.smoothness is None:
        return
    own = _length(spectrum, dim)
    others: list[Spectrum] = [
        GaussianSpectrum() if np.isinf(nu) else MaternSpectrum(nu) for nu in SMOOTHNESS
    ]
    if dim > 1:  # of one column it is the Matern-1/2 kernel
        others.append(ProductLaplace())
    for other in others:
        if other != spectrum:
            yield other, _length(other, dim) / own


def _length(spectrum: Spectrum, dim: int) -> float:
    """Lengthscale at which draws of a kernel of d columns look most like those of the Gaussian one.

    Distances in the metric "l1" are longer than Euclidean ones by the mean of their ratio over
    all directions, `d Gamma(d/2) / (sqrt(pi) Gamma((d + 1)/2))`.
    """
    nu = spectrum.smoothness
    assert nu is not None
    if np.isinf(nu):
        return SMOOTHNESS[np.inf]
    length = float(np.interp(nu, list(SMOOTHNESS)[:3], list(SMOOTHNESS.values())[:3]))
    if spectrum.metric == Metric.L2:
        return length
    return float(length * dim * np.exp(gammaln(dim / 2) - gammaln((dim + 1) / 2)) / np.sqrt(np.pi))
