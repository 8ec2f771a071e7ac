"""gpytorch kernels of coupled features: the maps' own Gram, gpytorch's contract, low rank kept."""

import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gpytorch.test.base_kernel_test_case import BaseKernelTestCase
from torch import Tensor

import coupledgp as cgp
from coupledgp.couplings import available_couplings
from coupledgp.errors import InvalidInputError
from coupledgp.features import FeatureMap, FourierFeatures, LaplaceFeatures
from coupledgp.inference.feature_evidence import FeatureEvidence
from coupledgp.inference.posterior import DataStatistics
from coupledgp.inference.stream import FeatureStream
from coupledgp.kernels import FourierFeatureKernel, LaplaceFeatureKernel
from coupledgp.kernels.feature_kernels import FeatureKernel
from coupledgp.spectra import parse_spectrum
from tests.theory import assert_mean

import gpytorch  # isort: skip

KERNELS = [FourierFeatureKernel, LaplaceFeatureKernel]
both = pytest.mark.parametrize("kind", KERNELS, ids=lambda kind: kind.__name__)
LENGTHSCALE = torch.tensor([[1.4, 0.9, 2.2]]).double()


def serves(kind: type[FeatureKernel], coupling: str, dim: int) -> bool:
    """Whether a coupling draws frequencies of this dimension, for these features."""
    try:
        kind.feature_map(dim, 4, coupling, generator=0)
    except InvalidInputError:
        return False
    return True


class GpytorchContract(BaseKernelTestCase):
    """gpytorch's own tests, for every registered coupling."""

    kind: type[FeatureKernel]

    @pytest.fixture(autouse=True, params=available_couplings())
    def _coupling(self, request: pytest.FixtureRequest) -> None:
        self.coupling = request.param
        dim = 4 if request.function.__name__.startswith("test_active_dims") else 2
        if not serves(self.kind, self.coupling, dim):
            pytest.skip(f"{self.coupling} is not for these features, or for fewer dimensions")

    def create_kernel_no_ard(self, **kwargs: Any) -> FeatureKernel:
        return self.kind(6, coupling=self.coupling, generator=3, **kwargs)

    def create_kernel_ard(self, num_dims: int, **kwargs: Any) -> FeatureKernel:
        return self.create_kernel_no_ard(ard_num_dims=num_dims, **kwargs)


class TestFourierFeatureKernel(GpytorchContract):
    kind = FourierFeatureKernel


class TestLaplaceFeatureKernel(GpytorchContract):
    kind = LaplaceFeatureKernel


def data(rng: np.random.Generator, *shape: int) -> Tensor:
    return torch.as_tensor(rng.normal(size=shape)) / 2


def ard_kernel(kind: type[FeatureKernel], m: int = 8, **kwargs: Any) -> FeatureKernel:
    kernel = kind(m, ard_num_dims=3, generator=5, **kwargs).double()
    kernel.lengthscale = LENGTHSCALE
    return kernel


