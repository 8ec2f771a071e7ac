"""Graph kernels against matrix functions, their series, derivatives and exact operators."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import linalg

import coupledgp as cgp
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.graphs import Graph
from coupledgp.graphs.laplacian_power import power_and_scale
from coupledgp.graphs.spectral import chebyshev_coefficients
from coupledgp.graphs.walk_lengths import n_terms_for
from coupledgp.kernels import (
    GraphKernel,
    GraphMaternKernel,
    HeatKernel,
    InverseCosineKernel,
    LearnedKernel,
    RandomWalkKernel,
    RegularizedLaplacianKernel,
    SeriesOperator,
    available_graph_kernels,
    dense_kernel,
    parse_graph_kernel,
    register_graph_kernel,
)
from coupledgp.kernels.graph import deconvolve
from coupledgp.kernels.graph_families import (
    GRAPH_KERNELS,
    graph_kernel_from,
    graph_kernel_state,
)
from tests.graph_cases import karate, weighted_graph
from tests.registries import forgotten

KERNELS = [
    HeatKernel(0.3),
    HeatKernel(40.0),
    RegularizedLaplacianKernel(1.0, 2.0),
    RegularizedLaplacianKernel(20.0, 0.7),
    GraphMaternKernel(3.0, 1.5),
    RandomWalkKernel(2.0, 4),
    RandomWalkKernel(2.5, 3),
    InverseCosineKernel(),
    LearnedKernel([0.5, -0.2, 0.3, 0.1]),
]
X = np.linspace(-0.95, 1.0, 41)


def laplacian(graph: Graph) -> np.ndarray:
    return np.eye(graph.n_nodes) - graph.normalized_adjacency.toarray()


@pytest.mark.parametrize("graph", [karate(), weighted_graph()], ids=repr)
def test_dense_kernels_are_the_matrix_functions(graph: Graph) -> None:
    L, eye = laplacian(graph), np.eye(graph.n_nodes)
    expected = [
        (HeatKernel(3.0), linalg.expm(-3.0 * L)),
        (
            RegularizedLaplacianKernel(2.0, 2.0),
            linalg.inv(eye + 2.0 * L) @ linalg.inv(eye + 2.0 * L),
        ),
        (RegularizedLaplacianKernel(2.0, 1.0), linalg.inv(eye + 2.0 * L)),
        (GraphMaternKernel(2.0, 1.0), linalg.inv(eye + 2.0 * L)),
        (RandomWalkKernel(2.0, 3), np.linalg.matrix_power(eye - L / 2.0, 3)),
        (InverseCosineKernel(), linalg.cosm(np.pi * L / 4.0)),
    ]
    for kernel, matrix in expected:
        np.testing.assert_allclose(dense_kernel(graph, kernel), matrix, atol=1e-10)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_series_sums_to_the_root_and_squares_to_the_kernel(kernel: GraphKernel) -> None:
    n_terms = n_terms_for(kernel)
    assert n_terms <= kernel.max_terms
    f = kernel.modulation(n_terms)
    bound = kernel.tail(n_terms) + 1e-12
    np.testing.assert_allclose(np.polynomial.polynomial.polyval(X, f), kernel.root(X), atol=bound)
    np.testing.assert_allclose(kernel.root(X) ** 2, kernel.spectral(X), atol=1e-12)
    if not isinstance(kernel, LearnedKernel):
        assert kernel.spectral(np.ones(1))[0] == pytest.approx(1.0)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_tail_is_the_sum_of_what_is_left(kernel: GraphKernel) -> None:
    long = kernel.modulation(8000 if not isinstance(kernel, InverseCosineKernel) else 4000)
    for n_terms in (0, 1, 2, 5, 20, 60):
        left = np.abs(long[n_terms:]).sum()
        slack = 0.02 if isinstance(kernel, InverseCosineKernel) else 1e-9
        assert left - 1e-9 <= kernel.tail(n_terms) <= left + slack


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_gradients_are_those_of_finite_differences(kernel: GraphKernel) -> None:
    theta, step = kernel.theta + 1e-3, 1e-5
    kernel = kernel.with_theta(theta)
    for k in range(theta.size):
        up, down = (
            kernel.with_theta(theta + sign * step * np.eye(theta.size)[k]) for sign in (1, -1)
        )
        for function, gradient, argument in [
            ("root", "root_gradient", X),
            ("spectral", "spectral_gradient", X),
            ("modulation", "modulation_gradient", 30),
        ]:
            slope = (getattr(up, function)(argument) - getattr(down, function)(argument)) / (
                2 * step
            )
            np.testing.assert_allclose(getattr(kernel, gradient)(argument)[k], slope, atol=1e-7)


def test_heat_coefficients_are_the_formula() -> None:
    np.testing.assert_allclose(
        HeatKernel(3.0).modulation(4), np.exp(-1.5) * np.array([1, 1.5, 1.125, 0.5625])
    )


def test_two_regularised_laplacian_is_geometric() -> None:
    f = RegularizedLaplacianKernel(3.0, 2.0).modulation(6)
    np.testing.assert_allclose(f, 0.75 ** np.arange(6) / 4.0)


def test_deconvolution_inverts_convolution() -> None:
    f = np.array([0.5, 0.3, -0.2, 0.1])
    np.testing.assert_allclose(deconvolve(np.convolve(f, f)[:4]), f)
    with pytest.raises(InvalidInputError, match="alpha_0 > 0"):
        deconvolve(np.array([0.0, 1.0]))


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_series_operator_is_the_dense_kernel_to_tolerance(kernel: GraphKernel) -> None:
    graph = weighted_graph()
    operator = SeriesOperator(graph, kernel.spectral, 1e-9)
    dense = dense_kernel(graph, kernel)
    v = np.random.default_rng(0).standard_normal((graph.n_nodes, 3))
    scale = np.abs(kernel.spectral(X)).max() * np.linalg.norm(v)
    kept = v.copy()
    np.testing.assert_allclose(operator @ v, dense @ v, atol=1e-8 * scale)
    np.testing.assert_allclose(operator.T @ v[:, 0], dense @ v[:, 0], atol=1e-8 * scale)
    np.testing.assert_array_equal(v, kept)


def test_degree_grows_like_the_root_of_time() -> None:
    degrees = [chebyshev_coefficients(HeatKernel(t).spectral).size for t in (25.0, 100.0, 400.0)]
    assert degrees[1] < 2.5 * degrees[0]
    assert degrees[2] < 2.5 * degrees[1]


def test_unreachable_tolerance_is_refused() -> None:
    with pytest.raises(NumericalError, match="larger tolerance"):
        SeriesOperator(karate(), InverseCosineKernel().root, 1e-12)


def test_kernels_are_parsed_compared_and_checked() -> None:
    assert parse_graph_kernel("heat") == HeatKernel(1.0)
    assert HeatKernel(1.0) != HeatKernel(2.0)
    assert hash(HeatKernel(1.0)) == hash(HeatKernel(1.0))
    kernel = GraphMaternKernel(2.0)
    assert parse_graph_kernel(kernel) is kernel
    assert kernel.with_theta(kernel.theta) == kernel
    with pytest.raises(InvalidInputError, match="did you mean 'heat'"):
        parse_graph_kernel("hea")
    with pytest.raises(InvalidInputError, match="GraphKernel, got int"):
        parse_graph_kernel(3)
    with pytest.raises(InvalidInputError, match="did you mean 'heat'"):
        dense_kernel(weighted_graph(), "hea")
    with pytest.raises(InvalidInputError, match="graph: expected a coupledgp"):
        dense_kernel(np.eye(3), HeatKernel(1.0))
    with pytest.raises(InvalidInputError, match="time: expected a finite number > 0, got -1"):
        HeatKernel(-1)
    with pytest.raises(InvalidInputError, match="a: expected a number >= 2"):
        RandomWalkKernel(1.5)


@dataclass(frozen=True, eq=False)
class Faster(HeatKernel):
    """The heat kernel of twice the time."""

    @property
    def heat(self) -> HeatKernel:
        return HeatKernel(2.0 * self.time)

    def root(self, x: np.ndarray) -> np.ndarray:
        return self.heat.root(x)

    def root_gradient(self, x: np.ndarray) -> np.ndarray:
        return self.heat.root_gradient(x)

    def modulation(self, n_terms: int) -> np.ndarray:
        return self.heat.modulation(n_terms)

    def modulation_gradient(self, n_terms: int) -> np.ndarray:
        return self.heat.modulation_gradient(n_terms)

    def tail(self, n_terms: int) -> float:
        return self.heat.tail(n_terms)


class WithoutName(RegularizedLaplacianKernel):
    """Another function of a regularised Laplacian's parameters."""

    def root(self, x: np.ndarray) -> np.ndarray:
        return super().root(x) ** 2


