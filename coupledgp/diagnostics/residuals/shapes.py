"""What cures a law whose scale or tails are wrong: another factor, added noise, heavier tails.

Each cure has one or two numbers, learned on other folds of the points, so that its gain in log
density is measured. With errors e of standard deviations s and residuals r they are

| cure | law |
|---|---|
| scale | `e ~ N(0, c^2 s^2)`, `c^2` the mean of r^2 |
| noise | `e ~ N(0, s^2 + v)`, v the likeliest on a grid |
| tails | `r ~ c t_nu`, c and nu the likeliest on a grid |

Test rows beyond the training rows, where the kernel alone decides what is predicted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

from coupledgp.diagnostics.scoring.scores import paired_difference, point_nlpd
from coupledgp.random import FloatArray

# Folds of points, nats of all points by which heavy tails are better than another scale, and
# standard errors by which added noise is. A law
# that is learned elsewhere leads by e nats with a chance of `exp(-e)`. Heavy tails make standard
# errors of their own gain so large that these tell nothing.
FOLDS, EVIDENCE, CLEAR = 5, 6.0, 2.5
# Nats per point that matter and that are serious, and fewest points.
MATTERS, SERIOUS, FEWEST = 0.01, 0.1, 30
# Added variances over the mean squared error, degrees of freedom, and factors on the scale.
VARIANCES = np.concatenate([[0.0], np.geomspace(1e-3, 2.0, 60)])
DEGREES = (2.2, 3.0, 4.0, 6.0, 10.0, 30.0)
FACTORS = np.geomspace(0.2, 2.0, 24)


@dataclass(frozen=True)
class Shape:
    """A cure of a law's scale or tails.

    Attributes
    ----------
    value : float
        The factor, the variance in units of y squared, or the degrees of freedom, of all points.
    gain : float
        Nats per point that it gains over the law as it is, learned on other folds.
    lead, lead_error : float, float or None
        What it gains over the best factor on the scale, and its standard error.
    """

    value: float
    gain: float
    lead: float
    lead_error: float | None


@dataclass(frozen=True)
class Shapes:
    """The three cures of a law of one output.

    Attributes
    ----------
    scale, noise, tails : Shape
    variance : float
        Mean stated variance, units of y squared.
    n_points : int
    """

    scale: Shape
    noise: Shape
    tails: Shape
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

    def joined_by(self, other: Shapes | None) -> Shapes:
        """These cures, with the tails of more points where they tell heavy ones."""
        if self.is_heavy or other is None or not other.is_heavy:
            return self
        return replace(self, tails=other.tails, n_points=other.n_points)

    @classmethod
    def of(cls, errors: FloatArray, std: FloatArray) -> Shapes | None:
        """Cures of laws of standard deviations (p,) with errors (p,); None of few points."""
        if len(errors) < FEWEST or not np.ptp(errors) > 0:
            return None
        folds = np.random.default_rng(29).permutation(len(errors)) % FOLDS
        plain = 0.5 * np.square(errors / std) + np.log(std)
        held: dict[str, FloatArray] = {}
        for name, (learn, losses) in CURES.items():
            found = np.empty_like(errors)
            for fold in range(FOLDS):
                own = folds == fold
                found[own] = losses(learn(errors[~own], std[~own]), errors[own], std[own])
            held[name] = found
        made = {}
        for name, (learn, _) in CURES.items():
            lead = paired_difference(held["scale"], held[name])
            gain = float((plain - held[name]).mean())
            made[name] = Shape(learn(errors, std)[0], gain, lead.mean, lead.standard_error)
        return cls(**made, variance=float(np.mean(np.square(std))), n_points=len(errors))


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


# Share of a column's range by which a row lies beyond it, and rows for each one beyond from which
# they are many.
MARGIN, MANY = 0.1, 20
# Ratio of the RMSE beyond to that inside from which rows beyond are what is wrong.
WORSE = 1.5


@dataclass(frozen=True)
class Reach:
    """How many test rows lie beyond the box of the training rows.

    Attributes
    ----------
    n_beyond, n_points : int
        Rows beyond the box by a tenth of its side in some column, and all.
    column : str
        The column in which most of them do.
    rmse_beyond, rmse_inside : float or None
        Root mean squared errors of both in units of y; None of no rows.
    gain : float
        Decrease of the mean NLPD if rows beyond were predicted as those inside are, nats per point;
        zero where there are not both.
    """

    n_beyond: int
    n_points: int
    column: str
    rmse_beyond: float | None
    rmse_inside: float | None
    gain: float = 0.0

    @classmethod
    def of(
        cls,
        known: FloatArray,
        points: FloatArray,
        errors: FloatArray,
        names: tuple[str, ...] = (),
        std: FloatArray | None = None,
    ) -> Reach:
        """Reach of test rows (p, d) with errors (p, k) from training rows (n, d).

        `std` are stated standard deviations (p, k); None: no gain is known.
        """
        low, high = known.min(axis=0), known.max(axis=0)
        margin = MARGIN * (high - low)
        outside = (points < low - margin) | (points > high + margin)
        beyond = outside.any(axis=1)
        most = int(outside.sum(axis=0).argmax()) if points.shape[1] else 0
        name = names[most] if len(names) == points.shape[1] > 0 else f"input {most + 1}"
        far, near = (
            float(np.sqrt(np.mean(np.square(errors[one])))) if one.any() else None
            for one in (beyond, ~beyond)
        )
        gain = 0.0
        if std is not None and beyond.any() and not beyond.all():
            losses = point_nlpd(errors, np.zeros_like(errors), np.maximum(std, 1e-300)).mean(axis=1)
            gain = float(losses.mean() - losses[~beyond].mean())
        return cls(int(beyond.sum()), len(points), name, far, near, gain)

    @property
    def is_far(self) -> bool:
        """Whether more than one in twenty rows lies beyond."""
        return MANY * self.n_beyond > self.n_points

    @property
    def is_fault(self) -> bool:
        """Whether rows beyond are many, and predicted much worse than the others."""
        beyond, inside = self.rmse_beyond, self.rmse_inside
        return self.is_far and inside is not None and (beyond or 0.0) > WORSE * inside

    def text(self) -> str:
        """The rows beyond in a sentence."""
        inside = ""
        if self.n_beyond < self.n_points:
            inside = f", {self.rmse_inside:.3g} at the others"
        return (
            f"{self.n_beyond} of {self.n_points} test rows lie beyond the training rows, most in "
            f"column `{self.column}`: there the kernel alone decides, and the RMSE is "
            f"{self.rmse_beyond:.3g}{inside}."
        )
