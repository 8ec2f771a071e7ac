"""Kernels as values: texts, sums and products, covariances and their gradients."""

import pickle

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.expressions import On, Product, Sum
from coupledgp.kernels import (
    GraphMaternKernel,
    HeatKernel,
    Linear,
    ProductLaplace,
    RowCovariance,
    kernel_text,
    parse_kernel,
)
from coupledgp.spectra import GaussianSpectrum, MaternSpectrum, parse_spectrum

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(7, 3)), RNG.normal(size=(5, 3))
NAMES = ["area", "age", "the, odd] one"]
TEXTS = [
    "gaussian",
    "matern-0.7",
    'matern-3/2["area", "age"]',
    'gaussian["area"] + matern-1/2[1, 2] * laplace[0]',
    '(gaussian[0] + laplace[1]) * matern-5/2["the, odd] one"] + matern-2.25',
    'nodes:HeatKernel{"time": 2.0}',
]


def by_hand(kernel, a, b, lengthscale):
    steps = (a[:, None] - b) / lengthscale
    if kernel == "laplace":
        return np.exp(-np.abs(steps).sum(axis=2))
    return cgp.spectra.parse_spectrum(kernel).kernel(np.sqrt((steps**2).sum(axis=2)))


@pytest.mark.parametrize("text", TEXTS)
def test_texts_stand_for_equal_kernels(text):
    kernel = parse_kernel(text)
    again = parse_kernel(kernel_text(kernel))
    assert kernel == again == pickle.loads(pickle.dumps(kernel))
    assert hash(kernel) == hash(again)
    assert kernel_text(again) == kernel_text(kernel)
    assert str(kernel)


def test_operators_make_flat_values():
    rough, smooth = MaternSpectrum(0.5), GaussianSpectrum()
    both = rough.on("area") + smooth + ProductLaplace().on("age")
    assert both == Sum((On(rough, ("area",)), smooth, On(ProductLaplace(), ("age",))))
    assert rough * smooth * rough == Product((rough, smooth, rough))
    assert (rough * smooth).on(1) == rough.on(1) * smooth.on(1)
    assert both == parse_kernel('matern-1/2["area"] + gaussian + laplace["age"]')
    assert parse_kernel("nodes:heat") == HeatKernel()
    assert parse_kernel("heat", "nodes") == HeatKernel()
    assert {HeatKernel() * GraphMaternKernel(): 1}[HeatKernel() * GraphMaternKernel()] == 1
    with pytest.raises(TypeError):
        rough + 1.0


def test_parameters_of_nodes_are_kept():
    kernel = GraphMaternKernel(nu=1.5, lengthscale=0.3) * HeatKernel(2.5)
    assert parse_kernel(kernel_text(kernel)) == kernel


def test_covariances_are_those_by_hand():
    own = RowCovariance('gaussian["area"] + matern-3/2 * laplace["age", "area"]', NAMES)
    assert len(own.names) == 8
    theta = RNG.normal(size=8) / 2
    lengths = np.exp(theta)
    expected = lengths[0] * by_hand("gaussian", A[:, :1], B[:, :1], lengths[1:2])
    expected += lengths[2] * (
        by_hand("matern-3/2", A, B, lengths[3:6])
        * by_hand("laplace", A[:, [1, 0]], B[:, [1, 0]], lengths[6:])
    )
    np.testing.assert_allclose(own.gram(A, B, theta), expected, rtol=1e-12)
    np.testing.assert_allclose(own.diagonal(A, theta), lengths[0] + lengths[2])
    assert own.names[0] == "variance of gaussian['area']"
    assert own.names[-1].endswith("in area")


@pytest.mark.parametrize(
    "text",
    [
        "gaussian", "matern-1/2", "matern-0.7[0, 2]", "laplace", "matern-2.25 * laplace[1]",
        "(gaussian[0] + laplace[1]) * (matern-3/2[2] + matern-5/2) + matern-1/2[2]",
    ],
)  # fmt: skip
def test_gradients_are_differences(text):
    own = RowCovariance(text, 3)
    theta = RNG.normal(size=len(own.names)) / 3
    cotangent = RNG.normal(size=(7, 7))
    gradient = own.pull(A, cotangent, theta)
    assert gradient.shape == theta.shape
    for place in range(theta.size):
        step = np.zeros(theta.size)
        step[place] = 1e-5
        up, down = ((cotangent * own.gram(A, A, theta + s * step)).sum() for s in (1, -1))
        assert gradient[place] == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gaussian +", "expected the name of a kernel at character 11, got the end"),
        ("gaussian gaussian", "expected '\\+' or '\\*' at character 10"),
        ("(gaussian", "expected '\\)'"),
        ("gaussian[", "expected a list as JSON"),
        ("gaussian[]", "expected one or more columns"),
        ("gaussian[0, 0]", "each once"),
        ("gaussian[1.5]", "names or numbers"),
        ("gausian * laplace", "gaussian"),
        ("places:gaussian", "expected a kernel of rows or nodes:"),
        ("nodes:heat[0]", "expected a kernel of rows"),
        ("(" * 40 + "gaussian" + ")" * 40, "at most 16 parentheses"),
        ("gaussian[0][1]", "'\\+' or '\\*'"),
    ],
)
def test_wrong_texts_are_errors(text, message):
    with pytest.raises(InvalidInputError, match=message):
        parse_kernel(text)


def test_what_covariances_refuse():
    with pytest.raises(InvalidInputError, match="expected columns among"):
        RowCovariance('gaussian["height"]', NAMES)
    with pytest.raises(InvalidInputError, match="belong to models of graphs"):
        RowCovariance("gaussian + nodes:heat", 3)
    with pytest.raises(InvalidInputError, match="theta: expected 3 numbers"):
        RowCovariance("gaussian", 3).gram(A, B, [0.0, 0.0])
    with pytest.raises(InvalidInputError, match=r"columns: expected a list of names.*got 'area'"):
        RowCovariance("gaussian", "area")
    for method in ("gram", "evaluate"):
        with pytest.raises(InvalidInputError, match=r"rows: expected shape \(n, 3\), got \(5, 2\)"):
            getattr(RowCovariance("gaussian", 3), method)(A, B[:, :2], np.zeros(3))
    with pytest.raises(InvalidInputError, match=r"rows: expected shape \(n, 3\), got \(3,\)"):
        RowCovariance("gaussian", 3).diagonal(A[0], np.zeros(3))


@pytest.mark.parametrize("kernel", ["gaussian + matern-3/2", GaussianSpectrum().on(0), Linear()])
def test_models_say_what_they_support(kernel):
    y = A[:, 0]
    with pytest.raises(InvalidInputError, match=r"one stationary kernel.*ExactGPRegressor"):
        parse_spectrum(kernel, "kernel")
    with pytest.raises(InvalidInputError, match=r"one stationary kernel"):
        cgp.LocalGPRegressor(kernel=kernel).fit(A, y)
    graph = cgp.Graph.from_edges([0, 1, 2], [1, 2, 3])
    with pytest.raises(InvalidInputError, match="one kernel of nodes"):
        cgp.GraphGPRegressor(graph, kernel=HeatKernel() + HeatKernel()).fit([0, 1], [0.0, 1.0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: On(HeatKernel(), ("area",)), "on: expected a kernel of rows, got HeatKernel"),
        (lambda: Sum(("gaussian",)), r"terms: expected a tuple of kernels, got \('gaussian',\)"),
        (lambda: Product(()), r"factors: expected a tuple of kernels, got \(\)"),
    ],
)
def test_parts_are_looked_at_when_an_expression_is_made(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()
