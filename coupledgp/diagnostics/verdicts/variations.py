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
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from coupledgp.core.process import Data, GaussianProcess
from coupledgp.core.units import Units
from coupledgp.diagnostics.scoring.scores import paired_difference, point_nlpd
from coupledgp.diagnostics.scoring.subject import Subject, some_rows
from coupledgp.diagnostics.verdicts.varying import Sample, Varied, varied
from coupledgp.diagnostics.verdicts.verdict import EVIDENCE
from coupledgp.errors import CoupledGPError
from coupledgp.expressions import OPERATORS, Kernel, Sum
from coupledgp.kernels.additive import BASES, Additive
from coupledgp.kernels.row_covariance import RowColumns
from coupledgp.kernels.rows import Linear
from coupledgp.metrics import Metric
from coupledgp.random import FloatArray
from coupledgp.spectra import (
    GaussianSpectrum,
    MaternSpectrum,
    ProductLaplace,
    Spectrum,
    spectrum_text,
)
from coupledgp.tables.dense_prior import DensePrior, DenseProblem, KernelPrior, covariance_of
from coupledgp.tables.exact_process import ExactGP, StationaryPrior

# Smoothness of kernels, and factors on lengthscales at which draws of them look most alike: rougher
# kernels have longer ones.
SMOOTHNESS = {0.5: 4.0, 1.5: 1.8, 2.5: 1.3, np.inf: 1.0}
# Most columns of an additive kernel, and shares of the variance of its columns, of its pairs and of
# the product over all columns.
MOST_COLUMNS, SHARES = 50, (0.6, 0.3, 0.1)
# Factors on the noise beside another kernel.
NOISES = ((1.0, ""), (0.25, ", a quarter of the noise"))
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
    choosing : float
        Log evidence of the training rows alone above that of the model's kernel: they choose the
        kernel that is advised, so that its gain is measured on rows that did not.
    is_advised : bool
        Whether following it gains on fresh rows what is stated. A size that varies is named as a
        fault and not advised: fits of divided targets lost .05 nats where .11 were stated.
    """

    name: str
    kernel: str
    evidence_gain: float
    n_rows: int
    gain: float
    standard_error: float | None
    remedy: str = ""
    choosing: float = 0.0
    is_advised: bool = True

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
    problem = problem_of(subject.process)
    if problem is None:
        return ()
    return variations_of(problem, subject.points, y, subject.input_names, seed)


def left_out_variations(
    process: GaussianProcess, names: tuple[str, ...] = (), seed: int = 0
) -> tuple[Variation, ...]:
    """Vary the kernel of a process at its own observations, each predicted from the others.

    Those of `variations`, with the evidence of the observations alone; at most `MOST_ROWS` of them.
    """
    problem = problem_of(process)
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
        found.append(
            Variation(
                one.name, one.kernel, gain, len(data), gap.mean, gap.standard_error, choosing=gain
            )
        )
        if gain > most:
            likeliest, most = one, gain
    return *found, *_varying(likeliest, sample, names, seed)


def problem_of(process: GaussianProcess | None) -> DenseProblem | None:
    """The exact problem of a process of a table, if it has one whose targets vary."""
    if process is None or not process.is_gaussian:
        return None
    try:
        problem = process.exact_problem()
    except CoupledGPError:
        return None
    if not isinstance(problem, DenseProblem) or not np.ptp(problem.targets):
        return None
    return problem


def variations_of(
    problem: DenseProblem,
    points: FloatArray,
    y: FloatArray,
    names: tuple[str, ...] = (),
    seed: int = 0,
) -> tuple[Variation, ...]:
    """Vary the kernel of a problem at test rows (p, d) with targets (p, k) and named columns."""
    own, data, units = _stated(problem, seed)
    everything = _with_tests(data, points, y, seed)

    def measured(prior: DensePrior) -> tuple[FloatArray, float, float]:
        process = ExactGP.given(prior, data, units, False)
        whole = ExactGP.given(prior, everything, units, False).log_evidence
        return _losses(process, points, y), whole, process.log_evidence

    try:
        base, evidence, known = measured(own)
    except CoupledGPError:
        return ()
    found, likeliest, most = [], Nearby("", "", own), EVIDENCE
    for one in nearby(own, data.points):
        try:
            losses, other, chosen = measured(one.prior)
        except CoupledGPError:
            continue
        gap = paired_difference(base, losses)
        gain = other - evidence
        found.append(
            Variation(
                one.name, one.kernel, gain, len(everything), gap.mean, gap.standard_error,
                choosing=chosen - known,
            )
        )  # fmt: skip
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
    beside = f" The gain is that beside the kernel with {base}." if base else ""
    return Variation(
        text, "", found.evidence_gain, found.n_rows, found.gain, found.standard_error,
        found.change.remedy(name) + beside, found.choosing, found.change.of_range,
    )  # fmt: skip


def _with_tests(data: Data, points: FloatArray, y: FloatArray, seed: int) -> Data:
    """Training rows and at most `MOST_TESTS` of the test rows."""
    chosen = some_rows(len(points), MOST_TESTS, [seed, 13])
    return data.followed_by(Data.of(points[chosen], y[chosen]))


def _stated(problem: DenseProblem, seed: int) -> tuple[DensePrior, Data, Units]:
    """The prior of a problem, at most `MOST_ROWS` of its rows, and the units of its targets."""
    own = problem.data.take(some_rows(len(problem.data), MOST_ROWS, [seed, 11]))
    return problem.prior, Data.of(own.points, own.targets, own.relative_noise), problem.units


def _losses(process: ExactGP, points: FloatArray, y: FloatArray) -> FloatArray:
    mean, variance = process.law(points, "variance")
    assert variance is not None
    return point_nlpd(y, mean, np.sqrt(variance))


class Nearby(NamedTuple):
    """A prior near a model's: how it differs, its kernel if that is another one, and itself."""

    name: str
    kernel: str
    prior: DensePrior


