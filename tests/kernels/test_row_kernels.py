"""Kernels of rows: covariances by hand, gradients, forms in single columns, a user's own kernel."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest

from coupledgp.core.dense_evidence import ExpressionEvidence
from coupledgp.core.problem import RowWeights
from coupledgp.errors import InvalidInputError
from coupledgp.expressions import RowKernel
from coupledgp.kernels import Additive, RowCovariance, kernel_text, parse_kernel
from coupledgp.kernels.additive import elementary
from coupledgp.kernels.row_covariance import RowColumns
from coupledgp.kernels.rows import (
    ROW_KERNELS,
    Categorical,
    Matern,
    Periodic,
    RationalQuadratic,
    Sphere,
    register_row_kernel,
)

RNG = np.random.default_rng(3)
A, B = RNG.normal(size=(9, 4)), RNG.normal(size=(6, 4))
# The last two columns are one group, as those of a category are.
COLUMNS = RowColumns(("p", "q", "r"), ("p", "q", "r"), np.arange(3), np.array([0, 1, 2, 2]))
KERNELS = [
    *(
        Additive(order, base, full)
        for order, base, full in itertools.product(
            (1, 2, 3), ("gaussian", "matern-1/2", "matern-3/2", "matern-5/2"), (True, False)
        )
    ),
    RationalQuadratic(), Periodic(), Periodic(1.7), Categorical(),
]  # fmt: skip


def factors(kernel, theta, a, b):
    """Kernels (g, n, p) of the groups, by the definition."""
    scaled = (a[:, None] - b) / np.exp(theta)[COLUMNS.groups]
    squares = [(scaled[..., COLUMNS.groups == g] ** 2).sum(axis=2) for g in range(3)]
    return kernel.base.kernel(np.sqrt(squares))


@pytest.mark.parametrize("kernel", [k for k in KERNELS if isinstance(k, Additive)], ids=str)
def test_additive_kernels_are_sums_over_all_subsets(kernel):
    theta = 0.5 * RNG.normal(size=len(kernel.parameters("pqr")))
    scales = np.exp(theta[3:])
    own = factors(kernel, theta[:3], A, B)
    relative = [1.0, *scales[1 : kernel.order]]
    expected = sum(
        scales[0] ** q * relative[q - 1] * np.prod(own[list(chosen)], axis=0)
        for q in range(1, kernel.order + 1)
        for chosen in itertools.combinations(range(3), q)
    )
    if kernel.full:
        expected = expected + scales[-1] * np.prod(own, axis=0)
    found = kernel.covariance(A, B, theta, COLUMNS.groups)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    symmetric = kernel.evaluate(A, A, theta, COLUMNS.groups).covariance
    np.testing.assert_allclose(
        symmetric, kernel.covariance(A, A.copy(), theta, COLUMNS.groups), rtol=1e-14
    )
    np.testing.assert_allclose(
        np.diag(symmetric), kernel.diagonal(A, theta, COLUMNS.groups), rtol=1e-12
    )


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_gradients_and_forms_in_single_columns(kernel):
    own = RowCovariance(kernel, COLUMNS, np.zeros(4), np.array([0.5, 1.0, 2.0, 2.0]))
    theta = 0.3 * RNG.normal(size=len(own.parameters))
    for a, b in ((A, A), (A, B)):
        found = own.evaluate(a, b, theta)
        cotangent = RNG.normal(size=found.covariance.shape)
        by_differences = [
            (cotangent * (own.gram(a, b, theta + step) - own.gram(a, b, theta - step))).sum() / 2e-5
            for step in 1e-5 * np.eye(theta.size)
        ]
        np.testing.assert_allclose(found.pull(cotangent), by_differences, rtol=2e-6, atol=1e-7)
    terms = own.axes(theta)
    if isinstance(kernel, RationalQuadratic):
        assert terms is None
        return
    total = np.zeros((len(A), len(B)))
    for term in terms:
        grams = [f.gram(A[:, list(f.columns)], B[:, list(f.columns)]) for f in term.factors]
        total += term.variance * elementary(grams, term.order)[-1]
    np.testing.assert_allclose(total, own.gram(A, B, theta), rtol=1e-11, atol=1e-12)


def test_factors_that_share_a_column_have_no_form_in_single_columns():
    own = RowCovariance("laplace[0] * gaussian[1]", COLUMNS)
    assert [len(term.factors) for term in own.axes(np.zeros(2))] == [2]
    assert RowCovariance("laplace[0] * gaussian[0]", COLUMNS).axes(np.zeros(2)) is None
    assert RowCovariance("matern-3/2", COLUMNS).axes(np.zeros(3)) is None


def test_symmetric_polynomials_are_those_of_roots():
    values = RNG.uniform(0.1, 1.0, size=7)
    coefficients = np.poly(-values)  # of prod (x + value)
    np.testing.assert_allclose(elementary(list(values), 5), coefficients[:6], rtol=1e-12)


def test_periods_and_places_are_in_units_of_the_columns():
    center, spread = np.array([10.0, 3.0]), np.array([7.0, 40.0])
    raw = np.array([[0.0, 0.0], [0.0, 24.0], [0.0, 12.0], [60.0, 180.0]])
    rows = (raw - center) / spread
    found = RowCovariance("periodic(24)[1]", 2, center, spread).gram(rows, rows, np.zeros(1))
    assert found[0, 1] == pytest.approx(1.0)
    assert found[0, 2] == pytest.approx(math.exp(-2.0))
    theta = np.array([0.3])
    chord = 2 * math.sin(math.radians(120.0) / 2)  # over the pole from (0, 0) to (60, 180)
    found = RowCovariance(Sphere("gaussian"), 2, center, spread).gram(rows, rows, theta)
    assert found[0, 3] == pytest.approx(math.exp(-0.5 * (chord / math.exp(0.3)) ** 2))
    with pytest.raises(InvalidInputError, match="latitudes from -90 to 90"):
        RowCovariance(Sphere(), 2).gram(np.array([[91.0, 0.0]]), rows, theta)
    with pytest.raises(InvalidInputError, match="on two columns"):
        RowCovariance(Sphere(), 3)


def test_evidence_of_an_expression_is_that_of_dense_algebra():
    covariance = RowCovariance("additive(2, gaussian) + linear[0] + constant", COLUMNS)
    targets = RNG.normal(size=(9, 2))
    weights = RowWeights(RNG.uniform(0.5, 2.0, 9), np.ones(9))
    problem = ExpressionEvidence(covariance, A, targets, weights)
    at = problem.start + 0.2 * RNG.normal(size=problem.start.size)
    value, gradient = problem.value_and_gradient(at)
    whole = covariance.gram(A, A, at[1:]) + math.exp(at[0]) * np.diag(weights.noise)
    quad = np.einsum("ik,ij,jk->", targets, np.linalg.inv(whole), targets)
    log_density = -0.5 * (quad + 2 * np.linalg.slogdet(2 * np.pi * whole)[1])
    log_prior = -0.5 * np.square((at - problem.means) / problem.widths).sum()
    assert value * 18 == pytest.approx(-log_density - log_prior, rel=1e-12)
    by_differences = [
        (problem.value_and_gradient(at + s)[0] - problem.value_and_gradient(at - s)[0]) / 2e-5
        for s in 1e-5 * np.eye(at.size)
    ]
    np.testing.assert_allclose(gradient, by_differences, rtol=1e-6, atol=1e-9)


def test_counts_of_rows_are_repeated_rows():
    covariance = RowCovariance("additive(1) + constant", 4)
    targets, counts = RNG.normal(size=(9, 1)), RNG.integers(1, 4, 9)
    once = ExpressionEvidence(covariance, A, targets, RowWeights(np.ones(9), counts.astype(float)))
    often = np.repeat(np.arange(9), counts)
    repeated = ExpressionEvidence(covariance, A[often], targets[often])
    at = once.start + 0.1
    for mine, theirs in zip(
        once.value_and_gradient(at), repeated.value_and_gradient(at), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-8)


@pytest.mark.parametrize(
    "text",
    ["additive(3, gaussian, full=false)", "additive", "matern(1.5) + additive(2)", "periodic(24.0)",
     'sphere(gaussian)["lat", "lon"] * periodic["t"] + linear + constant', "rational-quadratic",
     "categorical[0] * additive(1, matern-1/2)[1, 2]"],
)  # fmt: skip
def test_texts_of_kernels_of_rows(text):
    kernel = parse_kernel(text)
    assert parse_kernel(kernel_text(kernel)) == kernel
    assert parse_kernel(kernel_text(kernel), "rows", "again") == kernel


def test_names_of_columns_have_either_quotes():
    text = """sphere['lat', "it's"] + periodic(24)['hour'] * linear[0]"""
    same = parse_kernel("""sphere["lat", "it's"] + periodic(24)["hour"] * linear[0]""")
    assert parse_kernel(text) == same
    for wrong in ("linear['a]", "linear['a' 'b']", "linear[a]"):
        with pytest.raises(InvalidInputError, match="list as JSON"):
            parse_kernel(wrong)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("additive(9)", "order: expected 1 to 5, got 9"),
        ("additive(2, heat)", "base: expected one of"),
        ("additive(2, depth=3)", "arguments of additive"),
        ("additive(1, order=2)", "each once"),
        ("matern()", "matern\\(NU\\) with one number"),
        ("periodic(-1)", "period: expected a finite number > 0"),
        ("addditive", "did you mean 'additive'"),
        ("additive(2", "'\\)' after arguments"),
        ("constant(3)", "among none"),
        ("additive(2, full=3)", "full: expected True or False"),
    ],
)
def test_wrong_arguments_are_errors(text, message):
    with pytest.raises(InvalidInputError, match=message):
        parse_kernel(text)


class Unstated(RowKernel):
    """A kernel of a user who has not stated its covariance yet."""


def test_a_kernel_without_covariance_is_refused_by_its_name():
    own = RowCovariance(Unstated(), 2)
    text = r"covariance\(.*\) or evaluate\(.*\), got Unstated with neither"
    for refused in (own.gram, own.evaluate):
        with pytest.raises(InvalidInputError, match=text):
            refused(np.zeros((3, 2)), np.zeros((3, 2)), own.start)


@dataclass(frozen=True)
class Brownian(RowKernel):
    """A kernel of a user: the least of two positive numbers, times exp(theta)."""

    has_variance = True

    def parameters(self, labels):
        from coupledgp.expressions import Parameter

        return (Parameter("slope"),)

    def covariance(self, a, b, theta, groups):
        return np.exp(theta[0]) * np.minimum(np.abs(a), np.abs(b).T)

    def diagonal(self, a, theta, groups):
        return np.exp(theta[0]) * np.abs(a[:, 0])

    def lengthscales(self, theta, groups):
        return np.ones(groups.size)

    def __str__(self):
        return "brownian"


def test_a_users_kernel_is_one_class():
    own = RowCovariance(Brownian().on(1) + Matern(1.5), 4)
    assert own.names[0] == "slope"
    theta = 0.2 * RNG.normal(size=len(own.names))
    cotangent = RNG.normal(size=(9, 9))
    found = own.pull(A, cotangent, theta)
    kernel = np.minimum(np.abs(A[:, [1]]), np.abs(A[:, 1]))
    assert found[0] == pytest.approx((cotangent * np.exp(theta[0]) * kernel).sum(), rel=1e-8)
    np.testing.assert_allclose(own.diagonal(A, theta), np.diag(own.gram(A, A, theta)))
    with pytest.raises(InvalidInputError, match="register_row_kernel"):
        kernel_text(Brownian())
    register_row_kernel("brownian", Brownian)
    try:
        assert parse_kernel("brownian[0] + linear").terms[0].kernel == Brownian()
        assert kernel_text(Brownian()) == "brownian"
    finally:
        ROW_KERNELS.pop("brownian")
