"""Log evidence in weight space and dense: against the plain n x n law, and gradients of it.

The reference forms `v Phi Phi' + s I` (or the kernel matrix) entry by entry and asks scipy for the
density; its central differences check the closed-form gradients.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats

from coupledgp.core import weights_posterior as stream_module
from coupledgp.core.dense_evidence import ExactEvidence
from coupledgp.core.problem import EvidenceGradient, EvidenceProblem, cholesky
from coupledgp.core.weights_evidence import (
    ColumnsAtLengthscale,
    FeatureEvidence,
    RowsAtLengthscale,
)
from coupledgp.core.weights_posterior import FeatureStream
from coupledgp.errors import NumericalError
from coupledgp.features import FourierFeatures, LaplaceFeatures
from coupledgp.linalg.distances import scaled_distances
from coupledgp.metrics import Metric
from coupledgp.spectra import MaternSpectrum, parse_spectrum

MAPS = {"fourier": FourierFeatures, "laplace": LaplaceFeatures}
DIM, N_FEATURES = 3, 24
ROWS = {"rows": 11, "square": 24, "columns": 60}
LENGTHSCALE = np.array([1.3, 0.8, 2.0])
V, S = 1.7, 0.3


def feature_problem(
    features: str, n: int, n_outputs: int, rng: np.random.Generator, **options: object
) -> FeatureEvidence:
    m = N_FEATURES // 2 if features == "fourier" else N_FEATURES
    feature_map = MAPS[features](DIM, m, generator=int(rng.integers(2**31)), **options)  # type: ignore[arg-type]
    X = rng.normal(size=(n, DIM)) / (1 if features == "fourier" else 2)
    stream = FeatureStream(feature_map, X, X.mean(axis=0), np.ones(DIM))
    return FeatureEvidence(stream, rng.normal(size=(n, n_outputs)))


def exact_problem(spectrum: str, n: int, n_outputs: int, rng: np.random.Generator) -> ExactEvidence:
    X, targets = rng.normal(size=(n, DIM)), rng.normal(size=(n, n_outputs))
    return ExactEvidence(parse_spectrum(spectrum), X, targets)


def plain_gram(problem: EvidenceProblem, lengthscale: np.ndarray) -> np.ndarray:
    """Matrix `Phi Phi'`, or the kernel matrix, with unit outputscale, shape (n, n)."""
    if isinstance(problem, ExactEvidence):
        scaled = problem.X / lengthscale
        order = problem.spectrum.metric.order
        distance = np.linalg.norm(scaled[:, None] - scaled, order, axis=2)
        return problem.spectrum.kernel(distance)
    assert isinstance(problem, FeatureEvidence)
    stream = problem.stream
    inputs = (stream.X - stream.center) / lengthscale
    w = stream.feature_map.frequencies.double().numpy()
    if isinstance(stream.feature_map, FourierFeatures):
        phase = inputs @ w.T
        phi = np.hstack([np.sin(phase), np.cos(phase)])
    else:
        phi = np.exp(inputs @ w.T - np.square(inputs).sum(axis=1, keepdims=True))
    return phi @ phi.T / len(w)


def plain_evidence(problem: EvidenceProblem, lengthscale: np.ndarray, v: float, s: float) -> float:
    """Sum over outputs of `log N(y; 0, v G + s I)`, by scipy."""
    cov = v * plain_gram(problem, lengthscale) + s * np.eye(problem.n_rows)
    law = stats.multivariate_normal(np.zeros(problem.n_rows), cov)
    return float(sum(law.logpdf(column) for column in problem.targets.T))  # type: ignore[attr-defined]


def evidence_of_many_digits(gram: np.ndarray, targets: np.ndarray, v: float, s: float) -> float:
    """The evidence of ill-conditioned laws, to forty digits."""
    with mpmath.workdps(40):
        cov = mpmath.matrix((v * gram).tolist()) + mpmath.mpf(s) * mpmath.eye(len(gram))
        root = mpmath.cholesky(cov)
        logdet = 2 * sum(mpmath.log(root[i, i]) for i in range(len(gram)))
        constant = len(gram) * mpmath.log(2 * mpmath.pi)
        total = mpmath.mpf(0)
        for column in targets.T:
            y = mpmath.matrix(column.tolist())
            white = mpmath.lu_solve(root, y)
            total -= ((white.T * white)[0] + logdet + constant) / 2
        return float(total)


def by_differences(
    function: Callable[[np.ndarray, float, float], float],
    lengthscale: np.ndarray,
    v: float,
    s: float,
) -> EvidenceGradient:
    """Gradient by central differences in the logarithms of the hyperparameters."""
    step = 1e-5

    def slope(move: Callable[[float], float]) -> float:
        return (move(math.exp(step)) - move(math.exp(-step))) / (2 * step)

    axes = np.eye(lengthscale.size, dtype=bool)
    return EvidenceGradient(
        function(lengthscale, v, s),
        np.array([
            slope(lambda f, axis=axis: function(np.where(axis, f, 1.0) * lengthscale, v, s))
            for axis in axes
        ]),
        slope(lambda f: function(lengthscale, f * v, s)),
        slope(lambda f: function(lengthscale, v, f * s)),
    )  # fmt: skip


def assert_close(actual: EvidenceGradient, expected: EvidenceGradient, rtol: float = 1e-5) -> None:
    assert actual.value == pytest.approx(expected.value, rel=min(rtol, 1e-8))
    gradients = [
        np.array([*evidence.lengthscale, evidence.outputscale, evidence.noise])
        for evidence in (actual, expected)
    ]
    scale = np.abs(gradients[1]).max()
    np.testing.assert_allclose(*gradients, rtol=rtol, atol=rtol * scale / 10)


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("n", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("features", MAPS)
class TestFeatureEvidence:
    def test_value(self, features: str, n: int, n_outputs: int, rng: np.random.Generator) -> None:
        problem = feature_problem(features, n, n_outputs, rng)
        for factor, v, s in [(1.0, V, S), (0.3, 0.05, 2.0), (3.0, 30.0, 1e-3)]:
            here = problem.at(factor * LENGTHSCALE)
            expected = plain_evidence(problem, factor * LENGTHSCALE, v, s)
            assert here.value(v, s) == pytest.approx(expected, rel=1e-8)
            assert here.evaluate(v, s).value == pytest.approx(expected, rel=1e-8)
            assert float(here.spectral().value(v, s)) == pytest.approx(expected, rel=1e-8)

    def test_smaller_side_is_used(
        self, features: str, n: int, n_outputs: int, rng: np.random.Generator
    ) -> None:
        here = feature_problem(features, n, n_outputs, rng).at(LENGTHSCALE)
        assert isinstance(here, RowsAtLengthscale if n < N_FEATURES else ColumnsAtLengthscale)
        assert here.spectral().eigenvalues.size == min(n, N_FEATURES)

    def test_gradient(
        self, features: str, n: int, n_outputs: int, rng: np.random.Generator
    ) -> None:
        problem = feature_problem(features, n, n_outputs, rng)
        for v, s in [(V, S), (0.2, 1.5)]:
            expected = by_differences(
                lambda *at, problem=problem: plain_evidence(problem, *at), LENGTHSCALE, v, s
            )
            assert_close(problem.at(LENGTHSCALE).evaluate(v, s), expected)

    def test_subset(self, features: str, n: int, n_outputs: int, rng: np.random.Generator) -> None:
        problem = feature_problem(features, n, n_outputs, rng)
        rows = np.sort(rng.choice(n, 7, replace=False))
        subset = problem.subset(rows)
        assert (subset.n_rows, subset.n_outputs) == (7, n_outputs)
        stream = replace(problem.stream, X=problem.stream.X[rows])
        chosen = FeatureEvidence(stream, problem.targets[rows])
        expected = plain_evidence(chosen, LENGTHSCALE, V, S)
        assert subset.at(LENGTHSCALE).value(V, S) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("chunk", [1, 7, 59, 60, 1000])
def test_chunks_do_not_matter(
    chunk: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = feature_problem("fourier", 60, 2, rng)
    expected = problem.at(LENGTHSCALE).evaluate(V, S)
    monkeypatch.setattr(stream_module, "MAX_CHUNK_ROWS", chunk)
    assert problem.stream.chunk_rows == min(chunk, 60)
    assert_close(problem.at(LENGTHSCALE).evaluate(V, S), expected, rtol=1e-10)


def test_single_precision_features(rng: np.random.Generator) -> None:
    """Values and gradients of float32 features, against the double-precision law of the same."""
    for n in (11, 60):
        problem = feature_problem("fourier", n, 2, rng, dtype=torch.float32)
        expected = by_differences(
            lambda *at, problem=problem: plain_evidence(problem, *at), LENGTHSCALE, V, S
        )
        actual = problem.at(LENGTHSCALE).evaluate(V, S)
        assert actual.value == pytest.approx(expected.value, rel=1e-5)
        assert_close(replace(actual, value=expected.value), expected, rtol=2e-4)


@pytest.mark.parametrize("n", [11, 24, 30])
def test_little_noise(n: int, rng: np.random.Generator) -> None:
    """Noise a billionth of the outputscale costs nine digits of sixteen, not more."""
    problem = feature_problem("fourier", n, 1, rng)
    phi = problem.stream.dense().numpy()
    targets = phi @ rng.normal(size=(phi.shape[1], 1)) + 1e-4 * rng.normal(size=(n, 1))
    problem = FeatureEvidence(problem.stream, targets)
    expected = evidence_of_many_digits(phi @ phi.T, targets, 10.0, 1e-8)
    here = problem.at(np.ones(DIM))
    assert here.value(10.0, 1e-8) == pytest.approx(expected, rel=1e-6)
    assert float(here.spectral().value(10.0, 1e-8)) == pytest.approx(expected, rel=1e-6)


def test_features_that_do_not_reach_every_direction(rng: np.random.Generator) -> None:
    """Repeated frequencies: a singular Gram matrix, whose null space must not add evidence."""
    feature_map = FourierFeatures(DIM, 8, generator=0)
    feature_map.frequencies[4:] = feature_map.frequencies[:4]
    X = rng.normal(size=(40, DIM))
    stream = FeatureStream(feature_map, X, np.zeros(DIM), np.ones(DIM))
    problem = FeatureEvidence(stream, rng.normal(size=(40, 2)))
    here = problem.at(LENGTHSCALE)
    for v, s in [(V, S), (1e3, 1e-5)]:
        expected = plain_evidence(problem, LENGTHSCALE, v, s)
        assert here.value(v, s) == pytest.approx(expected, rel=1e-7)
        assert float(here.spectral().value(v, s)) == pytest.approx(expected, rel=1e-7)


SPECTRA = [
    "gaussian", "matern-1/2", "matern-0.7", "matern-3/2", "matern-5/2", "matern-3.7", "laplace",
]  # fmt: skip


class TestExactEvidence:
    @pytest.mark.parametrize("n_outputs", [1, 3])
    @pytest.mark.parametrize("spectrum", SPECTRA)
    def test_value_and_gradient(
        self, spectrum: str, n_outputs: int, rng: np.random.Generator
    ) -> None:
        problem = exact_problem(spectrum, 40, n_outputs, rng)
        expected = by_differences(lambda *at: plain_evidence(problem, *at), LENGTHSCALE, V, S)
        here = problem.at(LENGTHSCALE)
        assert_close(here.evaluate(V, S), expected)
        assert here.value(V, S) == pytest.approx(expected.value, rel=1e-8)
        assert float(here.spectral().value(V, S)) == pytest.approx(expected.value, rel=1e-8)

    @pytest.mark.parametrize("spectrum", SPECTRA)
    def test_gradient_with_repeated_rows(self, spectrum: str, rng: np.random.Generator) -> None:
        problem = exact_problem(spectrum, 20, 1, rng)
        problem.X[10:] = problem.X[:10]
        expected = by_differences(lambda *at: plain_evidence(problem, *at), LENGTHSCALE, V, S)
        assert_close(problem.at(LENGTHSCALE).evaluate(V, S), expected)

    @pytest.mark.parametrize("apart", [1e-15, 1e-12, 1e-9])
    @pytest.mark.parametrize("spectrum", SPECTRA)
    def test_gradient_with_rows_repeated_up_to_rounding(
        self, spectrum: str, apart: float, rng: np.random.Generator
    ) -> None:
        """The slope of a rough kernel is then huge, its product with the square tiny."""
        problem = exact_problem(spectrum, 20, 1, rng)
        problem.X += 3.0
        problem.X[10:] = problem.X[:10] * (1 + apart)
        repeated = ExactEvidence(problem.spectrum, problem.X.copy(), problem.targets)
        repeated.X[10:] = repeated.X[:10]
        expected = by_differences(lambda *at: plain_evidence(repeated, *at), LENGTHSCALE, V, S)
        actual = problem.at(LENGTHSCALE).evaluate(V, S)
        # Moving the rows changes the law itself, by r^{2 nu} in a kernel entry.
        assert problem.spectrum.smoothness is not None
        moved = 1e3 * (10 * apart) ** min(2 * problem.spectrum.smoothness, 2.0)
        assert_close(replace(actual, value=expected.value), expected, rtol=max(1e-5, moved))

    @pytest.mark.parametrize("spectrum", SPECTRA)
    def test_gradient_of_wide_tables_is_the_same(
        self, spectrum: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Products of matrices in place of differences, but not where slopes have no bound."""
        problem = exact_problem(spectrum, 60, 1, rng)
        problem.X += 1000.0  # a year, for instance: the products are about the mean
        problem.X[30:] = problem.X[:30] * (1 + 1e-15)
        plain = problem.at(LENGTHSCALE).evaluate(V, S)
        monkeypatch.setattr("coupledgp.core.dense_evidence._WIDE", 0)
        wide = problem.at(LENGTHSCALE).evaluate(V, S)
        np.testing.assert_allclose(wide.lengthscale, plain.lengthscale, rtol=1e-9, atol=1e-10)
        assert problem.spectrum.smoothness is not None
        rough = problem.spectrum.smoothness <= 1
        assert np.array_equal(wide.lengthscale, plain.lengthscale) == rough

    def test_distances_of_near_rows_are_accurate(self) -> None:
        """A squared distance expanded into products would lose all digits here."""
        a = np.array([[1e6, 1.0], [0.0, 0.0]])
        b = np.array([[1e6, 1.0 + 1e-6]])
        gaps = a[:, None] - b
        for metric in Metric:
            exact = np.linalg.norm(gaps, metric.order, axis=2)
            np.testing.assert_allclose(scaled_distances(a, b, metric), exact, rtol=1e-12)

    def test_subset(self, rng: np.random.Generator) -> None:
        problem = exact_problem("matern-3/2", 20, 2, rng)
        rows = np.array([0, 3, 4, 11])
        subset = problem.subset(rows)
        expected = plain_evidence(
            ExactEvidence(MaternSpectrum(1.5), problem.X[rows], problem.targets[rows]),
            LENGTHSCALE, V, S,
        )  # fmt: skip
        assert subset.at(LENGTHSCALE).value(V, S) == pytest.approx(expected, rel=1e-9)


