"""Maximisation of the evidence: optima, what is kept, bounds, and the subset of a long table."""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from coupledgp.core import ladder, optimize
from coupledgp.core.dense_evidence import ExactEvidence
from coupledgp.core.optimize import maximise_evidence
from coupledgp.core.problem import EvidenceAtLengthscale, Hyperparameters
from coupledgp.core.profile import ScaleBounds
from coupledgp.core.search import TableObjective
from coupledgp.core.starts import COARSE_ROWS, SearchSpace, coarse_problem, proposed_starts
from coupledgp.core.weights_evidence import FeatureEvidence
from coupledgp.core.weights_posterior import FeatureStream
from coupledgp.errors import NumericalError
from coupledgp.features import FourierFeatures
from coupledgp.ground.progress import watched
from coupledgp.random import FloatArray
from coupledgp.spectra import GaussianSpectrum, parse_spectrum

DIM = 2


def smooth_problem(n: int, rng: np.random.Generator, m: int = 12) -> FeatureEvidence:
    X = rng.normal(size=(n, DIM))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=n)
    stream = FeatureStream(FourierFeatures(DIM, m, generator=1), X, np.zeros(DIM), np.ones(DIM))
    return FeatureEvidence(stream, (y - y.mean())[:, None] / y.std())


def value_at(problem: FeatureEvidence, h: Hyperparameters) -> float:
    return problem.at(h.lengthscale).value(h.outputscale, h.noise)


def run(
    problem: FeatureEvidence, space: SearchSpace, **options: int
) -> optimize.OptimizationResult:
    return maximise_evidence(problem, space, rng=np.random.default_rng(0), **options)


@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("n", [20, 80])
def test_the_result_is_a_stationary_point(
    n: int, joint: bool, ard: bool, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Profiled or jointly, the same kind of point: no coordinate improves it."""
    monkeypatch.setattr(optimize, "TableObjective", partial(TableObjective, joint=joint))
    problem = smooth_problem(n, rng)
    result = run(problem, SearchSpace(base=np.array([1.0, 2.0]), ard=ard))
    h = result.hyperparameters
    assert result.log_evidence == pytest.approx(value_at(problem, h), rel=1e-9)
    if not ard:
        assert h.lengthscale[1] == pytest.approx(2 * h.lengthscale[0])
    for factor in (0.98, 1.02):
        moves = [
            Hyperparameters(factor * h.lengthscale, h.outputscale, h.noise),
            Hyperparameters(h.lengthscale, factor * h.outputscale, h.noise),
            Hyperparameters(h.lengthscale, h.outputscale, factor * h.noise),
        ]
        if ard:
            moves.append(Hyperparameters(h.lengthscale * [factor, 1.0], h.outputscale, h.noise))
        for moved in moves:
            if 1e-4 <= moved.outputscale <= 1e4 and 1e-6 <= moved.noise <= 10:
                assert value_at(problem, moved) <= result.log_evidence + 1e-6


@pytest.mark.parametrize("joint_first", [True, False])
def test_joint_and_profiled_searches_end_in_the_same_points(
    joint_first: bool, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the one has ended, the other finds nothing better. From afar their paths may differ."""
    problem, start = smooth_problem(80, rng), None
    values = []
    for joint in (joint_first, not joint_first):
        monkeypatch.setattr(optimize, "TableObjective", partial(TableObjective, joint=joint))
        result = run(problem, SearchSpace(np.ones(DIM), True, lengthscale=start), n_restarts=0)
        start = result.hyperparameters.lengthscale
        values.append(result.log_evidence)
    assert values[1] == pytest.approx(values[0], abs=1e-3)


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("free", [(), ("noise",), ("outputscale",), ("lengthscale",),
                                  ("lengthscale", "noise"), ("lengthscale", "outputscale"),
                                  ("outputscale", "noise")])  # fmt: skip
def test_what_is_not_free_is_kept(
    free: tuple[str, ...], joint: bool, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optimize, "TableObjective", partial(TableObjective, joint=joint))
    problem = smooth_problem(40, rng)
    given = np.array([0.9, 1.7])
    space = SearchSpace(
        base=np.ones(DIM), ard=True, lengthscale=given, outputscale=0.8, noise=0.05,
        free=frozenset(free),
    )  # fmt: skip
    h = run(problem, space).hyperparameters
    assert np.array_equal(h.lengthscale, given) == ("lengthscale" not in free)
    assert (h.outputscale == 0.8) == ("outputscale" not in free)
    assert (h.noise == 0.05) == ("noise" not in free)
    kept = Hyperparameters(given, 0.8, 0.05)
    assert value_at(problem, h) >= value_at(problem, kept) - 1e-9


def test_base_is_the_lengthscale_when_none_is_given_and_none_is_free(
    rng: np.random.Generator,
) -> None:
    base = np.array([0.7, 3.0])
    space = SearchSpace(base=base, ard=True, free=frozenset({"noise"}))
    result = run(smooth_problem(20, rng), space)
    np.testing.assert_array_equal(result.hyperparameters.lengthscale, base)
    assert result.converged


@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize("joint", [True, False])
def test_gradients_of_the_objectives(joint: bool, ard: bool, rng: np.random.Generator) -> None:
    """The envelope theorem, too: the profiled objective moves its variances along."""
    problem = smooth_problem(40, rng)
    space = SearchSpace(base=np.array([1.0, 0.6]), ard=ard)
    table = TableObjective(problem, space, joint=joint)
    theta = rng.normal(size=2 if ard else 1) / 4
    point = np.concatenate([theta, [0.3, -1.0]]) if joint else theta
    objective = table.value_and_gradient
    value, gradient = objective(point)
    if not joint:
        assert value == pytest.approx(table.value(point), rel=1e-9)
    steps = 1e-6 * np.eye(point.size)
    expected = [(objective(point + h)[0] - objective(point - h)[0]) / 2e-6 for h in steps]
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-7)
    forward = approx_fprime(point, lambda t: objective(t)[0], 1e-7)
    np.testing.assert_allclose(gradient, forward, rtol=1e-2, atol=1e-4)