@pytest.mark.parametrize("kind", [cgp.GraphGPRegressor, cgp.ExactGraphGPRegressor])
def test_a_subclass_is_fitted_as_itself(kind: type, rng: np.random.Generator) -> None:
    graph = karate()
    draw = np.linalg.cholesky(dense_kernel(graph, HeatKernel(3.0)) + 0.05 * np.eye(graph.n_nodes))
    nodes, y = range(graph.n_nodes), draw @ rng.normal(size=graph.n_nodes)
    greatest = {"random_state": 0, "hyperparameters": "maximum"}
    models = [kind(graph, kernel, **greatest).fit(nodes, y) for kernel in (HeatKernel(), Faster())]
    heat, faster = (model.kernel_ for model in models)
    assert type(faster) is Faster
    # Both searches start from a grid of times, so that they end at one time to their tolerance.
    assert 2.0 * faster.time == pytest.approx(heat.time, rel=1e-2)
    found = [model.log_marginal_likelihood_value_ for model in models]
    assert found[0] == pytest.approx(found[1], rel=1e-4)


def test_a_subclass_with_another_function_is_not_solved_for_as_its_base() -> None:
    assert power_and_scale(RegularizedLaplacianKernel(3.0, 2.0)) == (2, 3.0)
    assert power_and_scale(GraphMaternKernel(2.0, 1.0)) == (1, 2.0)
    with pytest.raises(InvalidInputError, match="expected a regularised Laplacian or Matern"):
        power_and_scale(WithoutName(3.0, 2.0))


