"""Features that are written block by block: the same bits however rows and threads are cut."""

from __future__ import annotations

from collections.abc import Iterator

import mpmath
import numpy as np
import pytest
import torch

from coupledgp.features import FourierFeatures, fourier


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def _written(feature_map: FourierFeatures, X: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return feature_map(X, out=torch.empty(len(X), feature_map.n_features, dtype=X.dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_of_rows_give_the_features_of_all_rows(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, weighted: bool
) -> None:
    drawn = FourierFeatures(3, 20, generator=0, dtype=dtype)
    if weighted:
        weights = torch.linspace(0.01, 0.09, 20, dtype=torch.float64)
        drawn = FourierFeatures.from_frequencies(
            drawn.frequencies, "iid", "gaussian", weights / weights.sum()
        )
    X = torch.as_tensor(np.random.default_rng(1).normal(size=(333, 3))).to(dtype)
    whole = drawn(X).detach()
    for phases in (1, 20, 20 * 7, 20 * 333):
        monkeypatch.setattr(fourier, "CACHE_PHASES", phases)
        rounding = 4 * torch.finfo(whole.dtype).eps
        torch.testing.assert_close(_written(drawn, X), whole, rtol=rounding, atol=rounding)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_threads_do_not_change_a_bit(dtype: torch.dtype) -> None:
    drawn = FourierFeatures(5, 128, generator=0, dtype=dtype)
    X = torch.as_tensor(np.random.default_rng(1).normal(size=(3000, 5))).to(dtype)
    found = []
    for n_threads in (1, 2, 3):
        torch.set_num_threads(n_threads)
        found.append(_written(drawn, X))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_features_are_exact_to_the_rounding_of_their_phases() -> None:
    drawn = FourierFeatures(2, 8, generator=0)
    X = torch.as_tensor(np.random.default_rng(1).normal(size=(6, 2)) * 30)
    found = _written(drawn, X).numpy()
    amplitude = float(drawn.amplitudes)
    with mpmath.workdps(40):
        for i, x in enumerate(X.tolist()):
            for j, w in enumerate(drawn.frequencies.tolist()):
                terms = [mpmath.mpf(a) * b for a, b in zip(x, w, strict=True)]
                phase, size = sum(terms), float(sum(map(abs, terms)))
                for column, exact in ((j, mpmath.sin(phase)), (8 + j, mpmath.cos(phase))):
                    error = abs(float(found[i, column] - exact * amplitude))
                    assert error <= (size + 2) * 2.3e-16 * amplitude
