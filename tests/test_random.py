"""Seeds and generators, and the uniforms everything is drawn from."""

import numpy as np
import pytest
import torch
from scipy import stats

from coupledgp.errors import InvalidInputError
from coupledgp.random import as_rng, open_uniforms
from tests.theory import assert_mean


def draws(generator: object) -> list[int]:
    return as_rng(generator).integers(2**62, size=4).tolist()  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [int, np.int64, np.uint8])
def test_same_seed_same_stream(kind: type) -> None:
    assert draws(kind(7)) == draws(7) == np.random.default_rng(7).integers(2**62, size=4).tolist()


def test_zero_is_a_seed_like_any_other() -> None:
    assert draws(0) == draws(0)
    assert len({tuple(draws(seed)) for seed in (0, 1, 2, 42)}) == 4


def test_numpy_generator_is_used_and_advanced() -> None:
    rng = np.random.default_rng(3)
    assert as_rng(rng) is rng
    assert draws(rng) != draws(rng)


def test_torch_generator_is_used_and_advanced() -> None:
    first, second = (torch.Generator().manual_seed(5) for _ in range(2))
    assert draws(first) == draws(second)
    assert draws(first) != draws(torch.Generator().manual_seed(5))


def test_none_follows_the_default_generator_of_torch() -> None:
    state = torch.get_rng_state()
    try:
        torch.manual_seed(11)
        first, next_one = draws(None), draws(None)
        torch.manual_seed(11)
        assert draws(None) == first
        assert next_one != first
        torch.manual_seed(12)
        assert draws(None) != first
    finally:
        torch.set_rng_state(state)


def test_a_seed_leaves_the_global_generators_alone() -> None:
    before = torch.get_rng_state().clone(), np.random.get_state()[1].tolist()  # noqa: NPY002
    draws(3)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002


@pytest.mark.parametrize("seed", [-1, np.int64(-5)])
def test_negative_seeds(seed: int) -> None:
    with pytest.raises(InvalidInputError, match=r"generator: expected a seed >= 0, got -"):
        as_rng(seed)


@pytest.mark.parametrize("value", ["0", 1.0, True, [1], np.random.RandomState(0)])
def test_other_types(value: object) -> None:
    message = rf"generator: expected an int seed, a torch.Generator.*got {type(value).__name__}"
    with pytest.raises(InvalidInputError, match=message):
        as_rng(value)  # type: ignore[arg-type]


class TestOpenUniforms:
    def test_law(self, rng: np.random.Generator) -> None:
        u = open_uniforms(rng, 200_000)
        assert stats.kstest(u, "uniform").pvalue > 1e-7
        assert_mean(u, 0.5)

    def test_shape(self, rng: np.random.Generator) -> None:
        assert open_uniforms(rng, 3).shape == (3,)
        assert open_uniforms(rng, (4, 2)).shape == (4, 2)

    def test_odd_multiples_of_half_an_ulp(self, rng: np.random.Generator) -> None:
        multiples = open_uniforms(rng, 50_000) * 2.0**53
        assert (multiples % 2 == 1).all()
        assert multiples.min() >= 1
        assert multiples.max() <= 2**53 - 1

    def test_complements_are_exact(self, rng: np.random.Generator) -> None:
        u = open_uniforms(rng, 50_000)
        assert ((1 - (1 - u)) == u).all()
        # A sum that rounds could still give 1; compare the integers themselves.
        whole = (u * 2.0**53).astype(np.int64)
        np.testing.assert_array_equal(((1 - u) * 2.0**53).astype(np.int64), 2**53 - whole)

    def test_extreme_integers_stay_inside(self) -> None:
        class Extremes:
            def integers(self, low: int, high: int, size: int) -> np.ndarray:
                return np.array([low, high - 1])

        u = open_uniforms(Extremes(), 2)  # type: ignore[arg-type]
        assert u[0] == 2.0**-53
        assert u[1] == 1 - 2.0**-53
