"""Features in chunks, and Gram matrices from their upper triangles."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from coupledgp.core import weights_posterior as stream_module
from coupledgp.core.statistics import stream_moments
from coupledgp.core.weights_posterior import FeatureStream, add_gram, fill_lower
from coupledgp.features import FeatureMap, FourierFeatures, LaplaceFeatures


def make_stream(
    n: int, rng: np.random.Generator, kind: type[FeatureMap] = FourierFeatures, m: int = 6
) -> FeatureStream:
    X = rng.normal(size=(n, 2))
    return FeatureStream(kind(2, m, generator=0), X, np.array([0.3, -1.0]), np.array([0.5, 2.0]))


@pytest.mark.parametrize("kind", [FourierFeatures, LaplaceFeatures])
@pytest.mark.parametrize("chunk", [1, 4, 10, 11])
def test_chunks_are_the_rows_in_order(
    kind: type[FeatureMap], chunk: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "MAX_CHUNK_ROWS", chunk)
    stream = make_stream(10, rng, kind)
    whole = stream.feature_map((stream.X - stream.center) / stream.lengthscale)
    torch.testing.assert_close(stream.dense(), whole, rtol=1e-14, atol=1e-15)
    ends, parts, inputs = [], [], []
    for rows, scaled, features in stream:
        ends.append((rows.start, rows.stop))
        parts.append(features.clone())
        inputs.append(scaled)
    assert ends[0][0] == 0
    assert ends[-1][1] == 10
    assert all(before[1] == after[0] for before, after in pairwise(ends))
    assert max(len(part) for part in parts) <= chunk
    torch.testing.assert_close(torch.cat(parts), whole, rtol=1e-13, atol=1e-14)
    scaled = (stream.X - stream.center) / stream.lengthscale
    np.testing.assert_array_equal(torch.cat(inputs).numpy(), scaled)


def test_chunk_rows_follow_memory_and_have_limits(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = make_stream(1_000, rng, m=50)
    monkeypatch.setattr(stream_module, "CHUNK_BYTES", 8 * 100 * 300)
    assert stream.chunk_rows == 300
    monkeypatch.setattr(stream_module, "CHUNK_BYTES", 8)
    assert stream.chunk_rows == 256
    monkeypatch.setattr(stream_module, "CHUNK_BYTES", 2**40)
    assert stream.chunk_rows == 1_000
    monkeypatch.setattr(stream_module, "MAX_CHUNK_ROWS", 700)
    assert stream.chunk_rows == 700


@pytest.mark.parametrize("chunk_bytes", [1, 8 * 12 * 300, 2**26])
def test_moments_do_not_depend_on_chunks(
    chunk_bytes: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = make_stream(900, rng)
    targets, offset = rng.normal(size=(900, 2)), torch.tensor([0.5, -0.5]).double()
    monkeypatch.setattr(stream_module, "CHUNK_BYTES", chunk_bytes)
    moments = stream_moments(stream, targets, offset)
    phi, centred = stream.dense(), torch.as_tensor(targets) - offset
    torch.testing.assert_close(fill_lower(moments.gram), phi.T @ phi, rtol=1e-12, atol=1e-11)
    torch.testing.assert_close(moments.cross, phi.T @ centred, rtol=1e-12, atol=1e-11)
    torch.testing.assert_close(moments.feature_sum, phi.sum(0), rtol=1e-12, atol=1e-11)
    torch.testing.assert_close(moments.target_sum, centred.sum(0), rtol=1e-12, atol=1e-11)
    torch.testing.assert_close(moments.target_square, centred.square().sum(0))
    assert moments.n_rows == 900


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("size", [1, 5, 255, 256, 257, 300])
def test_gram_by_blocks(size: int, dtype: torch.dtype, rng: np.random.Generator) -> None:
    features = torch.as_tensor(rng.normal(size=(40, size))).to(dtype)
    total = torch.zeros(size, size, dtype=torch.float64)
    add_gram(total, features)
    add_gram(total, features[:13])
    expected = features.T.double() @ features.double()
    expected += features[:13].T.double() @ features[:13].double()
    tolerance = 1e-11 if dtype == torch.float64 else 1e-4
    torch.testing.assert_close(fill_lower(total), expected, rtol=0, atol=tolerance)
    full = fill_lower(total)
    assert torch.equal(full, full.T)


def test_inputs_are_not_changed(rng: np.random.Generator) -> None:
    stream = make_stream(10, rng)
    stream.X.flags.writeable = False
    before = stream.X.copy()
    for _ in stream:
        pass
    stream.dense()
    np.testing.assert_array_equal(stream.X, before)
