"""Sufficient statistics: sums over chunks, re-centred and re-scaled afterwards."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from coupledgp.core.normal_equations import solve_ridge
from coupledgp.core.statistics import DataStatistics, Moments
from coupledgp.errors import InvalidInputError

N_FEATURES = 5


def table(n: int, rng: np.random.Generator, shift: float = 0.0) -> tuple[Tensor, Tensor]:
    features = torch.as_tensor(rng.normal(size=(n, N_FEATURES)))
    return features, torch.as_tensor(shift + rng.normal(size=(n, 2)))


def moments_of(features: Tensor, targets: Tensor, offset: Tensor, parts: int = 1) -> Moments:
    chunks = zip(features.tensor_split(parts), targets.tensor_split(parts), strict=True)
    return Moments.of(chunks, N_FEATURES, offset)


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
            statistics = statistics.updated([(features[rows], targets[rows])])
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
        statistics = statistics.updated([(buffer, y)])
        buffer.zero_()
        y.zero_()
        kept, kept_targets = statistics.stacked()
        assert torch.equal(kept, features)
        assert torch.equal(kept_targets, targets)

    def test_memory_does_not_grow(self, rng: np.random.Generator) -> None:
        statistics = DataStatistics(N_FEATURES, torch.zeros(2).double())
        for _ in range(50):
            statistics = statistics.updated([table(4, rng)])
        assert statistics.rows == ()
        assert statistics.moments is not None
        held = [v for v in vars(statistics.moments).values() if isinstance(v, Tensor)]
        assert sum(v.numel() for v in held) == N_FEATURES**2 + 3 * N_FEATURES + 3 * 2

    def test_constant_targets_have_no_spread(self) -> None:
        chunk = torch.ones(7, 2).double(), torch.full((7, 1), 0.3).double()
        statistics = DataStatistics(2, torch.tensor([0.1]).double()).updated([chunk])
        mean, std = statistics.target_mean_and_std()
        assert float(mean) == pytest.approx(0.3)
        assert 0 <= float(std) < 1e-8


OFFSET = torch.tensor([0.1, -0.2]).double()
SIZES = st.lists(st.integers(0, 7), min_size=1, max_size=6)


def chunks_of(sizes: list[int], seed: int) -> list[tuple[Tensor, Tensor]]:
    rng = np.random.default_rng(seed)
    return [table(size, rng, shift=2.0) for size in sizes]


def statistics_of(chunks: list[tuple[Tensor, Tensor]]) -> DataStatistics:
    return DataStatistics(N_FEATURES, OFFSET).updated(chunks)


def tensors_of(statistics: DataStatistics) -> list[Tensor]:
    if statistics.moments is None:
        return [tensor for chunk in statistics.rows for tensor in chunk]
    return [v for v in vars(statistics.moments).values() if isinstance(v, Tensor)]


def same_bits(a: DataStatistics, b: DataStatistics) -> bool:
    pairs = zip(tensors_of(a), tensors_of(b), strict=True)
    return a.n_rows == b.n_rows and all(torch.equal(x, y) for x, y in pairs)


class TestMerge:
    @given(sizes=SIZES, seed=st.integers(0, 99))
    def test_chunks_from_the_left_are_one_pass_to_the_bit(
        self, sizes: list[int], seed: int
    ) -> None:
        chunks = chunks_of([size + 1 for size in sizes], seed)
        total = DataStatistics(N_FEATURES, OFFSET)
        for chunk in chunks:
            total = total.merge(statistics_of([chunk]))
        assert same_bits(total, statistics_of(chunks))
        one_by_one = DataStatistics(N_FEATURES, OFFSET)
        for chunk in chunks:
            one_by_one = one_by_one.updated([chunk])
        assert same_bits(one_by_one, statistics_of(chunks))

    @given(data=st.data(), sizes=SIZES, seed=st.integers(0, 99))
    def test_any_split_and_order_is_one_pass_to_rounding(
        self, data: st.DataObject, sizes: list[int], seed: int
    ) -> None:
        """A tree of merges of parts in any order, against plain sums over the whole table."""
        chunks = chunks_of(sizes, seed)
        parts = [statistics_of([chunk]) for chunk in data.draw(st.permutations(chunks))]
        while len(parts) > 1:
            at = data.draw(st.integers(0, len(parts) - 2))
            parts[at : at + 2] = [parts[at].merge(parts[at + 1])]
        merged, phi = parts[0], torch.cat([f for f, _ in chunks])
        y = torch.cat([t for _, t in chunks])
        assert merged.n_rows == len(phi)
        if not len(phi):
            return
        assert (merged.moments is None) == (len(phi) < N_FEATURES)
        mean, std = merged.target_mean_and_std()
        torch.testing.assert_close(mean, y.mean(0), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(std, y.std(0, correction=0), rtol=1e-7, atol=1e-7)
        posterior = merged.posterior(mean, torch.ones(2).double(), 1.5, 0.3)
        a = phi.T @ phi + 0.2 * torch.eye(N_FEATURES).double()
        expected = torch.linalg.solve(a, phi.T @ (y - y.mean(0)))
        torch.testing.assert_close(posterior.mean, expected, rtol=1e-9, atol=1e-10)

    @given(size=st.integers(0, 12), seed=st.integers(0, 99))
    def test_no_rows_are_neutral(self, size: int, seed: int) -> None:
        some, none = statistics_of(chunks_of([size], seed)), DataStatistics(N_FEATURES, OFFSET)
        assert same_bits(some.merge(none), some)
        assert same_bits(none.merge(some), some)
        assert same_bits(some.updated([]), some)

    @pytest.mark.parametrize(("first", "second"), [(2, 2), (2, 4), (2, 9), (9, 2), (9, 9)])
    def test_both_are_left_alone(self, first: int, second: int) -> None:
        a, b = (statistics_of(chunks_of([size], size)) for size in (first, second))
        before = [t.clone() for t in (*tensors_of(a), *tensors_of(b))]
        merged = a.merge(b)
        if merged.moments is not None:
            for name in ("gram", "cross", "feature_sum", "target_sum", "target_square"):
                getattr(merged.moments, name).add_(1.0)
        after = [*tensors_of(a), *tensors_of(b)]
        assert all(torch.equal(x, y) for x, y in zip(before, after, strict=True))

    def test_single_precision(self) -> None:
        rng = np.random.default_rng(1)
        chunks = [(phi.float(), y) for phi, y in (table(n, rng) for n in (3, 4, 8))]
        merged = statistics_of(chunks[:1]).merge(statistics_of(chunks[1:]))
        whole = statistics_of(chunks)
        assert merged.dtype == torch.float32
        assert merged.moments is not None
        assert whole.moments is not None
        assert merged.moments.rounding == whole.moments.rounding == 0.0
        double = statistics_of([(phi.double(), y) for phi, y in chunks])
        assert double.moments is not None
        for name in ("gram", "cross", "feature_sum"):
            exact = getattr(double.moments, name)
            torch.testing.assert_close(getattr(whole.moments, name), exact, rtol=1e-13, atol=1e-13)
            torch.testing.assert_close(getattr(merged.moments, name), exact, rtol=1e-13, atol=1e-13)

    def test_sums_are_as_rounded_as_the_worse_of_both(self) -> None:
        features, targets = table(4, np.random.default_rng(2))
        exact = moments_of(features, targets, OFFSET)
        single = replace(exact, rounding=6e-8)
        for first, second in ((exact, single), (single, exact)):
            assert first.merge(second).rounding == 6e-8

    def test_what_differs_is_refused(self) -> None:
        statistics = statistics_of(chunks_of([3], 0))
        with pytest.raises(InvalidInputError, match="expected 5 features to merge with, got 6"):
            statistics.merge(DataStatistics(6, OFFSET))
        with pytest.raises(InvalidInputError, match=r"expected the target offset \[0.1.*got \[0.0"):
            statistics.merge(DataStatistics(N_FEATURES, 0 * OFFSET))
        with pytest.raises(InvalidInputError, match=r"target offset .* got \[0\.1\d*\]$"):
            statistics.merge(DataStatistics(N_FEATURES, OFFSET[:1]))
        single = statistics_of([(torch.ones(2, N_FEATURES), torch.ones(2, 2).double())])
        with pytest.raises(InvalidInputError, match=r"torch.float64 to merge with, got torch.fl"):
            statistics.merge(single)
        elsewhere = DataStatistics(N_FEATURES, OFFSET.to("meta"))
        with pytest.raises(InvalidInputError, match="sums on cpu to merge with, got meta"):
            statistics.merge(elsewhere)


class TestUpdated:
    @pytest.mark.parametrize("n_before", [0, 3, 9])
    def test_an_exception_in_the_middle_leaves_everything_as_it_was(self, n_before: int) -> None:
        statistics = statistics_of(chunks_of([n_before], 0))
        before = [t.clone() for t in tensors_of(statistics)]
        further = chunks_of([2, 6], 1)

        def interrupted() -> Iterator[tuple[Tensor, Tensor]]:
            yield from further
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            statistics.updated(interrupted())
        assert statistics.n_rows == n_before
        pairs = zip(before, tensors_of(statistics), strict=True)
        assert all(torch.equal(x, y) for x, y in pairs)
        again = statistics.updated(further)
        assert same_bits(again, statistics_of([*chunks_of([n_before], 0), *further]))

    @pytest.mark.parametrize("n_before", [0, 3, 9])
    def test_the_old_ones_stay(self, n_before: int) -> None:
        statistics = statistics_of(chunks_of([n_before], 0))
        before = [t.clone() for t in tensors_of(statistics)]
        assert statistics.updated(chunks_of([4, 4], 1)).n_rows == n_before + 8
        pairs = zip(before, tensors_of(statistics), strict=True)
        assert all(torch.equal(x, y) for x, y in pairs)

    def test_chunks_that_do_not_fit_are_refused(self) -> None:
        statistics = statistics_of(chunks_of([3], 0))
        ((phi, y),) = chunks_of([2], 1)
        for chunk in ((phi[:, :4], y), (phi, y[:, :1]), (phi, y[:1])):
            with pytest.raises(InvalidInputError, match=r"features \(b, 5\) and targets \(b, 2\)"):
                statistics.updated([chunk])
        with pytest.raises(InvalidInputError, match=r"torch.float64 as before, got torch.float32"):
            statistics.updated([(phi.float(), y)])

    def test_fields_cannot_be_set(self) -> None:
        statistics = statistics_of(chunks_of([9], 0))
        for thing, name in ((statistics, "rows"), (statistics.moments, "gram")):
            with pytest.raises(AttributeError):
                setattr(thing, name, None)
