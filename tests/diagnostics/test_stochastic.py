"""The law by iterative solves against dense algebra, and its bounds against what they bound."""

import json
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch

from coupledgp import ExactGPRegressor, Graph, GraphGPRegressor, SparseSpectrumGPRegressor
from coupledgp.core.dense_system import StationarySystem, kernel_of_exponents
from coupledgp.diagnostics import StochasticOptions, compare, gaussian_kl
from coupledgp.diagnostics.probes import quadratic_forms
from coupledgp.diagnostics.scoring.divergences import kl_bounds
from coupledgp.diagnostics.sections.comparison import score_rows
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.linalg.lanczos import Lanczos, gauss, widened_error, with_node
from coupledgp.linalg.low_rank import LowRankPlusNoise, partial_cholesky
from coupledgp.linalg.system import SystemOptions, predictive_law
from coupledgp.spectra import parse_spectrum

FIGURES = (
    "kl_per_point", "reverse_kl_per_point", "prior_kl_per_point", "kernel_relative_error",
    "rmse", "reference_rmse", "nlpd", "reference_nlpd", "nlpd_joint", "reference_nlpd_joint",
    "crps", "reference_crps",
)  # fmt: skip


REFERENCE_SCORES = {
    "reference_rmse", "reference_mae", "reference_nlpd", "reference_nlpd_joint", "reference_crps",
    "reference_sharpness", "reference_coverage", "reference_interval_width", "reference_pit",
}  # fmt: skip
JOINT = ("kl_per_point", "reverse_kl_per_point", "reference_nlpd_joint")


def table(n: int, rng: np.random.Generator, n_outputs: int = 1) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 3)) + 4.0
    y = np.sin(X @ rng.normal(size=(3, n_outputs))) + 0.1 * rng.normal(size=(n, n_outputs))
    return X, 7 + 5 * (y[:, 0] if n_outputs == 1 else y)


def sparse(**options: Any) -> SparseSpectrumGPRegressor:
    hyper = {"lengthscale": [1.0, 2.0, 1.5], "outputscale": 1.3, "noise": 0.02}
    options = {"n_frequencies": 30, "optimizer": None, "random_state": 0, **hyper, **options}
    return SparseSpectrumGPRegressor(**options)


def value_of(report: Any, name: str) -> np.ndarray:
    """A figure by its name among the bounds, as an array of its values."""
    if name.startswith("differences."):
        return np.array(report.differences[name.partition(".")[2]]["mean"])
    value = getattr(report, name)
    return np.array(list(value.values()) if isinstance(value, dict) else value)


def assert_within_bounds(report: Any, dense: Any, slack: float) -> None:
    """The dense figures lie within the bounds; those without bounds are the same to rounding."""
    bounds, given = report.accuracy.bounds, {**report.figures.to_dict()}
    for name, (below, above) in bounds.items():
        gap = value_of(dense, name) - value_of(report, name)
        assert (-below - slack <= gap).all(), name
        assert (gap <= above + slack).all(), name
    exact = set(given) - set(bounds) - set(report.accuracy.standard_errors)
    for name in exact - {"differences", "reference_standard_errors", "standard_errors"}:
        if given[name] is not None:
            own, other = value_of(report, name), value_of(dense, name)
            np.testing.assert_allclose(own, other, rtol=1e-9, atol=slack)


def system_of(n: int, rng: np.random.Generator, **options: Any) -> StationarySystem:
    gp = sparse().fit(*table(n, rng))
    return gp.exact_problem().system(SystemOptions(**options))


def dense_of(system: StationarySystem) -> np.ndarray:
    gram = system.prior(system.X)
    return gram + system.noise * np.eye(len(gram))


