"""Sufficient statistics: sums over chunks, re-centred and re-scaled afterwards."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from coupledgp.inference.weights.posterior import DataStatistics
from coupledgp.inference.weights.statistics import Moments, solve_ridge

N_FEATURES = 5


def table(n: int, rng: np.random.Generator, shift: float = 0.0) -> tuple[Tensor, Tensor]:
    features = torch.as_tensor(rng.normal(size=(n, N_FEATURES)))
    return features, torch.as_tensor(shift + rng.normal(size=(n, 2)))


def moments_of(features: Tensor, targets: Tensor, offset: Tensor, parts: int = 1) -> Moments:
    moments = Moments.zeros(N_FEATURES, offset)
    for phi, y in zip(features.tensor_split(parts), targets.tensor_split(parts), strict=True):
        moments.add(phi, y)
    return moments


@given(
    offset=st.floats(-3, 3),
    mean=st.floats(-10, 10),
    scale=st.floats(0.01, 100),
    parts=st.integers(1, 30),
)
def test_recentring(offset: float, mean: float, scale: float, parts: int) -> None:
    """Whatever the offset was, the equations are those of `(y - mean) / scale`."""
    features, targets = table(30, np.random.default_rng(0))
    mean_, scale_ = torch.tensor([mean, 0.5]).double(), torch.tensor([scale, 2.0]).double()
    moments = moments_of(features, targets, torch.tensor([offset, 1.0]).double(), parts)
    equations = moments.normalized(mean_, scale_)
    y = (targets - mean_) / scale_
    close = {"rtol": 1e-9, "atol": 1e-9 * float(y.abs().max()) ** 2}
    torch.testing.assert_close(equations.gram, features.T @ features)
    torch.testing.assert_close(equations.cross, features.T @ y, **close)
    torch.testing.assert_close(equations.square, y.square().sum(0), **close)
    assert equations.n_rows == 30


def test_a_large_mean_loses_no_digits(rng: np.random.Generator) -> None:
    features, targets = table(200, rng, shift=1e8)
    mean = targets.mean(0)
    equations = moments_of(features, targets, targets[0]).normalized(mean, torch.ones(2).double())
    y = targets - mean
    torch.testing.assert_close(equations.square, y.square().sum(0), rtol=1e-9, atol=0)
    torch.testing.assert_close(equations.cross, features.T @ y, rtol=1e-6, atol=1e-5)


def test_normalising_twice_gives_the_same(rng: np.random.Generator) -> None:
    """The sums themselves are left alone."""
    features, targets = table(20, rng)
    zero, one = torch.zeros(2).double(), torch.ones(2).double()
    moments = moments_of(features, targets, zero)
    first = moments.normalized(targets.mean(0), targets.std(0))
    moments.normalized(one, 3 * one)
    second = moments.normalized(targets.mean(0), targets.std(0))
    for name in ("gram", "cross", "square"):
        assert torch.equal(getattr(first, name), getattr(second, name))


def test_solve_ridge_is_ridge_regression(rng: np.random.Generator) -> None:
    features, targets = table(20, rng)
    equations = moments_of(features, targets, torch.zeros(2).double()).normalized(
        torch.zeros(2).double(), torch.ones(2).double()
    )
    factor, mean, _ = solve_ridge(equations, 2.0, 0.5)
    a = features.T @ features + 0.25 * torch.eye(N_FEATURES).double()
    torch.testing.assert_close(factor @ factor.T, a)
    torch.testing.assert_close(mean, torch.linalg.solve(a, features.T @ targets))


class TestDataStatistics:
    @pytest.mark.parametrize("sizes", [[4], [5], [2, 2], [2, 3], [3, 1, 1, 1], [1] * 9, [4, 30]])
    def test_batches_are_one_table(self, sizes: list[int], rng: np.random.Generator) -> None:
        """Rows are kept while fewer than features; the posterior is the same on either side."""
        features, targets = table(sum(sizes), rng)
        statistics = DataStatistics(N_FEATURES, torch.tensor([0.1, -0.2]).double())
        seen = 0
        for size in sizes:
            rows = slice(seen, seen + size)
            statistics.update([(features[rows], targets[rows])])
            seen += size
            kept = seen < N_FEATURES
            assert (statistics.moments is None) == kept
            assert bool(statistics.rows) == kept
            assert statistics.n_rows == seen
            phi, y = features[:seen], targets[:seen]
            mean, std = statistics.target_mean_and_std()
            torch.testing.assert_close(mean, y.mean(0))
            torch.testing.assert_close(std, y.std(0, correction=0), rtol=1e-9, atol=1e-12)
            posterior = statistics.posterior(mean, torch.ones(2).double(), 1.5, 0.3)
            a = phi.T @ phi + 0.2 * torch.eye(N_FEATURES).double()
            expected = torch.linalg.solve(a, phi.T @ (y - y.mean(0)))
            torch.testing.assert_close(posterior.mean, expected, rtol=1e-9, atol=1e-10)

    def test_rows_that_are_kept_are_copies(self, rng: np.random.Generator) -> None:
        """Streams reuse the memory of their features."""
        features, targets = table(3, rng)
        statistics = DataStatistics(N_FEATURES, torch.zeros(2).double())
        buffer, y = features.clone(), targets.clone()
        statistics.update([(buffer, y)])
        buffer.zero_()
        y.zero_()
        kept, kept_targets = statistics.stacked()
        assert torch.equal(kept, features)
        assert torch.equal(kept_targets, targets)

    def test_memory_does_not_grow(self, rng: np.random.Generator) -> None:
        statistics = DataStatistics(N_FEATURES, torch.zeros(2).double())
        for _ in range(50):
            statistics.update([table(4, rng)])
        assert statistics.rows == []
        assert statistics.moments is not None
        held = [v for v in vars(statistics.moments).values() if isinstance(v, Tensor)]
        assert sum(v.numel() for v in held) == N_FEATURES**2 + 3 * N_FEATURES + 3 * 2

    def test_constant_targets_have_no_spread(self) -> None:
        statistics = DataStatistics(2, torch.tensor([0.1]).double())
        statistics.update([(torch.ones(7, 2).double(), torch.full((7, 1), 0.3).double())])
        mean, std = statistics.target_mean_and_std()
        assert float(mean) == pytest.approx(0.3)
        assert 0 <= float(std) < 1e-8
