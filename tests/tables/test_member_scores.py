"""Scores of members at rows that had a part in their hyperparameters, and members for tails."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from coupledgp.core.process import Data
from coupledgp.core.units import Units
from coupledgp.kernels.expressions import parse_kernel
from coupledgp.likelihoods.gaussian import normal_log_density
from coupledgp.tables.expression_members import ExpressionModel
from coupledgp.tables.expression_search import ExpressionProblem
from coupledgp.tables.local_problem import LocalProblem
from coupledgp.tables.local_search import LocalFitter
from coupledgp.tables.member_kinds import FittedMember, LeftOutScores
from coupledgp.tables.members import MemberSearch
from coupledgp.tables.regressor import GPRegressor
from tests.core.few_steps import search_little

N = 25
KERNEL = parse_kernel("gaussian + constant")


def task(X, y):
    data = Data.of(X, y[:, None])
    problem = LocalProblem.of(data, Units.of(data.targets, True), np.arange(X.shape[1]), 0)
    return MemberSearch(problem, True, "none", 8, 0).task(True)


def mode(problem: ExpressionProblem, rows, start):
    """Hyperparameters of greatest posterior given some rows."""
    evidence = problem.evidence(rows)
    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 500}
    found = minimize(evidence.value_and_gradient, start, jac=True, method="L-BFGS-B",
                     options=options)  # fmt: skip
    return found.x


def table(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (N, 2))
    return X, np.sin(2 * X[:, 0]) + 0.4 * rng.normal(size=N)


def test_optimism_is_what_fits_without_each_row_lose():
    X, y = table(1)
    whole = task(X, y)
    problem = ExpressionProblem(whole.train, KERNEL)
    best = mode(problem, np.arange(N), problem.evidence(np.arange(N)).start)
    model = ExpressionModel(KERNEL, best)
    found = model.corrected(whole).optimism
    densities = model.left_out(whole).log_densities
    lost = np.empty(N)
    for i in range(N):
        rest = np.delete(np.arange(N), i)
        refitted = replace(model, vector=mode(problem, rest, best))
        own = refitted.left_out(whole).log_densities[i]
        lost[i] = densities[i] - own
    assert found.min() >= 0
    assert np.corrcoef(found, lost)[0, 1] > 0.9
    assert found.mean() == pytest.approx(lost.mean(), rel=0.35)
    corrected = model.corrected(whole).left_out(whole).log_densities
    np.testing.assert_allclose(corrected, densities - found, rtol=1e-9, atol=1e-9)


def test_draws_given_all_rows_have_scores_given_the_others():
    """For a normal mean of unknown place, by a grid of its posterior."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=12)
    places = np.linspace(-6, 6, 4001)
    own = normal_log_density(y[:, None], places, np.ones(1))
    log_posterior = own.sum(axis=0) - 0.5 * places**2
    shares = np.exp(log_posterior - log_posterior.max())
    shares /= shares.sum()
    scores = [
        LeftOutScores(own[:, q], np.full((12, 1), places[q]), np.ones(12))
        for q in range(places.size)
    ]
    mixed = LeftOutScores.mixed(scores, shares, held=False)
    precision = 12.0  # of the prior and the eleven other rows
    mean = (y.sum() - y) / precision
    expected = normal_log_density(y, mean, np.full(12, 1 + 1 / precision))
    np.testing.assert_allclose(mixed.log_densities, expected, rtol=1e-6)
    np.testing.assert_allclose(mixed.means[:, 0], mean, atol=1e-6)
    held = LeftOutScores.mixed(scores, shares)
    assert (held.log_densities >= mixed.log_densities - 1e-12).all()


@pytest.mark.parametrize(("n_far", "least", "most"), [(0, 2.0, 16.0), (2, 20.0, np.inf)])
def test_rows_that_are_far_off_make_the_tails_as_wide(n_far, least, most):
    X, y = table(2)
    y[:n_far] += 8.0
    whole = task(X, y)
    model = ExpressionModel(KERNEL, np.log([0.1, 1.0, 1.5, 1.5, 0.2]))
    assert len(model.vector) == 1 + len(ExpressionProblem(whole.train, KERNEL).covariance.names)
    member = FittedMember.scored(whole, "one", (model,), np.ones(1), 0)
    tail = member.broader(whole)
    ratio = (tail.priors[0].noise - member.priors[0].noise) / member.scores.variances.mean()
    assert tail.is_tail
    assert least <= ratio + 1 <= most
    both = np.array([member.scores.log_densities, tail.scores.log_densities])
    if n_far:
        mixed = np.logaddexp(both[0] + np.log(0.95), both[1] + np.log(0.05))
        assert mixed.mean() > both[0].mean() + 0.5


@pytest.mark.long
def test_members_with_a_local_part_share_the_screening_of_its_kernels(monkeypatch):
    """It is found once, and each member is the same as alone."""
    search_little(monkeypatch)
    monkeypatch.setattr("coupledgp.tables.members.LEAST_ROWS", 20)
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 2))
    y = np.sin(3 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=200)
    screened = []
    smoothest = LocalFitter.smoothest

    def counted(self, structure, *further):
        screened.append(structure)
        return smoothest(self, structure, *further)

    monkeypatch.setattr(LocalFitter, "smoothest", counted)
    names = ("local", "hybrid")
    together = GPRegressor(names, n_frequencies=3, random_state=0).fit(X, y).choice_.members
    assert len(screened) == 1
    found = {member.name: member.log_density for member in together}
    for name in names:
        (alone, *_) = GPRegressor(name, n_frequencies=3, random_state=0).fit(X, y).choice_.members
        assert found[alone.name] == alone.log_density