def test_bounds_of_the_scales_hold(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds = ScaleBounds((0.5, 0.6), (0.2, 0.25))
    for joint in (True, False):
        monkeypatch.setattr(optimize, "TableObjective", partial(TableObjective, joint=joint))
        space = SearchSpace(base=np.ones(DIM), ard=True, bounds=bounds)
        h = run(smooth_problem(40, rng), space).hyperparameters
        assert 0.5 <= h.outputscale <= 0.6 * (1 + 1e-12)
        assert 0.2 * (1 - 1e-12) <= h.noise <= 0.25 * (1 + 1e-12)


def test_a_start_outside_the_range_is_kept_in(rng: np.random.Generator) -> None:
    space = SearchSpace(base=np.ones(DIM), ard=True, lengthscale=np.array([1e6, 1e-5]))
    h = run(smooth_problem(30, rng), space, n_restarts=0, max_iterations=1).hyperparameters
    assert np.isfinite(h.lengthscale).all()


def test_given_starts(rng: np.random.Generator) -> None:
    base = np.array([1.0, 3.0])
    assert SearchSpace(base=base, ard=True).given_starts(2, rng) == []
    given = SearchSpace(base=base, ard=False, lengthscale=2 * base)
    assert len(given.given_starts(2, rng)) == 3
    np.testing.assert_allclose(given.lengthscales(given.given_starts(0, rng)[0]), 2 * base)


@pytest.mark.parametrize("kernel", ["gaussian", "matern-1/2", "matern-5/2"])
def test_starts_see_what_varies_fast(kernel: str, rng: np.random.Generator) -> None:
    """A function of many periods, in one of two columns, is not taken for noise."""
    n = 120
    X = np.column_stack([np.linspace(0, 4, n), rng.normal(size=n)])
    y = (np.sin(20 * X[:, 0]) + 0.05 * rng.normal(size=n))[:, None]
    problem = ExactEvidence(parse_spectrum(kernel), X, y)
    space = SearchSpace(base=X.std(axis=0) * np.sqrt(2), ard=True)
    starts, n_evaluations = proposed_starts(problem, space, 4)
    assert 0 < n_evaluations < 150
    assert space.lengthscales(starts[0])[0] < 0.3 < space.lengthscales(starts[0])[1]
    found = maximise_evidence(problem, space, rng=rng).hyperparameters
    assert found.noise < 0.01 < found.outputscale


def test_starts_are_apart_and_the_best_is_first(rng: np.random.Generator) -> None:
    X = rng.uniform(size=(60, 3))
    y = np.sin(9 * X[:, :1]) + np.sin(7 * X[:, 1:2]) + 0.1 * rng.normal(size=(60, 1))
    problem = ExactEvidence(GaussianSpectrum(), X, y)
    space = SearchSpace(base=X.std(axis=0), ard=True)
    starts, _ = proposed_starts(problem, space, 6)
    values = [TableObjective(problem, space).value(start) for start in starts]
    assert np.argmin(values) in (0, 1)  # ranked on a grid of variances
    for k, start in enumerate(starts):
        assert all(np.abs(start - other).max() > 1.0 for other in starts[:k])


def test_some_rows_of_a_long_table_are_near_each_other(rng: np.random.Generator) -> None:
    X = rng.uniform(size=(5000, 1))
    problem = ExactEvidence(GaussianSpectrum(), X, X)
    coarse = coarse_problem(problem, np.ones(1))
    assert coarse.inputs is not None
    assert COARSE_ROWS - 4 <= coarse.n_rows <= COARSE_ROWS
    gaps = np.sort(np.diff(np.sort(coarse.inputs[:, 0])))
    assert gaps[20] < 20 / 5000
    np.testing.assert_array_equal(coarse.inputs, coarse_problem(problem, np.ones(1)).inputs)
    short = problem.subset(np.arange(COARSE_ROWS))
    assert coarse_problem(short, np.ones(1)) is short


def test_a_failing_factor_does_not_end_a_search(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no Cholesky factor exists at a start, the variances are profiled out."""
    problem = smooth_problem(30, rng)

    profiled = TableObjective.value_and_gradient

    def fail_jointly(self: TableObjective, variables: FloatArray) -> tuple[float, FloatArray]:
        if self.joint:
            raise NumericalError("not positive definite")
        return profiled(self, variables)

    monkeypatch.setattr(TableObjective, "value_and_gradient", fail_jointly)
    assert np.isfinite(run(problem, SearchSpace(np.ones(DIM), True)).log_evidence)


def test_long_tables_start_on_a_subset(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The subset finds the start, the whole table the end."""
    monkeypatch.setattr(ladder, "FIRST_ROWS", 70)
    problem = smooth_problem(200, rng)
    sizes: list[int] = []
    original = FeatureEvidence.at

    def at(self: FeatureEvidence, lengthscale: np.ndarray) -> EvidenceAtLengthscale:
        sizes.append(self.n_rows)
        return original(self, lengthscale)

    monkeypatch.setattr(FeatureEvidence, "at", at)
    messages: list[str] = []
    space = SearchSpace(base=np.ones(DIM), ard=True)
    with watched(messages.append):
        result = maximise_evidence(problem, space, rng=rng)
    assert set(sizes) == {70, 200}
    assert sizes[0] == 70
    assert sizes[-1] == 200
    assert result.log_evidence == pytest.approx(value_at(problem, result.hyperparameters))
    assert messages[0].startswith("start values: 70 of 200 rows: evaluation")
    assert not any(message.startswith("start values") for message in messages[-5:])
    assert messages[-1] == result.ladder.explain()
    assert 0 < result.n_evaluations <= len(sizes)


@pytest.mark.long
def test_same_seed_same_result(rng: np.random.Generator) -> None:
    problem = smooth_problem(60, rng)
    space = SearchSpace(base=np.ones(DIM), ard=True)
    first, second = run(problem, space, n_restarts=3), run(problem, space, n_restarts=3)
    np.testing.assert_array_equal(
        first.hyperparameters.lengthscale, second.hyperparameters.lengthscale
    )
    assert first.log_evidence == second.log_evidence


def test_recovers_the_hyperparameters_of_its_own_law(seed: int) -> None:
    """Data drawn from an exact GP: the maximum is near, within the spread of the estimate."""
    rng = np.random.default_rng(seed)
    n, true = 250, Hyperparameters(np.array([1.0, 2.0]), 1.0, 0.01)
    X = rng.uniform(-3, 3, size=(n, DIM))
    law = ExactEvidence(GaussianSpectrum(), X, np.zeros((n, 1))).at(true.lengthscale).gram
    y = np.linalg.cholesky(law + 0.01 * np.eye(n)) @ rng.normal(size=(n, 1))
    problem = ExactEvidence(GaussianSpectrum(), X, y)
    space = SearchSpace(base=np.full(DIM, 1.5), ard=True)
    result = maximise_evidence(problem, space, rng=rng, n_restarts=0)
    h = result.hyperparameters
    assert result.log_evidence >= problem.at(true.lengthscale).value(1.0, 0.01)
    np.testing.assert_allclose(np.log(h.lengthscale / true.lengthscale), 0.0, atol=0.5)
    assert abs(np.log(h.noise / true.noise)) < 5 * np.sqrt(2 / (n - 60))
