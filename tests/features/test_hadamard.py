"""Feature maps of fast couplings: the features of the same frequencies, formed."""

import copy

import numpy as np
import pytest
import torch

from coupledgp import SparseSpectrumGPRegressor, load_model
from coupledgp.errors import InvalidInputError
from coupledgp.features import FeatureMap, FourierFeatures, LaplaceFeatures
from coupledgp.features.hadamard import HadamardTransform, hadamard_product

MAPS = [FourierFeatures, LaplaceFeatures]
both = pytest.mark.parametrize("kind", MAPS, ids=lambda kind: kind.__name__)
CASES = [(5, 13, "simplex-fast+pnc+antithetic"), (8, 20, "orthogonal-fast"), (1, 3, "simplex-fast")]
every_case = pytest.mark.parametrize(("dim", "m", "coupling"), CASES)


def twins(kind: type[FeatureMap], dim: int, m: int, coupling: str) -> tuple[FeatureMap, FeatureMap]:
    """A fast map, and a map that holds the same frequencies as a matrix."""
    fast = kind(dim, m, coupling, generator=3)
    return fast, kind.from_frequencies(fast.frequencies, coupling, "gaussian")


@both
@every_case
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_features_and_gradients_are_those_of_the_formed_frequencies(
    kind: type[FeatureMap],
    dim: int,
    m: int,
    coupling: str,
    dtype: torch.dtype,
    rng: np.random.Generator,
) -> None:
    fast, formed = (each.to(dtype=dtype) for each in twins(kind, dim, m, coupling))
    assert fast.transform is not None
    assert formed.transform is None
    X = torch.as_tensor(rng.normal(size=(2, 3, dim)) / 2).to(dtype)
    close = {"rtol": 1e-12, "atol": 1e-13} if dtype == torch.float64 else {}
    torch.testing.assert_close(fast(X), formed(X), **close)
    phi = fast(X[0])
    assert phi.dtype == dtype
    torch.testing.assert_close(fast(X[0], out=torch.empty_like(phi)), phi)
    upstream = torch.as_tensor(rng.normal(size=tuple(phi.shape))).to(dtype)
    gradients = [each.pullback(X[0], phi, upstream.clone()) for each in (fast, formed)]
    torch.testing.assert_close(*gradients, **close)


@both
@every_case
def test_gradcheck(
    kind: type[FeatureMap], dim: int, m: int, coupling: str, rng: np.random.Generator
) -> None:
    fast = kind(dim, m, coupling, generator=0)
    X = torch.as_tensor(rng.normal(size=(2, dim)) / 2).requires_grad_()
    assert torch.autograd.gradcheck(fast, (X,))
    assert torch.autograd.gradgradcheck(fast, (X,))


@every_case
def test_torch_and_compiled_products_agree(
    dim: int, m: int, coupling: str, rng: np.random.Generator
) -> None:
    """Half precision and other devices have no compiled loop."""
    transform = FourierFeatures(dim, m, coupling, generator=1).transform
    assert transform is not None

    class Uncompiled(HadamardTransform):
        _compiled = False

    other = copy.deepcopy(transform)
    other.__class__ = Uncompiled
    X = torch.as_tensor(rng.normal(size=(5, dim)))
    values = torch.as_tensor(rng.normal(size=(5, m)))
    torch.testing.assert_close(other(X), transform(X), rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(
        other.transposed(values), transform.transposed(values), rtol=1e-12, atol=1e-13
    )
    coarse = transform.to(dtype=torch.bfloat16)
    assert coarse(X.bfloat16()).dtype == torch.bfloat16
    torch.testing.assert_close(coarse(X.bfloat16()).double(), transform(X), rtol=0.1, atol=0.3)


def test_hadamard_product_is_its_own_inverse(rng: np.random.Generator) -> None:
    X = torch.as_tensor(rng.normal(size=(3, 2, 16)))
    torch.testing.assert_close(hadamard_product(hadamard_product(X)), X)
    first = hadamard_product(torch.eye(4).double())
    assert (
        first * 2 == torch.tensor([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]])
    ).all()


@both
def test_frequencies_are_not_kept(kind: type[FeatureMap]) -> None:
    dim, m = 64, 256
    fast = kind(dim, m, "orthogonal-fast", generator=0)
    names = {"transform.norms": m, "transform.units": m, "transform.signs": 2 * m}
    assert {k: v.numel() for k, v in fast.state_dict().items()} == names
    assert fast.frequencies.shape == (m, dim)
    drawn = fast.coupling.sample(m, dim, "gaussian", 0)
    np.testing.assert_allclose(fast.frequencies.numpy(), drawn, rtol=1e-12, atol=1e-13)


@both
def test_state_round_trips(kind: type[FeatureMap]) -> None:
    source, target = (kind(5, 9, "simplex-fast", generator=seed) for seed in (0, 1))
    X = np.linspace(-1, 1, 10).reshape(2, 5)
    assert not torch.equal(source(X), target(X))
    target.load_state_dict(source.state_dict())
    assert torch.equal(source(X), target(X))
    again = kind(5, 9, "simplex-fast").load_state_dict(source.state_dict())
    assert torch.equal(source(X), again(X))
    with pytest.raises(InvalidInputError, match=f"state: expected that of a {kind.__name__}"):
        target.load_state_dict({"transform.norms": torch.ones(9)})


@both
def test_setting_frequencies_replaces_the_transform(kind: type[FeatureMap]) -> None:
    fast = kind(3, 2, "orthogonal-fast", generator=0)
    fast.frequencies = torch.zeros(2, 3).double()
    assert fast.transform is None
    assert list(fast.state_dict()) == ["frequencies"]
    torch.testing.assert_close(fast(np.zeros((1, 3))), fast(np.full((1, 3), 1e-9)))


@pytest.mark.long
def test_models_fit_predict_and_survive_a_file(tmp_path, rng: np.random.Generator) -> None:  # type: ignore[no-untyped-def]
    X = rng.normal(size=(120, 5))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=120)
    for m in (40, 100):  # more rows than features, and fewer
        gp = SparseSpectrumGPRegressor(
            coupling="orthogonal-fast+pnc",
            n_frequencies=m,
            random_state=0,
            options={"max_iter": 15},
        ).fit(X, y)
        assert gp.features_.transform is not None
        assert gp.score(X, y) > 0.8
        gp.save(tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        assert loaded.features_.transform is not None
        for mine, its in zip(
            gp.predict(X, return_std=True), loaded.predict(X, return_std=True), strict=True
        ):
            np.testing.assert_array_equal(mine, its)
