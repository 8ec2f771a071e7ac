"""Kernels near the model's on the same rows: by evidence, and by held-out density.

A stationary kernel is varied one thing at a time, without a fit: lengthscales twice and half as
long, a quarter to 25 times the noise, rougher and smoother kernels, the product Laplace kernel,
additive kernels and a trend, of lengthscales to match. An expression has a term more or less. If
the kernel were true, another one fixed beforehand would have a log evidence higher by e nats with a
probability of at most `exp(-e)` (Markov's inequality for the ratio of two densities), so that a
limit on e limits false alarms whatever the data.

About the most likely of these, ranges and sizes vary along one column. With the place
`z in [-1, 1]` of a value in the range of its column, a stationary kernel k becomes

    range:  k(w(x), w(x')),              w monotone in z,  dw/dz = exp(a g(z)) / c,
    size:   s(x) s(x') k(x, x'),         s = exp(a g(z)),

with `g(z) = z` (a course along the column) or `g(z) = 1 - 2 |z|` (its middle beside its ends). A
range differs `exp(2 a)` times between both ends, and is c times the kernel's own at the geometric
mean. Data are seen through such a change: rows at w(x), targets divided by s and noise by s^2
(Sampson and Guttorp, 1992, JASA 87, warp rows likewise). All M changes are tried on few rows, the
most likely ones on more, and `log M` is taken off the evidence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.special import gammaln

from coupledgp.core.process import Data, GaussianProcess
from coupledgp.core.units import Units
from coupledgp.diagnostics.scores import MeanOverPoints, paired_difference
from coupledgp.diagnostics.sources.own import some_rows
from coupledgp.diagnostics.tables import (
    AMBER,
    BETTER,
    GREEN,
    MATTERS,
    RED,
    SERIOUS,
    TOLD,
    Check,
    Tables,
)
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

# Log evidence, in nats, above which a nearby kernel is better: one of nineteen has it by chance in
# 19 exp(-6) = 4.7 % of true models at most.
EVIDENCE = 6.0
# Standard errors of the gain where a range or size varies: the evidence, from which the logarithm
# of the number of changes is taken off, bounds what chance does.
HINTED = 1.0
# Smoothness of kernels, and factors on lengthscales at which draws of them look most alike: rougher
# kernels have longer ones.
SMOOTHNESS = {0.5: 4.0, 1.5: 1.8, 2.5: 1.3, np.inf: 1.0}
# Most columns of an additive kernel, and shares of the variance of its columns, of its pairs and of
# the product over all columns; factors on the noise beside another kernel.
MOST_TERMS, SHARES = 50, (0.6, 0.3, 0.1)
NOISES = ((1.0, ""), (0.25, ", a quarter of the noise"))
# Training and test rows that each kernel is given, of more a random subset.
MOST_ROWS, MOST_TESTS = 700, 300
# Strengths a of changes and factors c on the range; rows on which all changes and the best ones are
# tried; columns that are tried, those of the most lengthscales, and their fewest values; largest
# exponent of a change; distance of a middle from zero, in half widths, that a formula leaves out.
RANGES = ((0.5, 1.0), (0.5, 1.5), (1.0, 1.0), (1.0, 2.0), (1.5, 2.0), (2.0, 2.0), (2.0, 3.0))
SIZES = (0.5, 1.0, 1.5)
FEW, MANY, N_BEST = (160, 100), (400, 200), 3
MOST_COLUMNS, LEAST_VALUES, FURTHEST, NEAR = 3, 20, 30.0, 0.05


class Nearby(NamedTuple):
    """A kernel near the model's, given the same rows.

    Attributes
    ----------
    name : str
        How it differs, in words.
    remedy : str
        What to do, as a sentence.
    evidence : float
        Log evidence of training and test rows above that of the model's kernel, nats.
    choosing : float
        That of the training rows alone: they choose the kernel that is advised, so that its gain
        is measured on rows that did not.
    gain : MeanOverPoints
        Decrease of the NLPD at the test points beside the model's kernel, nats per point.
    n_rows : int
    varies : bool
        Whether its range or size varies along a column.
    is_advised : bool
        Whether following it gains on fresh rows what is stated. A size that varies is named as a
        fault and not advised: fits of divided targets lost .05 nats where .11 were stated.
    """

    name: str
    remedy: str
    evidence: float
    choosing: float
    gain: MeanOverPoints
    n_rows: int
    varies: bool = False
    is_advised: bool = True


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


def kernels_beside(
    problem: DenseProblem, points: FloatArray, y: FloatArray, names: tuple[str, ...], seed: int = 0
) -> list[Nearby]:
    """Kernels near that of a problem, at test rows (p, d) with targets (p, k) and named columns."""
    own, data, units = _stated(problem, seed)
    chosen = some_rows(len(points), MOST_TESTS, [seed, 13])
    everything = data.followed_by(Data.of(points[chosen], y[chosen]))

    def measured(prior: DensePrior) -> tuple[FloatArray, float, float] | None:
        """Losses at the test rows, and the evidence of all rows and of the training rows."""
        try:
            process = ExactGP.given(prior, data, units, False)
            whole = ExactGP.given(prior, everything, units, False).log_evidence
            mean, variance = process.law(points, "variance")
        except CoupledGPError:
            return None
        assert variance is not None
        return _losses(y, mean, np.sqrt(variance)), whole, process.log_evidence

    base = measured(own)
    if base is None:
        return []
    found, likeliest, most = [], _Prior("", "", own), EVIDENCE
    for one in _nearby(own, data.points):
        other = measured(one.prior)
        if other is None:
            continue
        gain = other[1] - base[1]
        gap = paired_difference(base[0], other[0])
        found.append(Nearby(one.name, one.remedy, gain, other[2] - base[2], gap, len(everything)))
        if gain > most:
            likeliest, most = one, gain
    sample = _sample(data, units, points, y)
    return [*found, *_varying(likeliest, sample, names, seed)]


def kernels_left_out(problem: DenseProblem, names: tuple[str, ...], seed: int = 0) -> list[Nearby]:
    """Kernels near that of a problem, where each of its own rows is predicted from the others.

    The evidence is that of the observations alone; at most `MOST_ROWS` of them.
    """
    own, data, units = _stated(problem, seed)
    sample = _sample(data, units)
    base = sample.tried(own)
    if base is None:
        return []
    found, likeliest, most = [], _Prior("", "", own), EVIDENCE
    for one in _nearby(own, data.points):
        other = sample.tried(one.prior)
        if other is None:
            continue
        gap, gain = paired_difference(base.losses, other.losses), other.evidence - base.evidence
        found.append(Nearby(one.name, one.remedy, gain, gain, gap, len(data)))
        if gain > most:
            likeliest, most = one, gain
    return [*found, *_varying(likeliest, sample, names, seed)]


def _stated(problem: DenseProblem, seed: int) -> tuple[DensePrior, Data, Units]:
    """The prior of a problem, at most `MOST_ROWS` of its rows, and the units of its targets."""
    own = problem.data.take(some_rows(len(problem.data), MOST_ROWS, [seed, 11]))
    return problem.prior, Data.of(own.points, own.targets, own.relative_noise), problem.units


def _losses(y: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """Negative log densities (p, k), nats."""
    half = 0.5 * np.log(2 * np.pi)
    return np.asarray(0.5 * np.square((y - mean) / std) + np.log(std) + half)


# Kernels near a stationary one or an expression.


class _Prior(NamedTuple):
    """A prior near a model's: how it differs, what to do, and itself."""

    name: str
    remedy: str
    prior: DensePrior