class TestCholesky:
    def test_factor(self, rng: np.random.Generator) -> None:
        root = rng.normal(size=(5, 5))
        matrix = torch.as_tensor(root @ root.T + np.eye(5))
        factor = cholesky(matrix, "A")
        torch.testing.assert_close(factor @ factor.T, matrix)
        assert torch.equal(factor, factor.tril())

    def test_failure_names_the_matrix_its_condition_and_a_remedy(self) -> None:
        vector = torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64)
        matrix = vector @ vector.T - 1e-3 * torch.eye(3, dtype=torch.float64)
        message = (
            r"^Phi'Phi is not positive definite in float64 \(eigenvalues from -1.00e-03 to "
            r"1.40e\+01, condition number inf\): raise the noise to at least 1.4e-13 times the "
            r"outputscale, or use fewer frequencies$"
        )
        with pytest.raises(NumericalError, match=message):
            cholesky(matrix, "Phi'Phi")

    def test_failure_by_rounding_tells_a_finite_condition(self) -> None:
        """A Hilbert matrix is positive definite, but beyond float64."""
        size = torch.arange(30, dtype=torch.float64)
        with pytest.raises(NumericalError, match=r"condition number (inf|\d\.\de\+\d\d)\): raise"):
            cholesky(1 / (size[:, None] + size + 1), "Hilbert")

    @pytest.mark.parametrize("bad", [math.nan, math.inf])
    def test_infinite_entries(self, bad: float) -> None:
        matrix = torch.eye(3, dtype=torch.float64)
        matrix[1, 1] = bad
        with pytest.raises(
            NumericalError, match="A has NaN or infinite entries: check that inputs"
        ):
            cholesky(matrix, "A")

    def test_evidence_without_noise_fails_with_the_remedy(self, rng: np.random.Generator) -> None:
        for n in (11, 60):
            problem = feature_problem("fourier", n, 1, rng)
            problem.stream.feature_map.frequencies.zero_()
            with pytest.raises(NumericalError, match=r"condition number .*: raise the noise"):
                problem.at(LENGTHSCALE).value(1.0, 1e-30)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_the_eigenvectors_of_a_profile_serve_as_well_as_a_factor(n_outputs: int) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3)), rng.standard_normal((60, n_outputs))
    features = FourierFeatures(3, 9, generator=0)
    problem = FeatureEvidence(FeatureStream(features, X, np.zeros(3), np.ones(3)), y)
    factored, diagonalised = (problem.at(np.array([0.8, 1.5, 2.0])) for _ in range(2))
    diagonalised.spectral()
    a, b = (here.evaluate(1.3, 0.02) for here in (factored, diagonalised))
    np.testing.assert_allclose(a.lengthscale, b.lengthscale, rtol=1e-9)
    np.testing.assert_allclose(
        [a.value, a.outputscale, a.noise], [b.value, b.outputscale, b.noise], rtol=1e-9
    )
