"""Optimisers: their result, their box, and one of a user's own in every search."""

import networkx as nx
import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.core.minimise import (
    OPTIMIZERS,
    Box,
    Experienced,
    Minimum,
    Stopping,
    ValueAndGradient,
    around_failures,
    curvature_units,
    lbfgs,
    parse_optimizer,
    patient,
)
from coupledgp.core.optimize import maximise_evidence
from coupledgp.core.starts import SearchSpace
from coupledgp.core.weights_evidence import FeatureEvidence
from coupledgp.core.weights_posterior import FeatureStream
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.features import FourierFeatures
from coupledgp.random import FloatArray


def bowl(x: FloatArray) -> tuple[float, FloatArray]:
    target = np.array([0.5, 3.0])
    return float(((x - target) ** 2).sum()), 2 * (x - target)


def test_a_step_to_where_there_is_no_factor_is_shortened() -> None:
    """The bowl has no value beyond a wall close to its minimum; the first steps cross it."""
    refused = []

    def walled(x: FloatArray) -> tuple[float, FloatArray]:
        if x[1] > 3.05:
            refused.append(x)
            raise NumericalError("not positive definite")
        value, gradient = bowl(x)
        return 400 * value, 400 * gradient

    found = lbfgs(around_failures(walled), np.array([0.5, 2.8]), [(-9.0, 9.0)] * 2, Stopping(50))
    np.testing.assert_allclose(found.point, [0.5, 3.0], atol=1e-5)
    assert refused
    guarded = around_failures(walled)
    worst = guarded(np.array([0.5, 2.8]))[0]
    assert guarded(np.array([0.5, 9.0]))[0] > worst + 100.0
    with pytest.raises(NumericalError, match="not positive definite"):
        lbfgs(around_failures(walled), np.array([0.5, 4.0]), [(-9.0, 9.0)] * 2, Stopping(50))