def test_registration() -> None:
    with forgotten(GRAPH_KERNELS):
        register_graph_kernel("faster", Faster(4.0))
        assert parse_graph_kernel("faster") == Faster(4.0)
        assert "faster" in available_graph_kernels()
        with pytest.raises(InvalidInputError, match=r"'faster'.*did you mean 'faster'"):
            parse_graph_kernel("fastr")
        state = json.loads(json.dumps(graph_kernel_state(Faster(0.1))))
        assert state == {"class": "Faster", "time": 0.1}
        again = graph_kernel_from(state)
        assert type(again) is Faster
        assert again.time == 0.1
    with pytest.raises(InvalidInputError, match=r"kernel: expected one of .*Heat.*got 'Faster'"):
        graph_kernel_from(state)
    with pytest.raises(InvalidInputError, match=r"got Faster.* register_graph_kernel"):
        graph_kernel_state(Faster())


def test_states_of_every_kernel() -> None:
    for kernel in (
        HeatKernel(1 / 3), RegularizedLaplacianKernel(0.3, 1.7), GraphMaternKernel(1.1, 0.7),
        RandomWalkKernel(2.3, 5), InverseCosineKernel(),
        LearnedKernel([0.1, 0.7], centre=[0.2, 0.3]),
    ):  # fmt: skip
        again = graph_kernel_from(json.loads(json.dumps(graph_kernel_state(kernel))))
        assert again == kernel
        np.testing.assert_array_equal(again.modulation(9), kernel.modulation(9))
        assert again.penalty()[0] == kernel.penalty()[0]


class Hidden(HeatKernel):
    def __init__(self, diffusion: float) -> None:
        super().__init__(diffusion)


def test_a_constructor_that_keeps_its_arguments_elsewhere_is_told() -> None:
    with pytest.raises(InvalidInputError, match="arguments of Hidden, got none for diffusion"):
        Hidden(2.0).parameters()


def test_kernels_are_compared_by_class_and_parameters() -> None:
    assert HeatKernel(np.float64(0.1)) == HeatKernel(0.1) != Faster(0.1)
    assert Faster(np.float64(0.1)) == Faster(0.1)
    assert hash(Faster(np.float64(0.1))) == hash(Faster(0.1))
    assert LearnedKernel([0.1, 0.7]) != LearnedKernel([0.1, 0.7], centre=[0.2, 0.3])
    hidden = Hidden(2.0)
    assert hidden == hidden
    assert hidden != Hidden(2.0)


@pytest.mark.parametrize("name", GRAPH_KERNELS)
def test_spectra_take_lists_and_numbers(name):
    kernel = GRAPH_KERNELS[name]
    x = np.array([1.0, 0.25, -0.5])
    assert kernel.spectral(x.tolist()).tolist() == kernel.spectral(x).tolist()
    gradient = kernel.spectral_gradient([1, 0])
    assert np.array_equal(gradient, kernel.spectral_gradient(np.array([1.0, 0.0])))


def test_series_take_kernels_and_names():
    path = cgp.Graph.from_edges([0, 1, 2], [1, 2, 3])
    expected = SeriesOperator(path, HeatKernel().spectral) @ np.eye(4)
    for given in (HeatKernel(), "heat"):
        assert np.array_equal(SeriesOperator(path, given) @ np.eye(4), expected)
    with pytest.raises(InvalidInputError, match="function: expected"):
        SeriesOperator(path, 3.0)
