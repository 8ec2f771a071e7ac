"""What cures a law whose shape is wrong: another scale, added noise, heavier tails, counts.

Each cure has one or two numbers, learned on other folds of the points, so that its gain in log
density is measured. With errors e of standard deviations s, residuals r and means m they are

| cure | law |
|---|---|
| scale | `e ~ N(0, c^2 s^2)`, `c^2` the mean of r^2 |
| noise | `e ~ N(0, s^2 + v)`, v the likeliest on a grid |
| tails | `r ~ c t_nu`, c and nu the likeliest on a grid |
| counts | negative binomial of means m and variances `m + a m^2`, a the likeliest on a grid |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, xlogy

from coupledgp.diagnostics.laws import Normal
from coupledgp.diagnostics.scores import paired_difference
from coupledgp.diagnostics.tables import (
    AMBER,
    GREEN,
    HONEST,
    MATTERS,
    RED,
    SERIOUS,
    Check,
    Tables,
)
from coupledgp.errors import CoupledGPError
from coupledgp.random import FloatArray

# Folds of points, nats of all points by which heavy tails are better than another scale, and
# standard errors by which added noise and counts are. A law that is learned elsewhere leads by e
# nats with a chance of `exp(-e)`: heavy tails make the standard errors of their own gain too large.
FOLDS, EVIDENCE, CLEAR, CLEAR_COUNTS = 5, 6.0, 2.5, 2.0
# Fewest points, and most training rows that are left out one by one to know the tails of errors.
FEWEST, MOST_LEFT_OUT = 30, 1000
# Added variances over the mean squared error, degrees of freedom, and factors on the scale.
VARIANCES = np.concatenate([[0.0], np.geomspace(1e-3, 2.0, 60)])
DEGREES = (2.2, 3.0, 4.0, 6.0, 10.0, 30.0)
FACTORS = np.geomspace(0.2, 2.0, 24)
# Excess variances over the squared mean; zero is Poisson's law. Least mean that is taken.
EXCESSES = np.concatenate([[0.0], np.geomspace(0.01, 10.0, 25)])
LEAST_MEAN = 0.05


class Cure(NamedTuple):
    """A cure: its factor, variance, degrees of freedom or excess; its gain over the law as it is.

    `lead` is what it gains over the best factor on the scale, with its standard error. All are
    nats per point, learned on other folds.
    """

    value: float
    gain: float
    lead: float
    lead_error: float


class Cures(NamedTuple):
    """The cures of a law of one output; `variance` is the mean stated one. None: not counts."""

    scale: Cure
    noise: Cure
    tails: Cure
    counts: Cure | None
    variance: float
    n_points: int

    @property
    def is_latent(self) -> bool:
        """Whether variances lack the noise: as much again is missing, and it beats any factor."""
        large = self.noise.value >= self.variance and self.noise.gain > SERIOUS
        least = max(MATTERS, CLEAR * (self.noise.lead_error or np.inf), self.tails.lead - MATTERS)
        return large and self.noise.lead > least

    @property
    def is_heavy(self) -> bool:
        """Whether Student's law is better than a normal one of any scale."""
        least = max(MATTERS, EVIDENCE / self.n_points)
        return min(self.tails.lead, 2 * self.tails.gain) > least and not self.is_latent

    @property
    def is_tails_alone(self) -> bool:
        """Whether tails are heavy, and more of the fault than the scale is."""
        return self.is_heavy and self.tails.lead >= self.scale.gain

    @property
    def is_counts(self) -> bool:
        """Whether a law of counts is better than the law, and than a normal one of any scale."""
        if self.counts is None:
            return False
        least = max(MATTERS, CLEAR_COUNTS * (self.counts.lead_error or np.inf))
        return min(self.counts.gain, self.counts.lead) > least

    @property
    def count_law(self) -> str:
        """Name of the likelihood of counts."""
        is_poisson = self.counts is not None and self.counts.value == 0.0
        return "poisson" if is_poisson else "negative-binomial"

    def joined_by(self, other: Cures | None) -> Cures:
        """These cures, with the tails of more points where they tell heavy ones."""
        if self.is_heavy or other is None or not other.is_heavy:
            return self
        return self._replace(tails=other.tails, n_points=other.n_points)