class TestValues:
    @pytest.mark.parametrize("coupling", available_couplings())
    @both
    def test_gram_is_that_of_the_feature_map(
        self, kind: type[FeatureKernel], coupling: str, rng: np.random.Generator
    ) -> None:
        if not serves(kind, coupling, 3):
            with pytest.raises(InvalidInputError, match="antithetic"):
                ard_kernel(kind, 7, coupling=coupling)
            return
        kernel = ard_kernel(kind, 7, coupling=coupling)
        x1, x2 = data(rng, 6, 3), data(rng, 4, 3)
        phi = kind.feature_map(3, 7, coupling, generator=5)
        left, right = phi(x1 / LENGTHSCALE), phi(x2 / LENGTHSCALE)
        with torch.no_grad():
            torch.testing.assert_close(kernel(x1).to_dense(), left @ left.T)
            torch.testing.assert_close(kernel(x1, x2).to_dense(), left @ right.T)
            torch.testing.assert_close(kernel(x1, diag=True), left.square().sum(1))
            torch.testing.assert_close(kernel(x1[:4], x2, diag=True), (left[:4] * right).sum(1))
            torch.testing.assert_close(kernel(x1).diagonal(), left.square().sum(1))

    @pytest.mark.parametrize(
        ("kind", "spectrum"),
        [
            (FourierFeatureKernel, "gaussian"),
            (FourierFeatureKernel, "matern-1/2"),
            (FourierFeatureKernel, "matern-5/2"),
            (LaplaceFeatureKernel, "gaussian"),
        ],
    )
    def test_unbiased_for_the_kernel_of_the_spectrum(
        self, kind: type[FeatureKernel], spectrum: str, rng: np.random.Generator
    ) -> None:
        x = data(rng, 5, 3)
        draws = []
        for _ in range(400):
            kernel = kind(6, 3, spectrum=spectrum, generator=rng).double()
            kernel.lengthscale = 1.7
            with torch.no_grad():
                draws.append(kernel(x).to_dense().numpy())
        distance = np.linalg.norm(x[:, None] - x[None], axis=-1) / 1.7
        exact = parse_spectrum(spectrum).kernel(distance)
        above = np.triu_indices(5, 1)
        assert_mean(np.stack(draws)[:, *above], exact[above])

    @both
    def test_gradient_in_the_lengthscale(
        self, kind: type[FeatureKernel], rng: np.random.Generator
    ) -> None:
        kernel = ard_kernel(kind)
        x1, x2, weight = data(rng, 5, 3), data(rng, 4, 3), data(rng, 5, 4)

        def total(raw: Tensor) -> Tensor:
            kernel.raw_lengthscale.data = raw
            return (kernel(x1, x2).to_dense() * weight).sum()

        raw = kernel.raw_lengthscale.data.clone()
        total(raw).backward()
        steps = 1e-6 * torch.eye(3).double()[:, None]
        slopes = [(total(raw + step) - total(raw - step)) / 2e-6 for step in steps]
        expected = torch.stack(slopes).detach()[None]
        torch.testing.assert_close(kernel.raw_lengthscale.grad, expected, rtol=1e-6, atol=1e-9)

    @both
    def test_gradient_in_the_inputs(
        self, kind: type[FeatureKernel], rng: np.random.Generator
    ) -> None:
        kernel = ard_kernel(kind, 3)
        x1, x2 = data(rng, 2, 3).requires_grad_(), data(rng, 3, 3).requires_grad_()
        assert torch.autograd.gradcheck(lambda a, b: kernel(a, b).to_dense(), (x1, x2))

    @both
    def test_single_precision(self, kind: type[FeatureKernel], rng: np.random.Generator) -> None:
        x = data(rng, 6, 3)
        double, single = ard_kernel(kind), ard_kernel(kind).float()
        with torch.no_grad():
            gram = single(x.float()).to_dense()
            assert gram.dtype == torch.float32
            torch.testing.assert_close(gram, double(x).to_dense().float(), rtol=1e-4, atol=1e-5)

    def test_stationary_or_not(self) -> None:
        assert FourierFeatureKernel(2).is_stationary
        assert not LaplaceFeatureKernel(2).is_stationary


