"""Spectra fitted by Adam to the posterior of a teacher (MATH 4).

The result is no unbiased sample of the kernel: the frequencies have been moved to where the
posterior needs them, and the prior of the features is further from that of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from coupledgp.core.posterior_kl import Teacher, kl_per_point
from coupledgp.features import FeatureMap
from coupledgp.ground.descent import cosine, descend
from coupledgp.ground.progress import tell
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.random import FloatArray

# `loss(frequencies, weights)`: a differentiable scalar of tensors (m, d) and (m,).
SpectrumLoss = Callable[[Tensor, Tensor], Tensor]

# A frequency moves by up to about this many units of one over the lengthscale in one step.
LEARNING_RATE = 0.03


@dataclass(frozen=True)
class KLSettings:
    """Settings of the fit of a spectrum to a posterior.

    Parameters
    ----------
    n_steps
        Number of steps of Adam, at a rate that falls to zero along a cosine.
    n_queries
        Number of query points of one step, drawn anew for each, and of the held-out set. Points
        that are used again are overfitted: on 104 rows of the cpu data, 25 sets of points taken in
        turn leave twice the KL at test points that 100 sets leave.
    n_starts
        Number of ensembles drawn from the coupling; the best on the held-out points is improved.
    """

    n_steps: int = 500
    n_queries: int = 256
    n_starts: int = 8


@dataclass(frozen=True)
class SpectrumFit:
    """A fitted spectrum.

    Attributes
    ----------
    frequencies : Tensor (m, d)
        In units of one over the lengthscale.
    weights : Tensor (m,)
        Positive, of sum one.
    start_loss, loss : float
        KL per point at held-out points, of the start and of this spectrum.
    n_steps : int
        Number of steps that led to this spectrum.
    """

    frequencies: Tensor
    weights: Tensor
    start_loss: float
    loss: float
    n_steps: int


class QueryPoints:
    """Points near the data where two posteriors are compared.

    They are `x_i + t (x_j - x_k) + 0.1 e` with `t ~ U(0, 1)` and normal e with the columns'
    standard deviations: differences of rows keep the shape of the data, its correlations and its
    tails. Further rows, if there are any, take half of the places as they are.

    Parameters
    ----------
    rows
        Rows (n, d) that the teacher was given.
    further
        Rows (p, d) whose targets the teacher does not know; p may be zero.
    rng
        Source of the points.
    """

    def __init__(self, rows: FloatArray, further: FloatArray, rng: np.random.Generator) -> None:
        self.rows, self.further, self.rng = rows, further, rng

    def draw(self, n: int) -> FloatArray:
        """Draw n query points (n, d) near the data."""
        n_further = n // 2 if len(self.further) else 0
        n_moved = n - n_further
        i, j, k = self.rng.integers(len(self.rows), size=(3, n_moved))
        t = self.rng.uniform(size=(n_moved, 1))
        noise = (
            0.1 * self.rows.std(axis=0) * self.rng.standard_normal((n_moved, self.rows.shape[1]))
        )
        moved = self.rows[i] + t * (self.rows[j] - self.rows[k]) + noise
        if not n_further:
            return moved
        chosen = self.rng.integers(len(self.further), size=n_further)
        return np.concatenate([moved, self.further[chosen]])


def start_of(feature_map: FeatureMap) -> tuple[Tensor, Tensor]:
    """Frequencies (m, d) and log weights (m,) of a map, as copies in float64."""
    frequencies = feature_map.frequencies.detach().double().clone()
    if feature_map.weights is None:
        return frequencies, frequencies.new_zeros(len(frequencies))
    weights = feature_map.weights.double()
    return frequencies, weights.clamp_min(torch.finfo(torch.float64).eps).log()


def fit_posterior_kl(
    teacher: Teacher,
    queries: QueryPoints,
    draw: Callable[[], FeatureMap],
    settings: KLSettings,
) -> SpectrumFit:
    """Fit frequencies and weights to the posterior of a teacher.

    Each step has query points of its own; the state that is kept is the best on held-out ones.

    Parameters
    ----------
    teacher
        Exact GP, whose hyperparameters the spectrum shares.
    queries
        Source of the query points.
    draw
        Function that draws a feature map to start from, on the teacher's device.
    settings
        Numbers of steps, points and starts.
    """
    held_out = teacher.law(queries.draw(settings.n_queries))

    def judge(frequencies: Tensor, weights: Tensor) -> Tensor:
        return kl_per_point(teacher, held_out, frequencies, weights)

    def step_loss(frequencies: Tensor, weights: Tensor) -> Tensor:
        law = teacher.law(queries.draw(settings.n_queries))
        return kl_per_point(teacher, law, frequencies, weights)

    starts = [start_of(draw()) for _ in range(settings.n_starts)]
    best = min(starts, key=lambda start: float(judge(start[0], start[1].softmax(0))))
    return fit_spectrum(step_loss, judge, best, settings.n_steps)


def fit_spectrum(
    loss: SpectrumLoss,
    judge: SpectrumLoss,
    start: tuple[Tensor, Tensor],
    n_steps: int,
) -> SpectrumFit:
    """Descend in frequencies (m, d) and log weights (m,); the result is the best state."""
    frequencies, log_weights = (t.clone() for t in start)

    def step_loss() -> Tensor:
        return loss(frequencies, log_weights.softmax(0))

    def score() -> float:
        return float(judge(frequencies, log_weights.softmax(0)))

    found = descend(
        [frequencies, log_weights],
        step_loss,
        score,
        n_steps,
        cosine(LEARNING_RATE, n_steps),
        on_check=lambda check: tell(
            f"spectrum, step {check.step} of {n_steps}, loss {check.best_score:.4g} (was "
            f"{check.start_score:.4g})"
        ),
    )
    best, best_weights = found.best
    return SpectrumFit(best, best_weights.softmax(0), found.start_score, found.score, found.step)