def _fit(kernel: str, name: str) -> str:
    where = ""
    if kernel == "laplace":
        where = " by an exact or local model, since it has no random features"
    elif OPERATORS & set(kernel):
        where = " by ExactGPRegressor or GPRegressor"
    return f"Fit kernel={kernel!r} ({name}){where}."


def _again(name: str) -> str:
    return f"Fit again, with more restarts, or starting at {name}."


def _nearby(prior: DensePrior, rows: FloatArray) -> Iterator[_Prior]:
    """Priors near that of a stationary kernel or of an expression; none for others.

    A trend is over columns that are standardised by rows (n, d).
    """
    if isinstance(prior, StationaryPrior):
        yield from _of_stationary(prior)
        yield from _additive(prior)
        if np.ptp(rows, axis=0).all():
            yield _with_trend(prior, rows)
    elif isinstance(prior, KernelPrior):
        yield from _of_expression(prior)


def _of_stationary(prior: StationaryPrior) -> Iterator[_Prior]:
    hyper = prior.hyperparameters
    for name, factor in (("lengthscales twice as long", 2.0), ("lengthscales half as long", 0.5)):
        changed = replace(hyper, lengthscale=factor * hyper.lengthscale)
        yield _Prior(name, _again(name), replace(prior, hyperparameters=changed))
    for factor in (25.0, 4.0, 0.25, 0.04):
        name = f"the noise variance times {factor:g}"
        changed = replace(hyper, noise=factor * hyper.noise)
        yield _Prior(name, _again(name), replace(prior, hyperparameters=changed))
    for spectrum, factor in _others(prior.spectrum, hyper.lengthscale.size):
        for share, text in NOISES:
            changed = replace(
                hyper, lengthscale=factor * hyper.lengthscale, noise=share * hyper.noise
            )
            kernel = str(spectrum_text(spectrum))
            name = f"{kernel}, lengthscales times {factor:.2g}{text}"
            other = replace(prior, spectrum=spectrum, hyperparameters=changed)
            yield _Prior(name, _fit(kernel, name), other)