@pytest.mark.parametrize(
    "kernel", ["gaussian", "matern-1/2", "matern-3/2", "matern-5/2", "matern-0.7"]
)
def test_kernel_of_exponents(kernel: str, rng: np.random.Generator) -> None:
    spectrum = parse_spectrum(kernel)
    r = np.concatenate([[0.0], rng.exponential(size=50)])
    values = kernel_of_exponents(spectrum, torch.as_tensor(-0.5 * r**2))
    np.testing.assert_allclose(values.numpy(), spectrum.kernel(r), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.long
def test_products_in_blocks(
    dtype: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = system_of(200, rng)
    V = rng.normal(size=(200, 3))
    expected = dense_of(system) @ V
    for rows, columns in ((1, 1), (77, 30), (30, 77), (256, 1024)):
        monkeypatch.setattr("coupledgp.core.dense_system.TILE_ROWS", rows)
        monkeypatch.setattr("coupledgp.core.dense_system.TILE_COLUMNS", columns)
        product = system.product(torch.as_tensor(V, dtype=getattr(torch, dtype))).double().numpy()
        error = np.abs(product - expected).max() / np.abs(expected).max()
        assert error < (1e-13 if dtype == "float64" else 1e-5)


def test_partial_cholesky_lies_below_the_kernel(rng: np.random.Generator) -> None:
    system = system_of(300, rng)
    gram = dense_of(system) - system.noise * np.eye(300)
    errors = []
    for rank in (20, 100, 300):
        factor = partial_cholesky(
            np.diagonal(gram), lambda j: torch.as_tensor(gram[:, j]), rank, rng, 0.0
        ).numpy()
        assert factor.shape[1] <= rank
        rest = gram - factor @ factor.T
        assert np.linalg.eigvalsh(rest)[0] > -1e-10
        errors.append(np.trace(rest))
        low = LowRankPlusNoise(torch.as_tensor(factor), 0.1)
        B = rng.normal(size=(300, 2))
        solved = low.solve(torch.as_tensor(B)).numpy()
        back = factor @ (factor.T @ solved) + 0.1 * solved
        np.testing.assert_allclose(back, B, atol=5e-3 if rank == 300 else 1e-3)
    assert errors[0] > 3 * errors[1] > 3 * errors[2]
    assert errors[2] < 1e-6


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("tolerance", [0.3, 1e-2, 1e-5])
def test_the_law_lies_within_its_bounds(
    dtype: str, tolerance: float, rng: np.random.Generator
) -> None:
    system = system_of(250, rng, dtype=dtype, rank=40)
    points = table(20, rng)[0]
    law = predictive_law(system, points, tolerance)
    solved = np.linalg.solve(dense_of(system), np.hstack([system.cross(points), system.targets]))
    reduction = system.cross(points).T @ solved
    cov = system.prior(points) - reduction[:, :-1] + system.noise * np.eye(20)
    error, slack = law.cov - cov, 1e-10
    assert np.linalg.eigvalsh(error)[0] > -slack
    assert np.linalg.eigvalsh(law.cov_error - error)[0] > -slack
    gap = law.mean[:, 0] - reduction[:, -1]
    assert (np.abs(gap) <= law.mean_error * np.sqrt(np.diagonal(law.cov_error)) + slack).all()
    # The bound is of the size of the squared tolerance, not merely large.
    assert np.trace(law.cov_error) <= 2 * tolerance**2 * np.trace(
        system.inverse_bound(system.cross(points))
    )
    if tolerance == 0.3:
        assert np.trace(error) > 1e-8


def test_kl_bounds_hold_for_any_law_between(rng: np.random.Generator) -> None:
    n = 6
    for size in (1e-4, 1e-2, 0.3):
        laws = []
        for _ in range(2):
            root = rng.normal(size=(n, n))
            cov = root @ root.T + np.eye(n)
            gap = rng.normal(size=(n, 2))
            gap *= np.sqrt(size / np.linalg.eigvalsh(gap @ gap.T)[-1])
            laws.append((rng.normal(size=n), cov, cov - gap @ gap.T, 0.5))
        (p, q), stated = laws, gaussian_kl(*laws[0][:2], *laws[1][:2])
        below, above = kl_bounds(p, q)
        widest = [0.0, 0.0]
        for _ in range(200):
            true = []
            for mean, cov, floor, radius in laws:
                share = rng.uniform() if rng.uniform() < 0.5 else rng.integers(2)
                e = rng.normal(size=n)
                e *= rng.uniform() * radius / np.sqrt(e @ e)
                values, vectors = np.linalg.eigh(cov - floor)
                values = np.maximum(values, 0.0)
                half = (vectors * np.sqrt(share * values)) @ vectors.T
                true.append((mean + half @ e, cov - half @ half))
            value = gaussian_kl(*true[0], *true[1])
            widest = [max(widest[0], stated - value), max(widest[1], value - stated)]
        assert widest[0] <= below
        assert widest[1] <= above
        assert max(below, above) < 30 * np.sqrt(size)
    with pytest.raises(NumericalError, match="lower bound of cov_q is not positive definite"):
        kl_bounds(p, (q[0], q[1], q[1] - 10 * np.trace(q[1]) * np.eye(n), 0.0))


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_figure_agrees_with_the_dense_ones(
    dtype: str, n_outputs: int, rng: np.random.Generator
) -> None:
    X, y = table(260, rng, n_outputs)
    gp = sparse(kernel="matern-3/2").fit(X[:220], y[:220])
    dense = compare(gp, X[220:], y[220:], method="dense")
    options = StochasticOptions(tolerance=1e-4, dtype=dtype, rank=60)
    report = compare(gp, X[220:], y[220:], method="stochastic", options=options)
    for name in FIGURES:
        assert getattr(report, name) == pytest.approx(getattr(dense, name), rel=1e-4, abs=1e-7), (
            name
        )
    assert dense.accuracy.method == "dense"
    assert not dense.accuracy.bounds
    assert report.accuracy.method == "stochastic"
    assert report.accuracy.settings["reference_iterations"] > 3
    given = compare(gp, X[220:], y[220:], gp.exact_twin(), method="stochastic", options=options)
    assert given.kl_per_point == report.kl_per_point


@pytest.mark.long
def test_bounds_hold_at_every_tolerance(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])
    for case in range(8):
        X, y = table(230, rng)
        gp = sparse(random_state=case, n_frequencies=10 + 20 * case).fit(X[:200], y[:200])
        dense = compare(gp, X[200:], y[200:], method="dense")
        spans = []
        for tolerance in (0.05, 1e-2, 1e-3):
            options = StochasticOptions(tolerance=tolerance, rank=30, seed=case)
            report = compare(gp, X[200:], y[200:], method="stochastic", options=options)
            assert_within_bounds(report, dense, 1e-9)
            assert set(report.accuracy.bounds) >= REFERENCE_SCORES
            spans.append(sum(report.accuracy.bounds["kl_per_point"]))
        assert spans[0] > 5 * spans[1] > 25 * spans[2]


def test_graphs(rng: np.random.Generator) -> None:
    side = 30
    i = np.arange(side * side).reshape(side, side)
    sources = np.concatenate([i[:, :-1].ravel(), i[:-1].ravel()])
    targets = np.concatenate([i[:, 1:].ravel(), i[1:].ravel()])
    graph = Graph.from_edges(sources, targets)
    y = np.sin(np.arange(side * side) / 40) + 0.1 * rng.normal(size=side * side)
    order = rng.permutation(side * side)
    train, test = order[:400], order[400:430]
    gp = GraphGPRegressor(
        graph, n_walks=8, exact_hops=1, optimizer=None, noise=0.05, random_state=0
    ).fit(train, y[train])
    dense = compare(gp, test, y[test], method="dense")
    for tolerance in (1e-2, 1e-6):
        options = StochasticOptions(tolerance=tolerance)
        report = compare(gp, test, y[test], method="stochastic", options=options)
        assert_within_bounds(report, dense, 1e-7)
    assert report.kl_per_point == pytest.approx(dense.kl_per_point, rel=1e-5)
    assert report.prior_kl_per_point == pytest.approx(dense.prior_kl_per_point, rel=1e-5)


def test_auto_is_dense_where_the_exact_twin_is_small(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = table(60, rng)
    gp = sparse().fit(X, y)
    assert compare(gp, X[:5]).accuracy.method == "dense"
    monkeypatch.setattr(import_module("coupledgp.diagnostics.compare"), "DENSE_ROWS", 59)
    assert compare(gp, X[:5]).accuracy.method == "stochastic"
    assert compare(gp, X[:5], reference=gp.exact_twin()).accuracy.method == "dense"


def test_same_seed_same_bits(rng: np.random.Generator) -> None:
    X, y = table(120, rng)
    gp = sparse().fit(X, y)
    a, b = (compare(gp, X[:9], y[:9], method="stochastic") for _ in range(2))
    assert a.figures == b.figures


def test_a_hard_system_falls_back_to_double(rng: np.random.Generator) -> None:
    """Noise below the rounding of single-precision products."""
    X, y = table(300, rng)
    gp = sparse(noise=1e-7, lengthscale=3.0).fit(X[:280], y[:280])
    options = StochasticOptions(rank=50, tolerance=1e-4)
    law = predictive_law(gp.exact_problem().system(options.system_options()), X[280:], 1e-4)
    dense = gp.exact_twin().predict(X[280:], return_cov=True)
    scale = gp.exact_problem().scale[0]
    np.testing.assert_allclose(scale**2 * law.cov, dense[1], atol=1e-6 * scale**2)


class TestErrors:
    def test_method(self, rng: np.random.Generator) -> None:
        X, y = table(20, rng)
        gp = sparse().fit(X, y)
        with pytest.raises(InvalidInputError, match="method: expected one of 'auto', 'dense'"):
            compare(gp, X, method="exact")

    def test_points(self, rng: np.random.Generator) -> None:
        X, y = table(20, rng)
        gp = sparse().fit(X, y)
        with pytest.raises(InvalidInputError, match="X_test: X has 2 features"):
            compare(gp, X[:, :2], method="stochastic")
        with pytest.raises(InvalidInputError, match=r"X: column 1, row 1: .* got NaN"):
            compare(gp, np.full((2, 3), np.nan), method="stochastic")

    @pytest.mark.parametrize(
        ("option", "value", "message"),
        [
            ("tolerance", 0.0, "tolerance: expected a finite number > 0"),
            ("tolerance", 1.5, "tolerance: expected a number below 1, got 1.5"),
            ("dtype", "float16", "dtype: expected one of 'float32', 'float64'"),
            ("rank", 0, "rank: expected an int >= 1"),
            ("seed", -1, "seed: expected an int >= 0"),
            ("n_probes", 7, "n_probes: expected an int >= 8"),
        ],
    )
    def test_options(self, option: str, value: Any, message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            StochasticOptions(**{option: value})

    def test_a_reference_without_a_kernel(self, rng: np.random.Generator) -> None:
        class Foreign:
            def predict(self, X: np.ndarray, return_cov: bool) -> Any:
                return np.zeros(len(X)), np.eye(len(X))

        X, y = table(20, rng)
        gp = sparse().fit(X, y)
        with pytest.raises(InvalidInputError, match="method: 'stochastic' needs the exact kernel"):
            compare(gp, X, reference=Foreign(), method="stochastic")

    def test_more_than_memory_is_refused_with_its_size(self, rng: np.random.Generator) -> None:
        X, y = table(20, rng)
        gp = sparse().fit(X, y)
        with pytest.raises(InvalidInputError, match=r"X_test: 300000 points .* need about \d+ GiB"):
            compare(gp, np.zeros((300_000, 3)), method="stochastic")

    def test_a_tolerance_out_of_reach(self, rng: np.random.Generator) -> None:
        system = system_of(100, rng, rank=10)
        with pytest.raises(NumericalError, match="tolerance: relative residual"):
            predictive_law(system, table(3, rng)[0], 1e-17)


def test_a_model_is_no_distance_from_itself(rng: np.random.Generator) -> None:
    X, y = table(120, rng)
    hyper = {"lengthscale": 1.5, "outputscale": 1.3, "noise": 0.02, "optimizer": None}
    exact = ExactGPRegressor(**hyper).fit(X[:100], y[:100])
    options = StochasticOptions(tolerance=1e-6)
    report = compare(exact, X[100:], y[100:], method="stochastic", options=options)
    assert 0 <= report.kl_per_point < 1e-9


class TestProbes:
    """More points than columns: joint laws by random probes."""

    @pytest.mark.long
    @pytest.mark.parametrize("n_outputs", [1, 2])
    def test_error_bars_cover_the_dense_figures(self, n_outputs: int, seed: int) -> None:
        rng = np.random.default_rng([seed, 2])
        errors: dict[str, list[float]] = {}
        for case in range(12 // n_outputs):
            X, y = table(140, rng, n_outputs)
            gp = sparse(n_frequencies=(8, 25, 80)[case % 3], random_state=case)
            gp.fit(X[:80], y[:80])
            dense = compare(gp, X[80:], y[80:], method="dense")
            options = StochasticOptions(rank=40, n_columns=20, n_probes=12, seed=case)
            report = compare(gp, X[80:], y[80:], method="stochastic", options=options)
            assert report.n_scored == 20
            for name in JOINT:
                error = report.accuracy.standard_errors[name]
                below, above = report.accuracy.bounds[name]
                gap = getattr(dense, name) - getattr(report, name)
                outside = max(gap - above, -gap - below, 0.0)
                errors.setdefault(name, []).append(outside / error)
                assert below + above < error + 0.01 * abs(getattr(dense, name)) + 2e-4, name
            for name in ("prior_kl_per_point", "kernel_rmse", "nlpd_joint"):
                assert getattr(report, name) == pytest.approx(getattr(dense, name), rel=1e-8)
        for name, values in errors.items():
            # Student's law of 11 degrees of freedom at least: twice its 95 % point is rare.
            assert np.mean(np.array(values) < 2.0) >= 0.75, (name, values)
            assert max(values) < 7, (name, values)

    @pytest.mark.long
    def test_standard_errors_are_those_of_the_estimates(self, seed: int) -> None:
        """The spread of the estimates over probes is what their standard errors say."""
        rng = np.random.default_rng([seed, 3])
        X, y = table(200, rng)
        gp = sparse(n_frequencies=20).fit(X[:100], y[:100])
        values, stated = [], []
        for probe_seed in range(30):
            options = StochasticOptions(1e-3, n_columns=1, n_probes=10, seed=probe_seed)
            report = compare(gp, X[100:], method="stochastic", options=options)
            values.append(report.kl_per_point)
            stated.append(report.accuracy.standard_errors["kl_per_point"])
        ratio = np.std(values, ddof=1) / np.sqrt(np.mean(np.square(stated)))
        assert 0.55 < ratio < 1.6
        dense = compare(gp, X[100:], method="dense").kl_per_point
        assert abs(np.mean(values) - dense) < 5 * np.std(values) / np.sqrt(30) + 1e-4

    @pytest.mark.parametrize(("n", "factor"), [(8, 1.2144), (16, 1.0906), (2000, 1.0)])
    def test_errors_of_few_probes_are_those_of_students_law(
        self, n: int, factor: float, rng: np.random.Generator
    ) -> None:
        values = rng.normal(size=(2000, n))
        errors = widened_error(values)
        spread = values.std(axis=1, ddof=1) / np.sqrt(n)
        np.testing.assert_allclose(errors / spread, factor, rtol=1e-3)
        assert np.mean(np.abs(values.mean(axis=1)) > 2 * errors) == pytest.approx(0.0455, abs=0.019)

    def test_scores_of_the_drawn_points(self, rng: np.random.Generator) -> None:
        X, y = table(200, rng)
        gp = sparse().fit(X[:150], y[:150])
        options = StochasticOptions(1e-4, n_columns=30, seed=4)
        report = compare(gp, X[150:], y[150:], method="stochastic", options=options)
        assert ("points scored, but for the joint NLPD", "30 of 50", "30 of 50") in score_rows(
            report.figures, report.accuracy
        )
        assert "nats per point (se " in report.verdict()
        assert json.loads(report.to_json())["accuracy"]["settings"]["n_probes"] == 16
        shown = np.isin(y[150:], report.predictions.y)
        assert shown.sum() == 30
        dense = compare(gp, X[150:][shown], y[150:][shown], method="dense")
        for name in ("rmse", "reference_rmse", "nlpd", "reference_nlpd", "crps", "reference_crps"):
            assert getattr(report, name) == pytest.approx(getattr(dense, name), rel=1e-5), name

    def test_errors_of_scoring_a_subset_are_stated(self, rng: np.random.Generator) -> None:
        X, y = table(160, rng)
        gp = sparse(n_frequencies=20, noise=0.1).fit(X[:100], y[:100])
        options = StochasticOptions(1e-3, n_columns=30, n_probes=8)
        accuracy = compare(gp, X[100:], y[100:], method="stochastic", options=options).accuracy
        assert not accuracy.unbounded
        drawn = REFERENCE_SCORES - {"reference_nlpd_joint"}
        drawn |= {name.removeprefix("reference_") for name in drawn}
        drawn |= {f"differences.{name}" for name in ("squared_error", "nlpd", "crps")}
        assert drawn <= set(accuracy.standard_errors)
        assert "nlpd_joint" not in {*accuracy.standard_errors, *accuracy.bounds}

    def test_next_to_no_noise(self) -> None:
        """Products too coarse for the least eigenvalue are an error; finer ones are enough."""
        rng = np.random.default_rng(0)
        X = rng.uniform(0, 3, (700, 2))
        y = np.sin(3 * X[:, 0])
        gp = sparse(n_frequencies=64, lengthscale=[0.8, 100.0], outputscale=1.0, noise=1e-6)
        gp.fit(X[:600], y[:600])
        coarse = StochasticOptions(tolerance=1e-2, n_columns=20)
        with pytest.raises(NumericalError, match=r"options.tolerance: .* smaller tolerance"):
            compare(gp, X[600:], method="stochastic", options=coarse)
        fine = StochasticOptions(tolerance=1e-5, n_columns=20)
        report = compare(gp, X[600:], method="stochastic", options=fine)
        dense = compare(gp, X[600:], method="dense").kl_per_point
        below, above = report.accuracy.bounds["kl_per_point"]
        slack = 5 * report.accuracy.standard_errors["kl_per_point"]
        assert -below - slack < dense - report.kl_per_point < above + slack

    def test_quadrature_bounds(self, rng: np.random.Generator) -> None:
        x = np.concatenate([rng.uniform(0.2, 0.4, 5), rng.uniform(0.9, 1.1, 40), [3.0, 9.0]])
        Q = np.linalg.qr(rng.normal(size=(47, 47)))[0]
        B, starts = (Q * x) @ Q.T, rng.normal(size=(47, 3))
        starts[:, 2] = 0.0
        true_log, true_inverse = (
            np.einsum("ik,ik->k", starts, (Q * h) @ Q.T @ starts) for h in (np.log(x), 1 / x)
        )
        lanczos = Lanczos(lambda V: B @ V, starts)
        gaps = []
        for _ in range(20):
            lanczos.step()
            forms = quadratic_forms(lanczos, 0.1)
            slack = 1e-9
            assert (forms.log_other - slack <= true_log).all()
            assert (true_log <= forms.log + slack).all()
            assert (forms.inverse - slack <= true_inverse).all()
            assert (true_inverse <= forms.inverse_other + slack).all()
            gaps.append(forms.log[0] - forms.log_other[0])
            d, e = lanczos.jacobi(0)
            assert gauss(*with_node(d, e, 0.1))[0].min() == pytest.approx(0.1, rel=1e-6)
        assert gaps[0] > 1e3 * gaps[-1]
        np.testing.assert_allclose(forms.trace, np.einsum("ik,ik->k", starts, B @ starts))

    def test_an_exhausted_krylov_space(self) -> None:
        B = np.diag([2.0, 2.0, 5.0])
        lanczos = Lanczos(lambda V: B @ V, np.array([[1.0], [1.0], [0.0]]))
        for _ in range(3):
            lanczos.step()
        forms = quadratic_forms(lanczos, 1.0)
        assert forms.log[0] == forms.log_other[0] == pytest.approx(2 * np.log(2.0))
        assert forms.inverse_other[0] == pytest.approx(1.0)