def cures(errors: FloatArray, std: FloatArray, y: FloatArray | None = None) -> Cures | None:
    """Cures of laws of standard deviations (p,) with errors (p,); None of few points.

    `y` are the targets (p,); counts are tried where all are whole numbers, none negative.
    """
    if len(errors) < FEWEST or not np.ptp(errors) > 0:
        return None
    folds = np.random.default_rng(29).permutation(len(errors)) % FOLDS
    plain = 0.5 * np.square(errors / std) + np.log(std)
    held: dict[str, FloatArray] = {}
    for name, (learn, losses) in CURES.items():
        held[name] = np.empty_like(errors)
        for fold in range(FOLDS):
            own = folds == fold
            held[name][own] = losses(learn(errors[~own], std[~own]), errors[own], std[own])
    made = {}
    for name, (learn, _) in CURES.items():
        lead = paired_difference(held["scale"], held[name])
        gain = float((plain - held[name]).mean())
        made[name] = Cure(learn(errors, std)[0], gain, lead.mean, lead.standard_error)
    counts = None if y is None else _counts(y, y - errors, std)
    return Cures(**made, counts=counts, variance=float(np.mean(np.square(std))), n_points=len(std))


def _learn_scale(e: FloatArray, s: FloatArray) -> tuple[float, ...]:
    return (float(np.sqrt(max(float(np.mean(np.square(e / s))), 1e-300))),)


def _scale_losses(found: tuple[float, ...], e: FloatArray, s: FloatArray) -> FloatArray:
    scale = found[0] * s
    return np.asarray(0.5 * np.square(e / scale) + np.log(scale))


def _learn_noise(e: FloatArray, s: FloatArray) -> tuple[float, ...]:
    values = VARIANCES * float(np.mean(np.square(e)))
    losses = [float(_noise_losses((v,), e, s).sum()) for v in values.tolist()]
    return (float(values[int(np.argmin(losses))]),)


def _noise_losses(found: tuple[float, ...], e: FloatArray, s: FloatArray) -> FloatArray:
    variance = np.square(s) + found[0]
    return np.asarray(0.5 * np.square(e) / variance + 0.5 * np.log(variance))


def _learn_tails(e: FloatArray, s: FloatArray) -> tuple[float, ...]:
    root = _learn_scale(e, s)[0]
    pairs = [(nu, root * factor) for nu in DEGREES for factor in FACTORS.tolist()]
    losses = [float(_tail_losses(pair, e, s).sum()) for pair in pairs]
    return pairs[int(np.argmin(losses))]


def _tail_losses(found: tuple[float, ...], e: FloatArray, s: FloatArray) -> FloatArray:
    """Minus log density of Student's law less that of a constant, `log(2 pi) / 2`."""
    nu, factor = found
    scale = factor * s
    constant = gammaln(nu / 2) - gammaln((nu + 1) / 2) + 0.5 * np.log(nu * np.pi)
    tail = 0.5 * (nu + 1) * np.log1p(np.square(e / scale) / nu)
    return np.asarray(tail + constant + np.log(scale) - 0.5 * np.log(2 * np.pi))


Learn = Callable[[FloatArray, FloatArray], tuple[float, ...]]
Losses = Callable[[tuple[float, ...], FloatArray, FloatArray], FloatArray]
CURES: dict[str, tuple[Learn, Losses]] = {
    "scale": (_learn_scale, _scale_losses),
    "noise": (_learn_noise, _noise_losses),
    "tails": (_learn_tails, _tail_losses),
}


def _counts(y: FloatArray, mean: FloatArray, std: FloatArray) -> Cure | None:
    """A law of counts of the stated means beside normal laws; None where targets are no counts."""
    if y.min() < 0 or (y != np.round(y)).any() or not np.ptp(y) > 0:
        return None
    folds = np.random.default_rng(31).permutation(len(y)) % FOLDS
    half, squares = 0.5 * np.log(2 * np.pi), np.square((y - mean) / std)
    plain = 0.5 * squares + np.log(std) + half
    grid = np.stack([_count_losses(a, y, mean) for a in EXCESSES.tolist()])
    normal, counted = np.empty_like(plain), np.empty_like(plain)
    for fold in range(FOLDS):
        own = folds == fold
        scale = np.sqrt(max(float(squares[~own].mean()), 1e-300))
        normal[own] = 0.5 * squares[own] / scale**2 + np.log(scale * std[own]) + half
        counted[own] = grid[grid[:, ~own].sum(axis=1).argmin(), own]
    lead = paired_difference(normal, counted)
    excess = float(EXCESSES[grid.sum(axis=1).argmin()])
    return Cure(excess, float((plain - counted).mean()), lead.mean, lead.standard_error)