def _additive(prior: StationaryPrior) -> Iterator[_Prior]:
    """Additive kernels of columns and pairs, of the variance of a stationary one.

    A distance in d columns is that in one times `d^1/2`, so that lengthscales of single columns are
    tried as they are and shorter by this factor.
    """
    hyper, dim = prior.hyperparameters, prior.hyperparameters.lengthscale.size
    if not 1 < dim <= MOST_TERMS:
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
            name = f"{kernel}, lengthscales times {factor:.2g}{text}"
            yield _Prior(name, _fit(str(kernel), name), other)


def _with_trend(prior: StationaryPrior, rows: FloatArray) -> _Prior:
    """A stationary kernel and a linear trend, of the variance at the mean of its prior."""
    hyper, dim = prior.hyperparameters, rows.shape[1]
    center, spread = rows.mean(axis=0), rows.std(axis=0)
    kernel = Sum((prior.spectrum, Linear()))
    lengths = np.log(np.broadcast_to(hyper.lengthscale, dim) / spread)
    vector = np.concatenate(
        [np.log([hyper.noise, hyper.outputscale]), lengths, [Linear.variance_mean]]
    )
    other = KernelPrior(kernel, vector, RowColumns.plain(dim), center, spread)
    return _Prior("a linear trend", _fit(str(kernel), "a linear trend"), other)


def _of_expression(prior: KernelPrior) -> Iterator[_Prior]:
    """An expression with a further term, at the means of its priors, or without one of its own."""
    own = prior.kernel.terms if isinstance(prior.kernel, Sum) else (prior.kernel,)
    sizes = [_theta(prior, term).size for term in own]
    parts = np.split(prior.theta, np.cumsum(sizes)[:-1])
    has_pairs = any(isinstance(term, Additive) and term.order > 1 for term in own)
    lacking: list[Kernel] = [] if Linear() in own else [Linear()]
    if not has_pairs and 1 < len(prior.columns.labels) <= MOST_TERMS:
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
) -> _Prior:
    kernel = terms[0] if len(terms) == 1 else Sum(terms)
    vector = np.concatenate([prior.vector[:1], *theta])
    return _Prior(name, _fit(str(kernel), name), replace(prior, kernel=kernel, vector=vector))


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


# Ranges and sizes that vary.


class _Change(NamedTuple):
    """A range or a size that varies along a column, about the middle of its range.

    `of_range`: the range varies, or else the size; `is_course`: from end to end, or else between
    the middle and the ends. `strength` and `longer` are a and c of the module's formulas.
    """

    column: int
    middle: float
    half: float
    of_range: bool
    is_course: bool
    strength: float
    longer: float = 1.0

    def rows(self, rows: FloatArray) -> FloatArray:
        """Rows (n, d) at which the kernel is asked."""
        if not self.of_range:
            return rows
        z, a = self._places(rows), self.strength
        if self.is_course:
            moved = np.expm1(np.clip(a * z, -FURTHEST, FURTHEST)) / a
        else:
            steps = np.clip(2 * a * np.abs(z), -FURTHEST, FURTHEST)
            moved = np.sign(z) * np.exp(a) * -np.expm1(-steps) / (2 * a)
        found = rows.copy()
        found[:, self.column] = self.half * moved / self.longer
        return found

    def sizes(self, rows: FloatArray) -> FloatArray:
        """Sizes s (n,) of the function at rows."""
        if self.of_range:
            return np.ones(len(rows))
        z = self._places(rows)
        shape = z if self.is_course else 1 - 2 * np.abs(z)
        return np.asarray(np.exp(np.clip(self.strength * shape, -FURTHEST, FURTHEST)))

    def _places(self, rows: FloatArray) -> FloatArray:
        return np.asarray((rows[:, self.column] - self.middle) / self.half)

    def text(self, name: str) -> str:
        """The change in words; `name` is that of the column."""
        ratio = f"{np.exp(2 * abs(self.strength)):.2g} times"
        up = self.strength > 0
        if self.is_course:
            where = f"at {'large' if up else 'small'} values of column `{name}`"
        else:
            where = f"{'in the middle' if up else 'at both ends'} of column `{name}`"
        kind, more = ("range", "shorter") if self.of_range else ("size", "larger")
        return f"a {kind} that is {ratio} {more} {where} than elsewhere"

    def remedy(self, name: str) -> str:
        """What to do, as a sentence."""
        rate, away = self.strength / self.half, "x"
        if abs(self.middle) >= NEAR * self.half:
            away = f"(x {'-' if self.middle > 0 else '+'} {abs(self.middle):.4g})"
        if self.is_course:
            stretch = f"np.exp({rate:.3g} * {away})"
        elif not self.of_range:
            stretch = f"np.exp({-2 * rate:.3g} * np.abs({away}))"
        else:
            sign = "-" if self.strength > 0 else ""
            stretch = f"np.sign({away}) * {sign}np.expm1({-2 * rate:.3g} * np.abs({away}))"
        if self.of_range:
            return (
                f"The function is not stationary: its range varies along column `{name}`. Give the "
                f"model {stretch} in place of x, the values of this column."
            )
        return (
            f"The function is not stationary: its size varies along column `{name}`. Fit "
            f"(y - mean) / s with s = {stretch}, x the values of this column, and "
            "sample_noise=noise / s**2."
        )