def nearby(prior: DensePrior, rows: FloatArray | None = None) -> Iterator[Nearby]:
    """Priors near that of a stationary kernel or of an expression; none for others.

    A trend is over columns that are standardised by rows (n, d); None: there is none.
    """
    if isinstance(prior, StationaryPrior):
        yield from _of_stationary(prior)
        yield from _additive(prior)
        if rows is not None and np.ptp(rows, axis=0).all():
            yield _with_trend(prior, rows)
    elif isinstance(prior, KernelPrior):
        yield from _of_expression(prior)


def _of_stationary(prior: StationaryPrior) -> Iterator[Nearby]:
    hyper = prior.hyperparameters
    for name, factor in (("lengthscales twice as long", 2.0), ("lengthscales half as long", 0.5)):
        changed = replace(hyper, lengthscale=factor * hyper.lengthscale)
        yield Nearby(name, "", replace(prior, hyperparameters=changed))
    for factor in (25.0, 4.0, 0.25, 0.04):
        name = f"the noise variance times {factor:g}"
        changed = replace(hyper, noise=factor * hyper.noise)
        yield Nearby(name, "", replace(prior, hyperparameters=changed))
    for spectrum, factor in _others(prior.spectrum, hyper.lengthscale.size):
        for share, text in NOISES:
            changed = replace(
                hyper, lengthscale=factor * hyper.lengthscale, noise=share * hyper.noise
            )
            kernel = str(spectrum_text(spectrum))
            name = f"{kernel}, lengthscales times {factor:.2g}{text}"
            yield Nearby(name, kernel, replace(prior, spectrum=spectrum, hyperparameters=changed))


def _additive(prior: StationaryPrior) -> Iterator[Nearby]:
    """Additive kernels of columns and pairs, of the variance of a stationary one.

    A distance in d columns is that in one times `d^1/2`, so that lengthscales of single columns are
    tried as they are and shorter by this factor.
    """
    hyper, dim = prior.hyperparameters, prior.hyperparameters.lengthscale.size
    if not 1 < dim <= MOST_COLUMNS:
        return
    spectrum = prior.spectrum
    kernel = Additive(2, spectrum if spectrum in BASES else MaternSpectrum(1.5))
    columns, pairs, full = np.multiply(SHARES, hyper.outputscale)
    of_column, of_pair = columns / dim, pairs / (dim * (dim - 1) / 2)
    scales = np.log([of_column, of_pair / of_column**2, full])
    for factor in (1.0, dim**-0.5):
        lengths = np.log(factor * hyper.lengthscale)
        for share, text in NOISES:
            vector = np.concatenate([[np.log(share * hyper.noise)], lengths, scales])
            other = KernelPrior(
                kernel, vector, RowColumns.plain(dim), np.zeros(dim), np.ones(dim)
            )  # fmt: skip
            yield Nearby(f"{kernel}, lengthscales times {factor:.2g}{text}", str(kernel), other)


def _with_trend(prior: StationaryPrior, rows: FloatArray) -> Nearby:
    """A stationary kernel and a linear trend, of the variance at the mean of its prior."""
    hyper, dim = prior.hyperparameters, rows.shape[1]
    center, spread = rows.mean(axis=0), rows.std(axis=0)
    kernel = Sum((prior.spectrum, Linear()))
    lengths = np.log(np.broadcast_to(hyper.lengthscale, dim) / spread)
    vector = np.concatenate(
        [np.log([hyper.noise, hyper.outputscale]), lengths, [Linear.variance_mean]]
    )
    other = KernelPrior(kernel, vector, RowColumns.plain(dim), center, spread)
    return Nearby("a linear trend", str(kernel), other)


def _of_expression(prior: KernelPrior) -> Iterator[Nearby]:
    """An expression with a further term, at the means of its priors, or without one of its own."""
    own = prior.kernel.terms if isinstance(prior.kernel, Sum) else (prior.kernel,)
    sizes = [_theta(prior, term).size for term in own]
    parts = np.split(prior.theta, np.cumsum(sizes)[:-1])
    has_pairs = any(isinstance(term, Additive) and term.order > 1 for term in own)
    lacking: list[Kernel] = [] if Linear() in own else [Linear()]
    if not has_pairs and 1 < len(prior.columns.labels) <= MOST_COLUMNS:
        lacking.insert(0, Additive(2))
    for further in lacking:
        terms, theta = (*own, further), [*parts, _theta(prior, further)]
        yield _changed(prior, terms, theta, f"a further term {further}")
    for place, term in enumerate(own if len(own) > 1 else ()):
        kept = own[:place] + own[place + 1 :]
        yield _changed(prior, kept, parts[:place] + parts[place + 1 :], f"no term {term}")


def _theta(prior: KernelPrior, term: Kernel) -> FloatArray:
    """Hyperparameters of a term of a sum, with its variance, at the means of their priors."""
    return covariance_of(term, prior.columns, prior.center, prior.spread).start


def _changed(
    prior: KernelPrior, terms: tuple[Kernel, ...], theta: list[FloatArray], name: str
) -> Nearby:
    kernel = terms[0] if len(terms) == 1 else Sum(terms)
    vector = np.concatenate([prior.vector[:1], *theta])
    return Nearby(name, str(kernel), replace(prior, kernel=kernel, vector=vector))


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