class TestBatches:
    @both
    def test_members_have_frequencies_of_their_own(
        self, kind: type[FeatureKernel], rng: np.random.Generator
    ) -> None:
        kernel = kind(4, 2, batch_shape=torch.Size([3, 2]), generator=1).double()
        assert kernel.frequencies is not None
        assert kernel.frequencies.shape == (3, 2, 4, 2)
        assert len(set(kernel.seeds.flatten().tolist())) == 6
        kernel.lengthscale = torch.rand(3, 2, 1, 1) + 0.5
        x = data(rng, 3, 2, 5, 2)
        with torch.no_grad():
            gram = kernel(x).to_dense()
            for i, j in np.ndindex(3, 2):
                phi = kind.feature_map.from_frequencies(
                    kernel.frequencies[i, j], "iid", "gaussian"
                )(x[i, j] / kernel.lengthscale[i, j])
                torch.testing.assert_close(gram[i, j], phi @ phi.T)
                torch.testing.assert_close(kernel[i, j](x[i, j]).to_dense(), phi @ phi.T)

    @both
    def test_batches_broadcast(self, kind: type[FeatureKernel], rng: np.random.Generator) -> None:
        kernel = kind(4, 2, batch_shape=torch.Size([2, 1]), generator=1).double()
        x = data(rng, 5, 1, 3, 6, 2)
        with torch.no_grad():
            gram = kernel(x).to_dense()
            assert gram.shape == (5, 2, 3, 6, 6)
            torch.testing.assert_close(gram[4, 1, 2], kernel[1, 0](x[4, 0, 2]).to_dense())
            torch.testing.assert_close(kernel(x, diag=True), gram.diagonal(dim1=-1, dim2=-2))

    @both
    def test_a_member_is_the_same_before_and_after_the_first_call(
        self, kind: type[FeatureKernel], rng: np.random.Generator
    ) -> None:
        x = data(rng, 2, 5, 3)
        kernel = kind(4, batch_shape=torch.Size([2]), generator=1).double()
        scaled = gpytorch.kernels.ScaleKernel(kernel, batch_shape=torch.Size([2])).double()
        with torch.no_grad():
            uncalled = scaled(x)[1].to_dense()
            assert kernel.frequencies is None
            torch.testing.assert_close(uncalled, scaled(x).to_dense()[1])

    @both
    def test_active_dims_survive_indexing_and_expansion(
        self, kind: type[FeatureKernel], rng: np.random.Generator
    ) -> None:
        kernel = kind(4, active_dims=(0, 2), batch_shape=torch.Size([2]), generator=1).double()
        x = data(rng, 5, 3)
        with torch.no_grad():
            gram = kernel(x).to_dense()
            torch.testing.assert_close(kernel[1](x).to_dense(), gram[1])
            wide = kernel.expand_batch(3, 2)
            assert wide.batch_shape == (3, 2)
            torch.testing.assert_close(wide(x).to_dense(), gram.expand(3, 2, 5, 5))
        assert kernel.expand_batch(torch.Size([2])) is kernel

    @pytest.mark.filterwarnings("ignore:The last_dim_is_batch")
    @pytest.mark.filterwarnings("ignore:AdditiveStructureKernel is deprecated")
    @both
    def test_last_dimension_as_batch(
        self, kind: type[FeatureKernel], rng: np.random.Generator
    ) -> None:
        for shape in ((), (2,)):
            kernel = kind(4, batch_shape=torch.Size(shape), generator=1).double()
            x1, x2 = data(rng, 5, 3), data(rng, 4, 3)
            with torch.no_grad():
                gram = kernel(x1, x2, last_dim_is_batch=True).to_dense()
                assert gram.shape == (*shape, 3, 5, 4)
                for j in range(3):
                    column = kernel(x1[:, [j]], x2[:, [j]]).to_dense()
                    torch.testing.assert_close(gram[..., j, :, :], column)
                diagonal = kernel(x1, diag=True, last_dim_is_batch=True)
                square = kernel(x1, last_dim_is_batch=True).to_dense()
                torch.testing.assert_close(diagonal, square.diagonal(dim1=-1, dim2=-2))
        additive = gpytorch.kernels.AdditiveStructureKernel(kind(4, generator=1).double(), 3)
        with torch.no_grad():
            columns = [additive.base_kernel(x1[:, [j]]).to_dense() for j in range(3)]
            torch.testing.assert_close(additive(x1).to_dense(), sum(columns))
            assert additive(x1).evaluate_kernel().root.shape[-1] % 3 == 0  # side by side


@both
def test_composition(kind: type[FeatureKernel], rng: np.random.Generator) -> None:
    x1, x2 = data(rng, 6, 3), data(rng, 4, 3)
    first = kind(4, active_dims=(0, 1), generator=1).double()
    other = gpytorch.kernels.ScaleKernel(kind(5, active_dims=(2,), generator=2)).double()
    rbf = gpytorch.kernels.RBFKernel().double()
    with torch.no_grad():
        for args in ((x1,), (x1, x2)):
            a, b, c = (k(*args).to_dense() for k in (first, other, rbf))
            torch.testing.assert_close((rbf + first)(*args).to_dense(), c + a)
            torch.testing.assert_close((first + other)(*args).to_dense(), a + b)
            torch.testing.assert_close((first * other)(*args).to_dense(), a * b)
            torch.testing.assert_close((first * rbf + other)(*args).to_dense(), a * c + b)


