"""Functions that are not stationary: kernels whose range or size varies along one column.

With the place `z in [-1, 1]` of a value in the range of its column, a stationary kernel k becomes

    range:  k(w(x), w(x')),              w monotone in z,  dw/dz = exp(a g(z)) / c,
    size:   s(x) s(x') k(x, x'),         s = exp(a g(z)),

with `g(z) = z` (a course along the column) or `g(z) = 1 - 2 |z|` (its middle beside its ends). A
range differs `exp(2 a)` times between both ends, and is c times the kernel's own at the geometric
mean. Data are seen through such a change: rows at w(x), targets divided by s and noise by s^2, so
that every kernel of rows can be tried (Sampson and Guttorp, 1992, JASA 87, warp rows likewise).

All changes are tried on few rows, and the most likely ones on more. If the kernel were true, one of
M others fixed beforehand would have a log evidence higher by `e + log M` nats with a probability of
at most `exp(-e)`, so that `log M` is taken off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from coupledgp.diagnostics.scoring.scores import paired_difference, point_nlpd
from coupledgp.diagnostics.scoring.subject import some_rows
from coupledgp.random import FloatArray
from coupledgp.tables.dense_prior import DensePrior

# Strengths a of the changes, and factors c on the range beside its variation.
RANGES = ((0.5, 1.0), (0.5, 1.5), (1.0, 1.0), (1.0, 2.0), (1.5, 2.0), (2.0, 2.0), (2.0, 3.0))
SIZES = (0.5, 1.0, 1.5)
# Known and other rows on which all changes, and on which the best are tried.
FEW, MANY, N_BEST = (160, 100), (400, 200), 3
# Columns that are tried, those of the most lengthscales, and fewest different values of one.
MOST_COLUMNS, LEAST_VALUES = 3, 20
# Largest exponent of a change beyond the known rows.
FURTHEST = 30.0
# Distance of a middle from zero, in half widths, that a formula leaves out.
NEAR = 0.05


@dataclass(frozen=True)
class Change:
    """A range or a size of a function that varies along a column.

    Attributes
    ----------
    column : int
        Number of the column.
    middle, half : float
        Middle of its range, and half its width, in units of the column.
    of_range : bool
        Whether the range varies, or else the size.
    is_course : bool
        Whether it varies from end to end, or else between the middle and the ends.
    strength, longer : float
        The numbers a and c of the module's formulas.
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
        kind = "range" if self.of_range else "size"
        more = "shorter" if self.of_range else "larger"
        return f"a {kind} that is {ratio} {more} {where} than elsewhere"

    def remedy(self, name: str) -> str:
        """What to do, as a sentence."""
        rate, away = self.strength / self.half, self._away()
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

    def _away(self) -> str:
        """Distance of x from the middle; x itself where it is hardly away."""
        if abs(self.middle) < NEAR * self.half:
            return "x"
        return f"(x {'-' if self.middle > 0 else '+'} {abs(self.middle):.4g})"


class KernelOnSample(NamedTuple):
    """How a kernel predicts a sample.

    Attributes
    ----------
    losses : FloatArray (p, k)
        Negative log densities of the other rows, nats.
    evidence : float
        Log evidence of all rows, but for a constant that all kernels share.
    choosing : float
        That of the known rows, or of the first half where all are known: rows that choose a change,
        so that its gain is measured on others.
    """

    losses: FloatArray
    evidence: float
    choosing: float


class Sample(NamedTuple):
    """Known rows, then others, with targets in normalised units.

    Attributes
    ----------
    rows : FloatArray (n, d)
    targets : FloatArray (n, k)
    noise : FloatArray (n,)
        Variances of the noise over the prior's.
    n_known : int
        Rows from which the others are predicted; all of them: each is predicted from the others.
    """

    rows: FloatArray
    targets: FloatArray
    noise: FloatArray
    n_known: int

    def some(self, known: int, others: int, seed: int) -> Sample:
        """At most so many known and other rows, drawn at random."""
        n = len(self.rows)
        a = some_rows(self.n_known, known if self.n_known < n else known + others, [seed, 31])
        b = self.n_known + some_rows(n - self.n_known, others, [seed, 37])
        chosen = np.concatenate([a, b])
        return Sample(self.rows[chosen], self.targets[chosen], self.noise[chosen], len(a))

    def shuffled(self, seed: int) -> Sample:
        """The rows in a random order, all of them known."""
        order = np.random.default_rng([seed, 43]).permutation(len(self.rows))
        return Sample(self.rows[order], self.targets[order], self.noise[order], self.n_known)

    def tried(self, prior: DensePrior, change: Change | None = None) -> KernelOnSample | None:
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
        return KernelOnSample(point_nlpd(y, mean, std) + np.log(s)[:, None], evidence, choosing)


class Varied(NamedTuple):
    """The change of the greatest evidence, beside the kernel without one.

    Attributes
    ----------
    change : Change
    evidence_gain : float
        Log evidence above that of the kernel, less the logarithm of the number of changes, nats.
    n_rows : int
        Rows of the evidence.
    gain, standard_error : float, float or None
        Decrease of the NLPD of rows that did not choose the change, nats per point.
    choosing : float
        Log evidence of the rows that did above that of the kernel, less the same logarithm.
    """

    change: Change
    evidence_gain: float
    n_rows: int
    gain: float
    standard_error: float | None
    choosing: float


def varied(prior: DensePrior, sample: Sample, seed: int = 0) -> Varied | None:
    """The change of range or size that rows make most likely; None where none can be tried.

    The known rows choose it, or a half of them at random where there are no others.
    """
    if sample.n_known == len(sample.rows):
        sample = sample.shuffled(seed)
    few, many = sample.some(*FEW, seed), sample.some(*MANY, seed)
    changes = list(_changes(prior, few.rows[: few.n_known]))
    scored = [(one, tried) for one in changes if (tried := few.tried(prior, one)) is not None]
    plain = many.tried(prior)
    if not scored or plain is None:
        return None
    scored.sort(key=lambda one: -one[1].choosing)
    best: tuple[Change, KernelOnSample] | None = None
    for change, _ in scored[:N_BEST]:
        found = many.tried(prior, change)
        if found is not None and (best is None or found.choosing > best[1].choosing):
            best = change, found
    if best is None:
        return None
    measured = slice(0 if many.n_known < len(many.rows) else len(many.rows) // 2, None)
    gap = paired_difference(plain.losses[measured], best[1].losses[measured])
    penalty = float(np.log(len(changes)))
    gain, choosing = best[1].evidence - plain.evidence, best[1].choosing - plain.choosing
    return Varied(
        best[0], gain - penalty, len(many.rows), gap.mean, gap.standard_error, choosing - penalty
    )


def _changes(prior: DensePrior, rows: FloatArray) -> Iterator[Change]:
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
                    yield Change(k, middle, half, True, is_course, sign * a, longer)
                for a in SIZES:
                    yield Change(k, middle, half, False, is_course, sign * a)
