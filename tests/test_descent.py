"""Descent: Adam, schedules, and which state is kept."""

import math

import pytest
import torch

from coupledgp.ground.descent import CHECK_EVERY, Adam, Check, constant, cosine, descend


def test_adam_is_torch_s():
    start = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    ours, theirs = start.clone().requires_grad_(), start.clone().requires_grad_()
    optimizer, reference = Adam([ours]), torch.optim.Adam([theirs], lr=0.05)
    for _ in range(20):
        optimizer.step((ours**4).sum() + ours.prod(), 0.05)
        reference.zero_grad()
        ((theirs**4).sum() + theirs.prod()).backward()
        reference.step()
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_schedules():
    assert {constant(0.2)(step) for step in (1, 5, 9)} == {0.2}
    rates = [cosine(0.2, 10)(step) for step in range(1, 11)]
    assert rates[0] == 0.2
    assert rates == sorted(rates, reverse=True)
    assert cosine(0.2, 10)(6) == pytest.approx(0.1)


class Valley:
    """`(x - 1)^2` of one variable, scored by its distance from a place on the way."""

    def __init__(self, place=1.0):
        self.x, self.place, self.scored = torch.zeros(1, dtype=torch.float64), place, []

    def loss(self):
        return ((self.x - 1) ** 2).sum()

    def judge(self):
        assert not torch.is_grad_enabled()
        self.scored.append(abs(float(self.x) - self.place))
        return self.scored[-1]

    def descend(self, n_steps=100, rate=0.05, **options):
        return descend([self.x], self.loss, self.judge, n_steps, constant(rate), **options)


def test_the_minimum_is_found():
    valley = Valley()
    found = valley.descend(n_steps=400)
    assert float(found.best[0]) == pytest.approx(1, abs=1e-3)
    assert found.score == min(valley.scored)
    assert found.start_score == 1.0
    assert len(found.losses) == 400
    assert len(valley.scored) == 1 + 400 // CHECK_EVERY
    assert not found.stopped_early
    assert not valley.x.requires_grad


def test_the_best_state_is_kept_and_not_the_last():
    valley = Valley(place=0.5)
    found = valley.descend()
    assert abs(float(found.best[0]) - 0.5) == found.score == min(valley.scored)
    assert abs(float(valley.x) - 0.5) > found.score
    assert found.step % CHECK_EVERY == 0


def test_the_start_is_kept_if_nothing_is_better_unless_it_may_not_be():
    kept = Valley(place=-1.0).descend()
    assert (float(kept.best[0]), kept.step, kept.score) == (0.0, 0, 1.0)
    forgotten = Valley(place=-1.0).descend(keep_start=False)
    assert forgotten.step == CHECK_EVERY
    assert math.isnan(forgotten.start_score)
    assert float(forgotten.best[0]) > 0


def test_patience():
    valley = Valley(place=-1.0)
    found = valley.descend(patience=3)
    assert found.stopped_early
    assert len(found.losses) == 3 * CHECK_EVERY


def test_the_last_step_is_checked_and_checks_are_shown():
    checks: list[Check] = []
    found = Valley().descend(n_steps=CHECK_EVERY + 3, on_check=checks.append)
    assert [check.step for check in checks] == [CHECK_EVERY, CHECK_EVERY + 3]
    assert checks[-1].best_score == found.score
    assert checks[-1].loss == found.losses[-1]


def test_variables_are_moved_back_after_each_step():
    valley = Valley()

    def keep():
        with torch.no_grad():
            valley.x.clamp_(max=0.3)

    assert float(valley.descend(after_step=keep).best[0]) == pytest.approx(0.3)


def test_another_optimiser_is_one_class():
    class Plain:
        def __init__(self, variables):
            self.variables = variables

        def step(self, loss, rate):
            gradients = torch.autograd.grad(loss, self.variables)
            with torch.no_grad():
                for variable, gradient in zip(self.variables, gradients, strict=True):
                    variable -= rate * gradient

    found = Valley().descend(n_steps=1, rate=0.25, make_optimizer=Plain)
    assert float(found.best[0]) == pytest.approx(0.5)