class _Tried(NamedTuple):
    """How a kernel predicts a sample.

    `losses` (p, k) are those of the other rows, `evidence` that of all rows, `choosing` that of the
    known rows, or of the first half where all are known: rows that choose a change.
    """

    losses: FloatArray
    evidence: float
    choosing: float


class _Sample(NamedTuple):
    """Known rows (n, d), then others, with normalised targets (n, k) and relative noise (n,).

    `n_known` rows predict the others; if all are known each is predicted from the others.
    """

    rows: FloatArray
    targets: FloatArray
    noise: FloatArray
    n_known: int

    def some(self, known: int, others: int, seed: int) -> _Sample:
        """At most so many known and other rows, drawn at random."""
        n = len(self.rows)
        a = some_rows(self.n_known, known if self.n_known < n else known + others, [seed, 31])
        b = self.n_known + some_rows(n - self.n_known, others, [seed, 37])
        chosen = np.concatenate([a, b])
        return _Sample(self.rows[chosen], self.targets[chosen], self.noise[chosen], len(a))

    def shuffled(self, seed: int) -> _Sample:
        """The rows in a random order, all of them known."""
        order = np.random.default_rng([seed, 43]).permutation(len(self.rows))
        return _Sample(self.rows[order], self.targets[order], self.noise[order], self.n_known)

    def tried(self, prior: DensePrior, change: _Change | None = None) -> _Tried | None:
        """Losses and evidence by a kernel seen through a change; None where it is singular."""
        rows = self.rows if change is None else change.rows(self.rows)
        s = np.ones(len(rows)) if change is None else change.sizes(self.rows)
        gram = prior.covariance(rows, rows)
        gram[np.diag_indices(len(rows))] += prior.noise * self.noise / np.square(s)
        try:
            factor = np.linalg.cholesky(gram)
        except np.linalg.LinAlgError:
            return None
        y = self.targets / s[:, None]
        white = solve_triangular(factor, y, lower=True, check_finite=False)
        logs = np.log(factor.diagonal()) + np.log(s)
        parts = -0.5 * np.square(white).sum(axis=1) - y.shape[1] * logs
        n, m = len(rows), self.n_known
        evidence, choosing = float(parts.sum()), float(parts[: m if m < n else n // 2].sum())
        if m < n:
            cross = factor[m:, :m]
            mean = cross @ white[:m]
            variance = gram.diagonal()[m:] - np.square(cross).sum(axis=1)
            y, s = y[m:], s[m:]
        else:  # the conditional law of each row, from the inverse covariance
            inverse = cho_solve((factor, True), np.eye(n), check_finite=False)
            variance = 1 / inverse.diagonal()
            mean = y - variance[:, None] * (inverse @ y)
        std = np.sqrt(np.maximum(variance, 1e-300))[:, None]
        return _Tried(_losses(y, mean, std) + np.log(s)[:, None], evidence, choosing)


def _sample(
    data: Data, units: Units, points: FloatArray | None = None, y: FloatArray | None = None
) -> _Sample:
    """Observations, and tests if there are any, in normalised units."""
    noise = np.ones(len(data)) if data.relative_noise is None else data.relative_noise
    rows, targets = data.points, units.normalized(data.targets)
    if points is not None and y is not None:
        rows = np.vstack([rows, points])
        targets = np.vstack([targets, units.normalized(y)])
        noise = np.concatenate([noise, np.ones(len(points))])
    return _Sample(rows, targets, noise, len(data))


def _varying(base: _Prior, sample: _Sample, names: tuple[str, ...], seed: int) -> Iterator[Nearby]:
    """The change that rows make most likely, about a kernel near the model's; or none.

    The known rows choose it, or a half of them at random where there are no others.
    """
    if sample.n_known == len(sample.rows):
        sample = sample.shuffled(seed)
    few, many = sample.some(*FEW, seed), sample.some(*MANY, seed)
    changes = list(_changes(base.prior, few.rows[: few.n_known]))
    scored = [(one, tried) for one in changes if (tried := few.tried(base.prior, one)) is not None]
    plain = many.tried(base.prior)
    if not scored or plain is None:
        return
    scored.sort(key=lambda one: -one[1].choosing)
    again = [(one, many.tried(base.prior, one)) for one, _ in scored[:N_BEST]]
    known = [(change, found) for change, found in again if found is not None]
    if not known:
        return
    change, best = max(known, key=lambda one: one[1].choosing)
    measured = slice(0 if many.n_known < len(many.rows) else len(many.rows) // 2, None)
    gap = paired_difference(plain.losses[measured], best.losses[measured])
    penalty = float(np.log(len(changes)))
    name = names[change.column]
    text = f"{base.name}, and {change.text(name)}" if base.name else change.text(name)
    beside = f" The gain is that beside the kernel with {base.name}." if base.name else ""
    yield Nearby(
        text, change.remedy(name) + beside, best.evidence - plain.evidence - penalty,
        best.choosing - plain.choosing - penalty, gap, len(many.rows), True, change.of_range,
    )  # fmt: skip


def _changes(prior: Any, rows: FloatArray) -> Iterator[_Change]:
    """Changes along the columns that span the most lengthscales."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    lengthscale = np.broadcast_to(prior.hyperparameters.lengthscale, low.shape)
    order = np.argsort(-(high - low) / lengthscale, kind="stable")
    wide = [k for k in order.tolist() if np.unique(rows[:, k]).size >= LEAST_VALUES]
    for k in wide[:MOST_COLUMNS]:
        middle, half = 0.5 * float(low[k] + high[k]), 0.5 * float(high[k] - low[k])
        for is_course in (True, False):
            for sign in (1, -1):
                for a, longer in RANGES:
                    yield _Change(k, middle, half, True, is_course, sign * a, longer)
                for a in SIZES:
                    yield _Change(k, middle, half, False, is_course, sign * a)


def kernel_checks(tables: Tables) -> list[Check]:
    """Kernels near the model's, each beside it; fired where evidence and held-out density agree.

    The one that the training rows choose is first: a kernel that varies along a column about the
    most likely of the others, or else that.
    """
    p, source = tables.predictions, tables.source
    process = getattr(source, "process", None)
    problem = problem_of(process)
    if problem is None or p.y is None:
        return []
    left_out = tables.left_out
    if left_out is None:
        found = kernels_beside(problem, source.points, p.y, source.columns, tables.seed)
    elif left_out.leaves_one:
        found = kernels_left_out(problem, source.columns, tables.seed)
    else:
        return []
    found.sort(key=lambda one: (-one.choosing, -one.gain.mean))
    checks = [_check(one) for one in found]
    return [one for one in checks if one.fired] + [one for one in checks if not one.fired]


def _check(one: Nearby) -> Check:
    gain, error = one.gain.mean, one.gain.standard_error
    clear = gain > max((HINTED if one.varies else TOLD) * error, MATTERS)
    fired = one.evidence > EVIDENCE and bool(np.isfinite(error)) and clear
    fault = (
        "Its kernel is stationary, the function is not"
        if one.varies
        else "Its kernel or its fit is not the best"
    )
    colour = GREEN
    if fired:
        colour = RED if gain > SERIOUS else AMBER
    return Check(
        BETTER, "nearby kernel", colour,
        f"{fault}: {one.name} and no other change gains {gain:.2g} nats per point; the log "
        f"evidence of {one.n_rows} rows is higher by {one.evidence:.3g}."
        if fired
        else f"With {one.name} and no other change the log evidence of {one.n_rows} rows differs "
        f"by {one.evidence:+.3g}.",
        fired, one.name, one.evidence, 0.0, float(np.exp(-max(one.evidence, 0.0))),
        float(np.exp(-EVIDENCE)), gain, error, "held out",
        one.remedy if one.is_advised else "",
    )  # fmt: skip
