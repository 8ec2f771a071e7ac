"""The gpytorch kernel of walk features against the features themselves."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import gpytorch
import numpy as np
import pytest
import torch
from linear_operator.utils import cholesky

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.features import WalkFeatures, plan_hops, sample_walks
from coupledgp.kernels import GraphFeatureKernel, HeatKernel, RandomWalkKernel
from coupledgp.kernels.gpytorch.walks import fingerprint
from tests.graph_cases import karate, weighted_graph
from tests.new_process import run_new

HEAT = HeatKernel(3.0)


def make() -> tuple[GraphFeatureKernel, np.ndarray]:
    graph = karate()
    plan = plan_hops(graph, HEAT, 8, 3)
    walks = sample_walks(graph, 8, modulation=HEAT, generator=0)
    kernel = GraphFeatureKernel(graph, HEAT, exact_hops=plan, walks=walks)
    return kernel, WalkFeatures(walks, HEAT, plan).rows()


def column(*nodes: float) -> torch.Tensor:
    return torch.tensor(nodes, dtype=torch.float64)[:, None]


def test_kernel_matrix_is_the_gram_of_the_features() -> None:
    kernel, rows = make()
    x1, x2 = column(0, 5, 33), column(5, 2)
    with torch.no_grad():
        cross = kernel(x1, x2).to_dense().numpy()
        own = kernel(x1).to_dense().numpy()
        diagonal = kernel(x1, diag=True).numpy()
        pairs = kernel(x1, column(5, 5, 1), diag=True).numpy()
    np.testing.assert_allclose(cross, rows[[0, 5, 33]] @ rows[[5, 2]].T, atol=1e-12)
    np.testing.assert_allclose(own, rows[[0, 5, 33]] @ rows[[0, 5, 33]].T, atol=1e-12)
    np.testing.assert_allclose(diagonal, np.diag(own), atol=1e-12)
    np.testing.assert_allclose(pairs, (rows[[0, 5, 33]] * rows[[5, 5, 1]]).sum(1), atol=1e-12)


def test_default_walks_estimate_the_kernel() -> None:
    graph = karate()
    kernel = cgp.kernels.GraphFeatureKernel(graph, HEAT, n_walks=64, generator=1)
    x = torch.arange(34.0, dtype=torch.float64)[:, None]
    with torch.no_grad():
        found = kernel(x).to_dense().numpy()
    truth = cgp.kernels.dense_kernel(graph, HEAT)
    assert kernel.plan.n_hops > 0
    assert np.linalg.norm(found - truth) < 0.02 * np.linalg.norm(truth)
    assert kernel.truncation.relative < 1e-3


@pytest.mark.parametrize("hops", ["auto", 8])
def test_a_series_that_the_hops_exhaust_leaves_the_exact_kernel(hops: int | str) -> None:
    graph, polynomial = karate(), RandomWalkKernel(steps=4)
    kernel = GraphFeatureKernel(graph, polynomial, 4, exact_hops=hops, generator=0)
    found = kernel(column(0, 5, 33)).to_dense()
    found.sum().backward()
    truth = cgp.kernels.dense_kernel(graph, polynomial)[np.ix_([0, 5, 33], [0, 5, 33])]
    np.testing.assert_allclose(found.detach().numpy(), truth, atol=1e-12)
    assert torch.isfinite(kernel.theta.grad).all()


def test_an_isolated_node_has_the_variance_of_a_constant() -> None:
    """It has `L~ = 0`, as in the models: `f(0)^2 = 1`, not the `exp(-t)` of `L~ = 1`."""
    graph = cgp.Graph.from_edges([0, 1], [1, 2], n_nodes=4)
    kernel = cgp.kernels.GraphFeatureKernel(graph, HeatKernel(9.0), n_walks=16, generator=0)
    with torch.no_grad():
        found = kernel(column(0, 1, 2, 3)).to_dense().numpy()
    assert found[3, 3] == pytest.approx(1.0, abs=1e-3)
    assert np.abs(found[3, :3]).max() == 0


def test_same_seed_same_bits_and_the_walks_of_sample_walks() -> None:
    graph = weighted_graph()
    first, second = (
        GraphFeatureKernel(graph, HEAT, 4, length_law="geometric", exact_hops=0, generator=7)
        for _ in range(2)
    )
    assert all(torch.equal(a, b) for a, b in zip(first.buffers(), second.buffers(), strict=True))
    direct = sample_walks(graph.closed, 4, generator=7, modulation=HEAT)
    for a, b in zip(first.walks.visits, direct.visits, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("start", [HEAT, RandomWalkKernel(2.5, 3)])
def test_gradient_is_a_finite_difference(start: cgp.kernels.GraphKernel) -> None:
    kernel = GraphFeatureKernel(karate(), start, 4, exact_hops=2, generator=0, batch_shape=[2])
    kernel.theta.data += torch.tensor([[0.0], [0.3]])
    x = torch.arange(10, dtype=torch.float64)[:, None]
    weight = torch.arange(200.0, dtype=torch.float64).reshape(2, 10, 10)

    def total(theta: torch.Tensor) -> torch.Tensor:
        kernel.theta.data = theta
        return (kernel(x).to_dense() * weight).sum()

    theta = kernel.theta.data.clone()
    total(theta).backward()
    assert kernel.theta.grad is not None
    for member in range(2):
        step = torch.zeros_like(theta)
        step[member] = 1e-6
        slope = (total(theta + step) - total(theta - step)).detach() / 2e-6
        assert float(kernel.theta.grad[member]) == pytest.approx(float(slope), rel=1e-5)


def test_batches_share_walks_and_have_parameters_of_their_own() -> None:
    graph = karate()
    kernel = GraphFeatureKernel(graph, HEAT, 4, exact_hops=2, generator=0, batch_shape=[3])
    kernel.theta.data += torch.tensor([[0.0], [0.5], [1.0]])
    x = column(3, 7, 11)
    whole = kernel(x).to_dense()
    assert whole.shape == (3, 3, 3)
    for member in range(3):
        # Series are cut at 1e-6 of the longest of the batch.
        torch.testing.assert_close(
            kernel[member](x).to_dense(), whole[member], rtol=1e-5, atol=1e-6
        )
    torch.testing.assert_close(kernel(x.expand(3, 3, 1), diag=True), whole.diagonal(dim1=1, dim2=2))
    alone = GraphFeatureKernel(graph, HEAT, 4, exact_hops=2, generator=0)
    wide = alone.expand_batch(2, 3)
    torch.testing.assert_close(wide(x).to_dense(), alone(x).to_dense().expand(2, 3, 3, 3))


def test_active_dims_choose_the_column_of_nodes() -> None:
    graph = karate()
    kernel = GraphFeatureKernel(graph, HEAT, 4, generator=0, active_dims=[1])
    plain = GraphFeatureKernel(graph, HEAT, 4, generator=0)
    x = torch.cat([torch.randn(3, 1, dtype=torch.float64), column(3, 7, 11)], dim=1)
    torch.testing.assert_close(kernel(x).to_dense(), plain(x[:, 1:]).to_dense())


def test_bad_node_numbers_are_named() -> None:
    kernel, _ = make()
    for bad, shown in [(34, "34"), (-1, "-1"), (2.5, "2.5"), (float("nan"), "nan")]:
        with pytest.raises(InvalidInputError, match=f"x: expected node numbers .* got {shown} "):
            kernel(column(0, bad)).to_dense()
    with pytest.raises(InvalidInputError, match=r"shape \(\.\.\., n, 1\), got shape \(2, 3\)"):
        kernel(torch.zeros(2, 3)).to_dense()
    some = GraphFeatureKernel(karate(), HEAT, 4, nodes=[1, 2], generator=0)
    assert some(column(2, 1)).to_dense().shape == (2, 2)
    with pytest.raises(InvalidInputError, match=r"walked from \(2 of 34\), got 5; name them"):
        some(column(2, 5)).to_dense()
    with pytest.raises(InvalidInputError, match="walks: expected walks on `graph`"):
        GraphFeatureKernel(weighted_graph(), walks=kernel.walks)


class Model(gpytorch.models.ExactGP):
    def __init__(self, x: torch.Tensor, y: torch.Tensor, kernel: gpytorch.kernels.Kernel) -> None:
        super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

    def forward(self, nodes: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(
            self.mean_module(nodes), self.covar_module(nodes)
        )


def model_of(n: int, kernel: GraphFeatureKernel | None = None) -> Model:
    """A model of n values at random nodes of the karate club."""
    kernel = kernel or make()[0]
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 34, (n, 1), generator=generator).double()
    y = torch.sin(x[:, 0]) + 0.1 * torch.randn(n, generator=generator, dtype=torch.float64)
    model = Model(x, y, kernel).double()
    model.likelihood.noise = 0.01
    return model


@contextmanager
def factor_sizes() -> Iterator[list[int]]:
    """Collect the sizes of all matrices that are factorised within the context."""
    sizes: list[int] = []

    def counting(function: Callable) -> Callable:
        def run(matrix: torch.Tensor, *args: object, **kwargs: object) -> object:
            sizes.append(matrix.shape[-1])
            return function(matrix, *args, **kwargs)

        return run

    with pytest.MonkeyPatch.context() as patch:
        for module, name in [
            (torch.linalg, "cholesky_ex"),
            (torch.linalg, "cholesky"),
            (torch.linalg, "eigh"),
            (torch.linalg, "qr"),
        ]:
            patch.setattr(module, name, counting(getattr(module, name)))
        assert cholesky.torch.linalg.cholesky_ex is torch.linalg.cholesky_ex
        yield sizes


@pytest.mark.parametrize(("n", "largest"), [(20, 20), (200, 34)])
def test_factors_are_of_the_rows_or_of_the_nodes_whichever_are_fewer(n: int, largest: int) -> None:
    model = model_of(n)
    test = column(*range(34))
    with factor_sizes() as sizes:
        model.train()
        mll = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
        mll(model(*model.train_inputs), model.train_targets).backward()
        model.eval()
        with torch.no_grad():
            found = model.likelihood(model(test))
            mean, variance = found.mean, found.variance
    assert sizes
    assert max(sizes) == largest
    assert model.covar_module.base_kernel.theta.grad is not None
    # The same posterior in closed form.
    with torch.no_grad():
        x, y = model.train_inputs[0], model.train_targets
        k = model.covar_module
        gram = k(x).to_dense() + model.likelihood.noise * torch.eye(n, dtype=torch.float64)
        cross = k(test, x).to_dense()
        solved = torch.linalg.solve(gram, cross.mT)
        covariance = k(test).to_dense() - cross @ solved
    torch.testing.assert_close(mean, solved.mT @ y, rtol=1e-5, atol=1e-6)
    expected = covariance.diagonal() + model.likelihood.noise
    torch.testing.assert_close(variance, expected, rtol=1e-4, atol=1e-6)


def test_evidence_of_both_paths_is_the_closed_form() -> None:
    for n in (20, 200):
        model = model_of(n)
        model.train()
        x, y = model.train_inputs[0], model.train_targets
        prior = model.likelihood(model(x))
        with torch.no_grad():
            noisy = torch.eye(n, dtype=torch.float64) * model.likelihood.noise
            dense = torch.distributions.MultivariateNormal(
                torch.zeros(n, dtype=torch.float64), model.covar_module(x).to_dense() + noisy
            )
            assert float(prior.log_prob(y)) == pytest.approx(float(dense.log_prob(y)), rel=1e-5)


def test_trains_inside_a_gpytorch_model() -> None:
    model = model_of(60)
    model.train()
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = -mll(model(*model.train_inputs), model.train_targets)
        loss.backward()
        losses.append(float(loss.detach()))
        optimizer.step()
    assert losses[-1] < losses[0]
    assert "covar_module.base_kernel.theta" in model.state_dict()


OTHER_PROCESS = """
import sys, torch, networkx as nx
import coupledgp as cgp
graph = cgp.Graph.from_networkx(nx.karate_club_graph(), weight=None)
kernel = cgp.kernels.GraphFeatureKernel(graph, "heat", 3, exact_hops=1, generator=99)
kernel.load_state_dict(torch.load(sys.argv[1], weights_only=True))
x = torch.arange(34, dtype=torch.float64)[:, None]
torch.save(kernel(x).to_dense().detach(), sys.argv[2])
"""


def test_state_dict_restores_walks_bit_for_bit_in_another_process(tmp_path: Path) -> None:
    kernel, _ = make()
    kernel.theta.data += 0.25
    x = torch.arange(34, dtype=torch.float64)[:, None]
    # A detour by single precision rounds theta but no walk.
    before = [buffer.clone() for buffer in kernel.buffers()]
    kernel.float().double()
    assert all(torch.equal(a, b) for a, b in zip(before, kernel.buffers(), strict=True))
    state, out = tmp_path / "state.pt", tmp_path / "gram.pt"
    torch.save(kernel.state_dict(), state)
    run_new(OTHER_PROCESS, state, out)
    restored = torch.load(out, weights_only=True)
    torch.testing.assert_close(restored, kernel(x).to_dense().detach(), rtol=1e-14, atol=1e-14)
    other = GraphFeatureKernel(karate(), "heat", 3, exact_hops=1, generator=99)
    other.load_state_dict(torch.load(state, weights_only=True))
    assert other.plan.nodes == kernel.plan.nodes
    for name, buffer in kernel.named_buffers():
        assert torch.equal(buffer, other.get_buffer(name))
    for a, b in zip(kernel.walks.visits, other.walks.visits, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_state_dict_of_another_graph_is_refused() -> None:
    kernel, _ = make()
    other = GraphFeatureKernel(weighted_graph(), HEAT, 8, generator=0)
    with pytest.raises(InvalidInputError, match="state_dict: expected walks on this graph"):
        other.load_state_dict(kernel.state_dict())


def test_state_dict_of_a_graph_of_other_weights_or_scales_is_refused() -> None:
    sources, targets = np.arange(11), np.arange(1, 12)
    weights = np.linspace(1.0, 2.0, 11)
    graph = cgp.Graph.from_edges(sources, targets, weights)
    heavier = cgp.Graph.from_edges(sources, targets, 1.5 * weights)
    csr = (graph.indptr, graph.indices, graph.weights)
    scaled = [cgp.Graph(csr, node_scale=np.full(12, size)) for size in (1.0, 2.0)]  # type: ignore[arg-type]
    digests = [fingerprint(one).tobytes() for one in (graph, heavier, *scaled)]
    assert len(set(digests)) == 4
    kernel = GraphFeatureKernel(graph, HEAT, 4, generator=0)
    same = cgp.Graph.from_edges(sources, targets, weights)
    GraphFeatureKernel(same, HEAT, 4, generator=1).load_state_dict(kernel.state_dict())
    other = GraphFeatureKernel(heavier, HEAT, 4, generator=0)
    with pytest.raises(InvalidInputError, match="state_dict: expected walks on this graph"):
        other.load_state_dict(kernel.state_dict())