def _count_losses(excess: float, y: FloatArray, mean: FloatArray) -> FloatArray:
    """Minus log probability of counts of means m and variances `m + a m^2`."""
    m = np.maximum(mean, LEAST_MEAN)
    if excess == 0.0:
        return np.asarray(m - xlogy(y, m) + gammaln(y + 1))
    size = 1.0 / excess
    return np.asarray(
        gammaln(size) + gammaln(y + 1) - gammaln(y + size)
        + (y + size) * np.log1p(excess * m) - xlogy(y, excess * m)
    )  # fmt: skip


def cures_of(tables: Tables) -> Cures | None:
    """Cures of the law of predictions of one output; None of laws that are not normal.

    The tails are also those of the training rows, left out one by one, where the model has them:
    tails take many points to be known.
    """
    p, source, left_out = tables.predictions, tables.source, tables.left_out
    if p.y is None or not isinstance(p.law, Normal) or p.y.shape[1] > 1:
        return None
    together = p.cluster is not None if left_out is None else not left_out.leaves_one
    if together:
        return None
    errors, std = (p.y - p.law.mean)[:, 0], p.law.std[:, 0]
    found = cures(errors, std, p.y[:, 0])
    if found is None or left_out is not None:
        return found
    process = getattr(source, "process", None)
    n_rows = 0 if process is None else source.n_train or 0
    if process is None or not 2 <= n_rows <= MOST_LEFT_OUT:
        return found
    try:
        law, y = process.left_out(np.arange(n_rows)), process.data.targets[:, 0]
    except CoupledGPError:
        return found
    if len(law.shares) > 1:
        return found
    beside, spread = y - law.mean[:, 0], np.sqrt(law.variance[:, 0])
    more = cures(np.concatenate([errors, beside]), np.concatenate([std, spread]))
    return found.joined_by(more)


def shape_checks(tables: Tables) -> list[Check]:
    """Whether heavier tails, added noise or a law of counts is better than the stated law."""
    found = cures_of(tables)
    if found is None:
        return []
    tails, noise = found.tails, found.noise
    checks = [
        Check(
            HONEST, "tails", _colour(found.is_heavy, tails.gain),
            f"Student's distribution of {tails.value:.2g} degrees of freedom gains "
            f"{tails.gain:.2g} nats per point beside the stated one, {tails.lead:.2g} beside the "
            "best scale of it.",
            found.is_heavy, statistic=tails.lead, expected=0.0,
            limit=max(MATTERS, EVIDENCE / found.n_points), gain=tails.gain,
            gain_error=tails.lead_error, basis="held out",
            remedy="Give observations heavy tails, those of Student's distribution of "
            f"{tails.value:.2g} degrees of freedom: GPRegressor(noise='varying'), or "
            "likelihood='student-t'. Look at the largest residuals, and leave mistakes out.",
        ),
        Check(
            HONEST, "noise missing", _colour(found.is_latent, noise.gain),
            f"A variance of {noise.value:.2g} added to the stated ones, {found.variance:.2g} on "
            f"average, gains {noise.gain:.2g} nats per point.",
            found.is_latent, statistic=noise.lead, expected=0.0, limit=SERIOUS, gain=noise.gain,
            gain_error=noise.lead_error, basis="held out",
            remedy=f"Add the noise {noise.value:.2g} to its variances: they are those of the "
            "function, not of observations (latent=True says so to an audit).",
        ),
    ]  # fmt: skip
    if found.counts is not None:
        law = "Poisson's" if found.counts.value == 0.0 else "a negative binomial"
        checks.append(
            Check(
                HONEST, "counts", _colour(found.is_counts, found.counts.gain),
                f"The targets are counts: {law} distribution of its means gains "
                f"{found.counts.gain:.2g} nats per point.",
                found.is_counts, statistic=found.counts.lead, expected=0.0, limit=MATTERS,
                gain=found.counts.gain, gain_error=found.counts.lead_error, basis="held out",
                remedy="The targets are counts: give them a distribution of counts, "
                f"likelihood={found.count_law!r}.",
            )
        )  # fmt: skip
    return checks


def _colour(fired: bool, gain: float) -> str:
    if not fired:
        return GREEN
    return RED if gain > SERIOUS else AMBER