@pytest.mark.parametrize(("rounding", "converged"), [(1e-7, True), (0.0, False)])
def test_a_line_search_without_a_lower_value(rounding: float, converged: bool) -> None:
    """Rounding of values hides the end of a search; a wrong gradient is no end at all."""

    def rounded(x: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = bowl(x)
        if rounding:
            return float(np.round(value / rounding) * rounding), gradient + 1e-4
        return value, -gradient

    found = lbfgs(rounded, np.array([0.0, 1.0]), [(-9.0, 9.0)] * 2, Stopping(50, 0.0, 1e-12))
    assert found.converged == converged
    assert found.n_iterations < 50


def test_the_minimum_in_a_box() -> None:
    found = lbfgs(bowl, np.zeros(2), [(-1.0, 1.0), (-1.0, 2.0)], Stopping(50))
    np.testing.assert_allclose(found.point, [0.5, 2.0], atol=1e-6)
    assert found.value == pytest.approx(1.0)
    assert found.converged
    assert found.n_iterations >= 1


def test_a_search_that_runs_out_of_iterations_says_so() -> None:
    def valley(x: FloatArray) -> tuple[float, FloatArray]:
        slope = 4 * (x - 1) ** 3 + np.array([0.0, 200 * x[1]])
        return float(((x - 1) ** 4).sum() + 100 * x[1] ** 2), slope

    found = lbfgs(valley, np.full(2, 9.0), [(-20.0, 20.0)] * 2, Stopping(2, 1e-14, 1e-12))
    assert not found.converged
    assert found.n_iterations == 2


def ill_scaled(x: FloatArray) -> tuple[float, FloatArray]:
    curvature = np.geomspace(1.0, 1e4, x.size)
    return float((curvature * x**2).sum() / 2), curvature * x


def test_a_patient_search_ends_where_the_function_hardly_falls() -> None:
    """It keeps the least point that it has seen, and falls by less than asked for from then on."""
    box, values = [(-10.0, 10.0)] * 5, []

    def seen(x: FloatArray) -> tuple[float, FloatArray]:
        values.append(ill_scaled(x)[0])
        return ill_scaled(x)

    found = patient(lbfgs, 4, 1e-3)(seen, np.ones(5), box, Stopping(200, 1e-16, 1e-12))
    assert found.converged
    assert found.value == min(values) == ill_scaled(found.point)[0]
    assert found.n_iterations <= len(values)
    assert min(values[:-4]) - min(values) < 1e-3 <= min(values[:-5]) - min(values[:-1])
    hurried = lbfgs(ill_scaled, np.ones(5), box, Stopping(200, 1e-16, 1e-12))
    assert found.value < 1e-2
    unhurried = patient(lbfgs, 50, 1e-300)(ill_scaled, np.ones(5), box, Stopping(200, 1e-16, 1e-12))
    np.testing.assert_array_equal(unhurried.point, hurried.point)


def test_units_are_roots_of_inverse_curvatures(rng: np.random.Generator) -> None:
    points = rng.normal(size=(60, 3))
    curvature = np.array([1.0, 4.0, 16.0])
    units = curvature_units(points, points * curvature)
    np.testing.assert_allclose(units, [1.0, 0.5, 0.25], rtol=1e-6)
    np.testing.assert_array_equal(curvature_units(points[:1], points[:1]), np.ones(3))
    np.testing.assert_array_equal(curvature_units(points, -points), np.ones(3))


def test_a_search_with_experience_takes_fewer_evaluations() -> None:
    """The second run of nearly the same function; both stay in the box."""
    box, counts = [(-3.0, 3.0)] * 12, []
    search = Experienced(lbfgs)
    for shift in (0.0, 0.3):
        calls = []

        def moved(x: FloatArray, shift: float = shift, calls: list = calls) -> tuple:  # type: ignore[type-arg]
            assert (np.abs(x) <= 3).all()
            calls.append(x)
            return ill_scaled(x - shift)

        found = search(moved, np.full(12, 2.0), box, Stopping(500, 1e-14, 1e-9))
        np.testing.assert_allclose(found.point, shift, atol=1e-4)
        counts.append(len(calls))
    assert 2 * counts[1] < counts[0]


def test_names_and_functions() -> None:
    assert parse_optimizer("lbfgs") is OPTIMIZERS["lbfgs"]
    with pytest.raises(InvalidInputError, match=r"optimizer: expected one of 'lbfgs'; got 'adam'"):
        parse_optimizer("adam")


def test_a_search_uses_the_optimiser_it_is_given(rng: np.random.Generator) -> None:
    X = rng.normal(size=(40, 2))
    stream = FeatureStream(FourierFeatures(2, 8, generator=0), X, np.zeros(2), np.ones(2))
    problem = FeatureEvidence(stream, np.sin(X[:, :1]))
    starts = []

    def stay(
        function: ValueAndGradient, start: FloatArray, box: Box, stopping: Stopping
    ) -> Minimum:
        starts.append(start)
        assert stopping.max_iterations == 7
        assert all(low <= x <= high for x, (low, high) in zip(start, box, strict=True))
        return Minimum(start, function(start)[0], 3, False)

    space = SearchSpace(np.ones(2), ard=True, lengthscale=np.array([2.0, 3.0]), minimise=stay)
    result = maximise_evidence(problem, space, n_restarts=0, max_iterations=7, rng=rng)
    np.testing.assert_allclose(result.hyperparameters.lengthscale, [2.0, 3.0])
    assert (len(starts), result.n_iterations, result.converged) == (1, 3, False)


@pytest.mark.long
def test_estimators_take_an_optimiser_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """One entry of the table serves tables and graphs alike."""
    calls = []

    def counted(function: ValueAndGradient, start: FloatArray, box: Box, stop: Stopping) -> Minimum:
        calls.append(start.size)
        return lbfgs(function, start, box, stop)

    monkeypatch.setitem(OPTIMIZERS, "counted", counted)
    X = np.random.default_rng(0).normal(size=(30, 2))
    settings = {"optimizer": "counted", "random_state": 0, "progress": False}
    for table_model in (
        cgp.SparseSpectrumGPRegressor(n_frequencies=8, options={"max_iter": 3}, **settings),
        cgp.ExactGPRegressor(options={"max_iter": 3}, **settings),
    ):
        calls.clear()
        table_model.fit(X, np.sin(X[:, 0]))
        assert calls
    graph = cgp.Graph.from_networkx(nx.path_graph(12), weight=None)
    for solver, kernel in (("dense", "heat"), ("iterative", "learned")):
        calls.clear()
        model = cgp.GraphGPRegressor(graph, kernel=kernel, n_walks=8, solver=solver, **settings)
        model.fit(np.arange(12), np.sin(np.arange(12) / 3))
        assert calls
    with pytest.raises(InvalidInputError, match="optimizer: expected one of 'counted', 'lbfgs'"):
        cgp.ExactGPRegressor(optimizer="newton").fit(X, X[:, 0])
