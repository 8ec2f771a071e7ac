"""Lengthscales that several dimensions share: their search, their gradient and their scale."""

from dataclasses import replace

import numpy as np
import pytest

from coupledgp.core.averaging import HyperparameterPrior, TablePosterior
from coupledgp.core.column_moments import column_spread, spread_lengthscale
from coupledgp.core.dense_evidence import ExactEvidence
from coupledgp.core.optimize import maximise_evidence
from coupledgp.core.problem import Hyperparameters
from coupledgp.core.starts import SearchSpace, first_places
from coupledgp.random import FloatArray
from coupledgp.spectra import parse_spectrum

GROUPS = np.array([0, 0, 0, 1, 2, 2])
BASE = np.array([2.0, 2.0, 2.0, 1.0, 3.0, 3.0])


def problem(rng: np.random.Generator, n: int = 60) -> tuple[FloatArray, FloatArray]:
    X = rng.normal(size=(n, 6))
    y = np.sin(X[:, :1] + X[:, 1:2]) + 0.5 * X[:, 3:4] + 0.1 * rng.normal(size=(n, 1))
    return X, (y - y.mean()) / y.std()


def test_first_places() -> None:
    np.testing.assert_array_equal(first_places(GROUPS), [0, 3, 4])


def test_logarithms_undo_lengthscales(rng: np.random.Generator) -> None:
    space = SearchSpace(BASE, ard=True, groups=GROUPS)
    theta = rng.normal(size=3)
    lengthscales = space.lengthscales(theta)
    np.testing.assert_allclose(lengthscales, BASE * np.exp(theta)[GROUPS])
    np.testing.assert_allclose(space.logarithms(lengthscales), theta)
    assert space.n_lengthscales == 3
    isotropic = replace(space, ard=False)
    assert isotropic.n_lengthscales == 1
    np.testing.assert_allclose(isotropic.logarithms(2 * BASE), [np.log(2)])
    given = replace(space, lengthscale=2 * BASE)
    np.testing.assert_allclose(given.given_starts(0, rng)[0], np.log([2.0, 2.0, 2.0]))


@pytest.mark.parametrize("n", [60, 700])  # variances profiled out, and searched for
@pytest.mark.long
def test_lengthscales_of_a_group_stay_equal(rng: np.random.Generator, n: int) -> None:
    X, y = problem(rng, n)
    evidence = ExactEvidence(parse_spectrum("gaussian"), X, y)
    tied = SearchSpace(BASE, ard=True, groups=GROUPS)
    found = maximise_evidence(evidence, tied, max_iterations=15, rng=np.random.default_rng(0))
    lengthscale = found.hyperparameters.lengthscale
    np.testing.assert_array_equal(lengthscale[:3], lengthscale[0])
    np.testing.assert_array_equal(lengthscale[4:], lengthscale[4])
    # A step along any free direction lowers the evidence, so that the gradient was the tied one.
    best = evidence.at(lengthscale).value(*vars_of(found.hyperparameters))
    for group in range(3):
        for step in (-0.05, 0.05):
            moved = lengthscale * np.exp(step * (group == GROUPS))
            assert evidence.at(moved).value(*vars_of(found.hyperparameters)) < best + 1e-3


def vars_of(hyper: Hyperparameters) -> tuple[float, float]:
    return hyper.outputscale, hyper.noise


def test_the_gradient_is_that_of_the_shared_lengthscale(rng: np.random.Generator) -> None:
    X, y = problem(rng)
    space = SearchSpace(BASE, ard=True, groups=GROUPS)
    evidence = ExactEvidence(parse_spectrum("matern-3/2"), X, y)
    kept = Hyperparameters(BASE, 1.0, 0.1)
    posterior = TablePosterior(evidence, space, kept, HyperparameterPrior())
    t = np.concatenate([rng.normal(size=3) * 0.3, [0.1, -2.0]])
    np.testing.assert_allclose(posterior.logarithms(posterior.hyperparameters(t)), t)
    _, gradient = posterior.value_and_gradient(t)
    step = 1e-5
    for k in range(5):
        e = step * (np.arange(5) == k)
        numeric = posterior.value_and_gradient(t + e)[0] - posterior.value_and_gradient(t - e)[0]
        assert gradient[k] == pytest.approx(numeric / (2 * step), rel=1e-5, abs=1e-6)


def test_groups_of_one_column_are_no_groups(rng: np.random.Generator) -> None:
    X, y = problem(rng)
    each = np.arange(6)
    np.testing.assert_allclose(spread_lengthscale(X, True, each), spread_lengthscale(X, True))
    evidence = ExactEvidence(parse_spectrum("gaussian"), X, y)
    results = [
        maximise_evidence(
            evidence, SearchSpace(BASE, True, groups=groups), rng=np.random.default_rng(0)
        )
        for groups in (None, each)
    ]
    a, b = (result.hyperparameters.lengthscale for result in results)
    np.testing.assert_array_equal(a, b)


def test_the_spread_of_a_group(rng: np.random.Generator) -> None:
    X = rng.normal(size=(50, 6)) * np.arange(1, 7)
    X[:, 3] = 4.0  # a constant column has no scale
    total = [np.sqrt(X[:, g == GROUPS].var(axis=0).sum()) for g in range(3)]
    total[1] = 1.0
    np.testing.assert_allclose(column_spread(X, True, GROUPS), np.array(total)[GROUPS])
    np.testing.assert_allclose(
        spread_lengthscale(X, True, GROUPS), np.sqrt(3) * np.array(total)[GROUPS]
    )
    np.testing.assert_array_equal(
        spread_lengthscale(X, False, GROUPS), spread_lengthscale(X, False)
    )
