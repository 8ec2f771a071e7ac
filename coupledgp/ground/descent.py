"""Gradient descent on tensors, with a score by which the best state is selected.

The loss of a step is often noisy, as it is that of a batch or of fresh draws. So every few steps a
judge scores the state on something that stays the same, and the best state by its score is the
result. Another optimiser is another class with the one method of `Adam`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from coupledgp.ground.tensors import Tensor, torch

# Scoring costs about as much as a step: at every tenth it adds a tenth to the work.
CHECK_EVERY = 10


class GradientOptimizer(Protocol):
    """Changes its variables in place, one step at a time."""

    def step(self, loss: Tensor, rate: float) -> None:
        """Move every variable down the gradient of a scalar loss, at a learning rate."""


class Adam:
    """Adam (Kingma and Ba, 2015). `torch.optim` would import torch's compiler: seconds, unused.

    Parameters
    ----------
    variables
        Leaf tensors that require gradients; they are changed in place.
    """

    # The defaults of the paper.
    decay, square_decay, epsilon = 0.9, 0.999, 1e-8

    def __init__(self, variables: Sequence[Tensor]) -> None:
        self.variables = list(variables)
        self.means = [torch.zeros_like(v) for v in self.variables]
        self.squares = [torch.zeros_like(v) for v in self.variables]
        self.n_steps = 0

    def step(self, loss: Tensor, rate: float) -> None:
        """Move every variable down the gradient of a scalar loss, at a learning rate."""
        gradients = torch.autograd.grad(loss, self.variables)
        self.n_steps += 1
        unbiased = 1 - self.decay**self.n_steps
        unbiased_square = 1 - self.square_decay**self.n_steps
        parts = zip(self.variables, gradients, self.means, self.squares, strict=True)
        with torch.no_grad():
            for variable, gradient, mean, square in parts:
                mean.lerp_(gradient, 1 - self.decay)
                square.mul_(self.square_decay).addcmul_(
                    gradient, gradient, value=1 - self.square_decay
                )
                scale = (square / unbiased_square).sqrt_().add_(self.epsilon)
                variable.addcdiv_(mean, scale, value=-rate / unbiased)


def constant(rate: float) -> Callable[[int], float]:
    """Learning rate that stays the same at every step."""
    return lambda step: rate


def cosine(rate: float, n_steps: int) -> Callable[[int], float]:
    """Learning rate of step 1, 2, ... that falls from `rate` to zero along half a cosine."""
    return lambda step: 0.5 * rate * (1 + math.cos(math.pi * (step - 1) / n_steps))


@dataclass(frozen=True)
class Check:
    """State of a descent after a check, for progress and for nothing else.

    Attributes
    ----------
    step : int
        Steps taken.
    loss : float
        Loss of the last step.
    score, best_score : float
        Score of the present state and of the best one.
    start_score : float
        Score before the first step; NaN if the start is not a candidate.
    """

    step: int
    loss: float
    score: float
    best_score: float
    start_score: float


@dataclass(frozen=True)
class Descent:
    """Result of a descent.

    Attributes
    ----------
    best : list of Tensor
        Copies of the variables at the state of the best score.
    step : int
        Number of steps that led there.
    score, start_score : float
        Score of this state and of the start; the latter is NaN if the start was no candidate.
    losses : list of float
        Loss of every step.
    stopped_early : bool
        Whether the score had stopped falling before the last step.
    """

    best: list[Tensor]
    step: int
    score: float
    start_score: float
    losses: list[float]
    stopped_early: bool


def descend(
    variables: Sequence[Tensor],
    loss: Callable[[], Tensor],
    judge: Callable[[], float],
    n_steps: int,
    rate: Callable[[int], float],
    *,
    patience: int | None = None,
    keep_start: bool = True,
    after_step: Callable[[], None] | None = None,
    on_check: Callable[[Check], None] = lambda check: None,
    make_optimizer: Callable[[Sequence[Tensor]], GradientOptimizer] = Adam,
) -> Descent:
    """Descend a loss and return the state that a judge scores lowest.

    Parameters
    ----------
    variables
        Leaf tensors of any shape, changed in place: they end at the last state, not the best one.
    loss
        Scalar tensor, differentiable in the variables; called once a step.
    judge
        Score of the present state, without gradients; lower is better. Called every `CHECK_EVERY`
        steps and after the last one.
    n_steps
        Largest number of steps.
    rate
        Learning rate of step 1, 2, ...; see `constant` and `cosine`.
    patience
        Number of checks without improvement after which the descent ends; None for any number.
    keep_start
        Whether the start may be the result. If not, the first check takes its place.
    after_step
        Called after each step, to move the variables back into their bounds.
    on_check
        Called after each check, to show progress.
    make_optimizer
        Makes the optimiser of the variables.
    """
    for variable in variables:
        variable.requires_grad_()
    optimizer = make_optimizer(variables)
    best, best_score, best_step, waited, losses = _copies(variables), math.inf, 0, 0, list[float]()
    start_score = math.nan
    if keep_start:
        with torch.no_grad():
            start_score = best_score = judge()
    for step in range(1, n_steps + 1):
        value = loss()
        optimizer.step(value, rate(step))
        losses.append(float(value.detach()))
        if after_step is not None:
            after_step()
        if step % CHECK_EVERY and step < n_steps:
            continue
        with torch.no_grad():
            score = judge()
        waited += 1
        if score < best_score or (best_step == 0 and not keep_start):
            best, best_score, best_step, waited = _copies(variables), score, step, 0
        on_check(Check(step, losses[-1], score, best_score, start_score))
        if patience is not None and waited >= patience:
            break
    for variable in variables:
        variable.requires_grad_(False)
    stopped = patience is not None and waited >= patience
    return Descent(best, best_step, best_score, start_score, losses, stopped)


def _copies(variables: Sequence[Tensor]) -> list[Tensor]:
    return [variable.detach().clone() for variable in variables]