class TestFrequencies:
    @both
    def test_drawn_at_once_or_at_the_first_call(self, kind: type[FeatureKernel]) -> None:
        early, late = kind(5, 3, generator=7), kind(5, generator=7)
        assert late.frequencies is None
        late(torch.zeros(2, 3)).to_dense()
        assert early.frequencies is not None
        assert torch.equal(early.frequencies, late.frequencies)
        drawn = kind.feature_map(3, 5, generator=7).frequencies
        assert torch.equal(early.frequencies, drawn)
        assert "frequencies" in early.state_dict()

    @both
    def test_precision_of_the_draw_survives_a_conversion(self, kind: type[FeatureKernel]) -> None:
        """A kernel made in single precision and then turned to double has not lost digits."""
        drawn = kind.feature_map(3, 5, generator=7).frequencies
        assert torch.equal(kind(5, 3, generator=7).double().frequencies, drawn)

    @pytest.mark.parametrize(
        "known", [{"dim": 2}, {"ard_num_dims": 2}, {"active_dims": (0, 3)}], ids=str
    )
    def test_known_dimensions(self, known: dict[str, Any]) -> None:
        kernel = FourierFeatureKernel(5, generator=0, **known)
        assert kernel.frequencies is not None
        assert kernel.frequencies.shape == (5, 2)

    def test_generators(self) -> None:
        def seeds(generator: Any, *shape: int) -> list[int]:
            batch = torch.Size(shape)
            return FourierFeatureKernel(2, 1, generator=generator, batch_shape=batch).seeds.tolist()

        assert seeds(4) == seeds(np.int64(4)) == 4
        assert seeds(4, 3) == seeds(4, 3) != seeds(5, 3)
        assert seeds(2**80) == seeds(2**80)
        for make in (torch.Generator().manual_seed, np.random.default_rng):
            assert seeds(make(1)) == seeds(make(1)) != seeds(make(2))
        state = torch.get_rng_state()
        try:
            torch.manual_seed(3)
            first = seeds(None)
            assert seeds(None) != first
            torch.manual_seed(3)
            assert seeds(None) == first
        finally:
            torch.set_rng_state(state)

    @both
    @pytest.mark.parametrize("shape", [(), (2,)])
    @pytest.mark.parametrize("called", [False, True])
    def test_state_restores_frequencies_either_way(
        self, kind: type[FeatureKernel], shape: tuple[int, ...], called: bool
    ) -> None:
        batch = torch.Size(shape)
        source = kind(5, 3, generator=7, batch_shape=batch)
        target = kind(5, generator=8, batch_shape=batch)
        x = torch.linspace(0, 1, 12).reshape(4, 3)
        if called:
            target(x).to_dense()
        assert list(target.load_state_dict(source.state_dict())) == [[], []]
        assert torch.equal(target.frequencies, source.frequencies)
        assert torch.equal(target.seeds, source.seeds)
        assert torch.equal(target(x).to_dense(), source(x).to_dense())

    @both
    def test_state_without_frequencies_leaves_its_seed_to_draw_them(
        self, kind: type[FeatureKernel]
    ) -> None:
        source, target = kind(5, generator=7), kind(5, 2, generator=8)
        target.load_state_dict(source.state_dict())
        assert target.frequencies is None
        x = torch.linspace(0, 1, 12).reshape(4, 3)
        assert torch.equal(target(x).to_dense(), source(x).to_dense())

    def test_state_of_another_size_is_refused(self) -> None:
        source, target = FourierFeatureKernel(5, 3), FourierFeatureKernel(5, 2)
        with pytest.raises(RuntimeError, match="size mismatch for frequencies"):
            target.load_state_dict(source.state_dict())

    def test_new_process(self, tmp_path: Path) -> None:
        x = torch.linspace(-1, 1, 12).reshape(4, 3)
        stored: dict[str, Any] = {"x": x}
        for kind in KERNELS:
            kernel = gpytorch.kernels.ScaleKernel(kind(5, coupling="sobol", generator=7))
            kernel.base_kernel.lengthscale = 0.3
            gram = kernel(x).to_dense().detach()
            stored[kind.__name__] = {"state": kernel.state_dict(), "gram": gram}
        torch.save(stored, tmp_path / "kernels.pt")
        code = (
            "import torch, gpytorch, coupledgp as cgp\n"
            f"stored = torch.load({str(tmp_path / 'kernels.pt')!r}, weights_only=True)\n"
            "for kind in cgp.kernels.FourierFeatureKernel, cgp.kernels.LaplaceFeatureKernel:\n"
            "    kernel = gpytorch.kernels.ScaleKernel(kind(5, generator=0))\n"
            "    kernel.load_state_dict(stored[kind.__name__]['state'])\n"
            "    gram = kernel(stored['x']).to_dense()\n"
            "    assert torch.equal(gram, stored[kind.__name__]['gram'])\n"
        )
        subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


class Model(gpytorch.models.ExactGP):
    """Zero mean, `v kernel + s I`."""

    def __init__(self, X: Tensor, y: Tensor, kernel: FeatureKernel) -> None:
        super().__init__(X, y, gpytorch.likelihoods.GaussianLikelihood())
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)
        self.double()
        self.likelihood.noise = 0.25
        self.covar_module.outputscale = 1.5

    def forward(self, X: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))

    def log_evidence(self) -> Tensor:
        self.train()
        mll = gpytorch.mlls.ExactMarginalLogLikelihood(self.likelihood, self)
        return mll(self(*self.train_inputs), self.train_targets) * len(self.train_targets)


@contextmanager
def cholesky_sizes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Orders of all matrices that torch factorises meanwhile."""
    sizes: list[int] = []
    with monkeypatch.context() as patch:
        for name in ("cholesky", "cholesky_ex", "eigh", "svd", "qr"):
            original = getattr(torch.linalg, name)

            def counted(matrix: Tensor, *args: Any, _of: Any = original, **kwargs: Any) -> Any:
                sizes.append(max(matrix.shape[-2:]))
                return _of(matrix, *args, **kwargs)

            patch.setattr(torch.linalg, name, counted)
        yield sizes


class TestLowRank:
    @pytest.mark.parametrize("n", [60, 1500])
    @both
    def test_nothing_of_the_size_of_the_data_is_factorised(
        self,
        kind: type[FeatureKernel],
        n: int,
        rng: np.random.Generator,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        X, y = data(rng, n, 3), data(rng, n)
        kernel = ard_kernel(kind)
        n_features = kernel.features(X).shape[-1]
        assert n_features < n
        model = Model(X, y, kernel)
        with cholesky_sizes(monkeypatch) as sizes:
            model.log_evidence().backward()
            assert set(sizes) == {n_features}
            model.eval()
            with torch.no_grad():
                law = model.likelihood(model(data(rng, 7, 3)))
                law.variance.sum()
                fantasy = model.get_fantasy_model(data(rng, 2, 3), data(rng, 2))
                assert (fantasy(data(rng, 7, 3)).variance > 0).all()
            assert set(sizes) == {n_features}

    @both
    def test_sums_and_products_keep_it(
        self, kind: type[FeatureKernel], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scale = gpytorch.kernels.ScaleKernel
        one = kind(2, active_dims=(0,), generator=1)
        two = kind(6, active_dims=(0, 2), generator=2)
        X, y, X_test = data(rng, 90, 3), data(rng, 90), data(rng, 4, 3)
        for kernel in (scale(one) + scale(two), one * two, scale(one * two) + one, two + two):
            model = Model(X, y, kernel)
            dense = kernel(X).to_dense() * model.covar_module.outputscale + 0.25 * torch.eye(90)
            law = torch.distributions.MultivariateNormal(torch.zeros(90).double(), dense)
            with cholesky_sizes(monkeypatch) as sizes:
                value = model.log_evidence()
                assert value.item() == pytest.approx(law.log_prob(y).item(), rel=1e-8)
                value.backward()
                model.eval()
                with torch.no_grad(), gpytorch.settings.lazily_evaluate_kernels(False):
                    predicted = model(X_test)
                    mean, variance = predicted.mean, predicted.variance
            assert 0 < max(sizes) < 60
            with torch.no_grad():
                cross = kernel(X_test, X).to_dense() * model.covar_module.outputscale
                weights = torch.linalg.solve(dense, cross.T)
                own = kernel(X_test, diag=True) * model.covar_module.outputscale
            torch.testing.assert_close(mean, weights.T @ y)
            torch.testing.assert_close(variance, own - (cross.T * weights).sum(0))

    @both
    def test_more_features_than_rows(
        self, kind: type[FeatureKernel], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = Model(data(rng, 6, 3), data(rng, 6), ard_kernel(kind, 50))
        with cholesky_sizes(monkeypatch) as sizes:
            model.log_evidence().backward()
            model.eval()
            with torch.no_grad():
                assert (model(data(rng, 4, 3)).variance > 0).all()
            assert max(sizes) == 6

    def test_the_count_sees_a_dense_kernel(
        self, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = Model(data(rng, 60, 3), data(rng, 60), gpytorch.kernels.RBFKernel())
        with cholesky_sizes(monkeypatch) as sizes:
            model.log_evidence()
        assert max(sizes) == 60


@pytest.mark.parametrize("n", [12, 80])
@pytest.mark.parametrize(
    ("kind", "spectrum"),
    [
        (FourierFeatureKernel, "gaussian"),
        (FourierFeatureKernel, "matern-3/2"),
        (LaplaceFeatureKernel, "gaussian"),
    ],
)
def test_evidence_and_predictions_are_ours(
    kind: type[FeatureKernel], spectrum: str, n: int, rng: np.random.Generator
) -> None:
    X, y, X_test = data(rng, n, 3), data(rng, n), data(rng, 5, 3)
    kernel = ard_kernel(kind, 10, spectrum=spectrum)
    model = Model(X, y, kernel)
    theirs = model.log_evidence()
    theirs.backward()

    feature_map: FeatureMap = kind.feature_map(3, 10, spectrum=spectrum, generator=5)
    lengthscale = LENGTHSCALE[0].numpy()
    stream = FeatureStream(feature_map, X.numpy(), np.zeros(3), lengthscale)
    ours = FeatureEvidence(stream, y[:, None].numpy()).at(lengthscale).evaluate(1.5, 0.25)
    assert ours.value == pytest.approx(theirs.item(), rel=1e-8)
    slope = torch.sigmoid(kernel.raw_lengthscale.detach())  # of the softplus
    by_log = (kernel.raw_lengthscale.grad / slope * kernel.lengthscale.detach()).numpy()[0]
    np.testing.assert_allclose(ours.lengthscale, by_log, rtol=1e-6, atol=1e-8)

    zero, one = torch.zeros(1).double(), torch.ones(1).double()
    statistics = DataStatistics(feature_map.n_features, zero)
    statistics.update((phi, y[rows, None]) for rows, _, phi in stream)
    posterior = statistics.posterior(zero, one, 1.5, 0.25)
    model.eval()
    with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False):
        law = model(X_test)
    phi = feature_map(X_test / LENGTHSCALE)
    root = posterior.root(phi)
    torch.testing.assert_close(law.mean, posterior.predict(phi)[:, 0], rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(law.covariance_matrix, root @ root.T, rtol=1e-6, atol=1e-7)


@both
def test_training(kind: type[FeatureKernel], rng: np.random.Generator) -> None:
    """Ascent on the marginal likelihood finds the relevant input."""
    X = data(rng, 200, 2)
    y = (4 * X[:, 0]).sin() + 0.1 * torch.as_tensor(rng.normal(size=200))
    model = Model(X, y, kind(40, ard_num_dims=2, generator=0))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    values = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = -model.log_evidence()
        loss.backward()
        values.append(loss.item())
        optimizer.step()
    assert values[-1] < values[0] - 50
    first, second = model.covar_module.base_kernel.lengthscale[0].tolist()
    assert second > 2 * first
    assert model.likelihood.noise.item() < 0.1


class TestErrors:
    @pytest.mark.parametrize("value", [0, 2.5, True])
    def test_counts(self, value: object) -> None:
        with pytest.raises(InvalidInputError, match="n_frequencies: expected an int >= 1"):
            FourierFeatureKernel(value)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="dim: expected an int >= 1"):
            FourierFeatureKernel(3, value)  # type: ignore[arg-type]

    def test_dimensions_that_disagree(self) -> None:
        with pytest.raises(InvalidInputError, match=r"dim says 3, ard_num_dims says 2"):
            FourierFeatureKernel(4, 3, ard_num_dims=2)

    def test_inputs_of_another_dimension(self) -> None:
        with pytest.raises(InvalidInputError, match=r"X: expected shape \(\.\.\., n, 3\), got"):
            FourierFeatureKernel(4, 3)(torch.zeros(5, 2)).to_dense()

    def test_names(self) -> None:
        with pytest.raises(InvalidInputError, match="coupling: expected one of"):
            FourierFeatureKernel(4, coupling="orthogonall")
        with pytest.raises(InvalidInputError, match="spectrum: expected 'gaussian'"):
            FourierFeatureKernel(4, spectrum="gauss")
        with pytest.raises(InvalidInputError, match=r"'gaussian' only, got 'matern-3/2'"):
            LaplaceFeatureKernel(4, spectrum="matern-3/2")
        with pytest.raises(InvalidInputError, match="generator: expected a seed >= 0, got -1"):
            FourierFeatureKernel(4, generator=-1)

    def test_lazy_names(self) -> None:
        assert cgp.kernels.GraphFeatureKernel.__name__ == "GraphFeatureKernel"
        with pytest.raises(AttributeError, match="no attribute 'Feature'"):
            cgp.kernels.Feature  # noqa: B018


def test_maps_are_those_of_the_package() -> None:
    assert FourierFeatureKernel.feature_map is FourierFeatures
    assert LaplaceFeatureKernel.feature_map is LaplaceFeatures
    one = FourierFeatureKernel(3, generator=0).double()(torch.zeros(1, 2).double())
    assert math.isclose(one.to_dense().item(), 1.0)
