"""The search that all domains share: starts, runs, safer ways, rounds, and what it counts."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from coupledgp.core.averaging import systematic_draws
from coupledgp.core.minimise import Stopping, along_line
from coupledgp.core.problem import VectorObjective
from coupledgp.core.process import Data
from coupledgp.core.search import Rounds, Search, SearchResult
from coupledgp.core.starts import COARSE_ROWS, N_CENTRES, NEAR_ROWS, coarse_rows
from coupledgp.core.units import Units
from coupledgp.errors import NumericalError
from coupledgp.ground.progress import watched
from coupledgp.spectra import GaussianSpectrum
from coupledgp.tables.exact_members import NOISE_PLACE, MemberPosterior
from coupledgp.tables.local_problem import LocalProblem

STOPPING = Stopping(50)


class Bowl(VectorObjective):
    """`|x - low|^2 + height`, without a value left of `wall`, and with a safer way or none."""

    def __init__(self, low, height=0.0, wall=-np.inf, safer=None):
        self.low, self.height, self.wall = np.asarray(low, float), height, wall
        self.other, self.calls = safer, []

    def box(self, start):
        return [(-10.0, 10.0)] * len(start)

    def safer(self):
        return self.other

    def value_and_gradient(self, variables):
        self.calls.append(variables.copy())
        if variables[0] < self.wall:
            raise NumericalError("left of the wall")
        gap = variables - self.low
        return float(gap @ gap) + self.height, 2 * gap


def test_starts_are_ranked_and_those_without_a_value_left_out():
    bowl, search = Bowl([1.0, 0.0], wall=-2.0), Search()
    starts = [np.array(x) for x in ([4.0, 0.0], [-3.0, 0.0], [0.5, 0.0], [2.0, 0.0])]
    ranked = search.ranked(lambda _: bowl, starts)
    assert [each.point[0] for each in ranked] == [0.5, 2.0, 4.0]
    assert [each.value for each in ranked] == [0.25, 1.0, 9.0]
    assert search.n_evaluations == 3
    with pytest.raises(NumericalError, match="wall"):
        search.ranked(lambda _: bowl, starts[1:2])


def test_a_run_ends_at_the_minimum_and_every_evaluation_is_counted_and_told():
    lines: list[str] = []
    bowl, search = Bowl([1.0, -2.0], height=3.0), Search()
    bowl.title, bowl.size = "bowl: ", 10.0
    with watched(lines.append):
        found = search.improved(bowl, np.zeros(2), STOPPING)
    np.testing.assert_allclose(found.point, [1.0, -2.0], atol=1e-6)
    assert found.value == pytest.approx(3.0)
    assert found.converged
    assert found.n_evaluations == len(bowl.calls) == len(lines)
    assert lines[-1] == f"bowl: evaluation {len(lines)}, log evidence -30.00"


def test_where_the_start_has_no_value_the_safer_way_is_taken():
    safe = Bowl([1.0])
    found = Search().improved(Bowl([1.0], wall=0.0, safer=safe), np.array([-1.0]), STOPPING)
    assert found.point == pytest.approx(1.0)
    assert safe.calls
    with pytest.raises(NumericalError, match="wall"):
        Search().improved(Bowl([1.0], wall=0.0), np.array([-1.0]), STOPPING)


def test_a_wall_on_the_way_shortens_the_step():
    found = Search().improved(Bowl([0.5], wall=0.4, safer=None), np.array([9.0]), STOPPING)
    assert found.point == pytest.approx(0.5, abs=1e-6)


def test_a_line_is_searched_by_values():
    class Line(Bowl):
        line_tolerance = 1e-6

        def value(self, point):
            return abs(float(point[0]) - 2.0)

    line = Line([0.0])
    found = Search().improved(line, np.zeros(1), STOPPING)
    assert found.point == pytest.approx(2.0, abs=1e-5)
    assert not line.calls


def test_only_the_best_starts_are_improved_and_the_least_end_is_kept():
    low, high = Bowl([5.0], height=1.0), Bowl([-5.0])
    starts = [np.array([5.1]), np.array([-4.0]), np.array([-9.0])]
    made = []

    def make(start):
        made.append(float(start[0]))
        return low if start[0] > 0 else high

    found = Search().best(make, starts, STOPPING, n_kept=2)
    assert found.point == pytest.approx(-5.0)
    assert made == [5.1, -4.0, -9.0, -4.0, 5.1]  # compared in order, improved from the best on
    assert found.n_evaluations == len(low.calls) + len(high.calls)


class Moving(Rounds):
    """Bowls that move right by one in each round, and settle at an end."""

    def __init__(self, most, settles_at=np.inf):
        self.limit, self.settles_at, self.seen = most, settles_at, []

    @property
    def most(self):
        return self.limit

    def improved(self, search, before):
        self.seen.append((before.n_rounds, float(np.round(before.point[0], 4))))
        found = search.improved(Bowl(before.point + 1), before.point, STOPPING)
        at_end = found.point[0] >= self.settles_at - 1e-3
        return SearchResult(found.point, found.value, settled=bool(at_end))


def test_rounds_follow_each_other_until_they_are_over_or_settled():
    search, begin = Search(), SearchResult(np.zeros(1), np.inf)
    rounds = Moving(4)
    found = search.in_rounds(rounds, begin)
    assert rounds.seen == [(0, 0.0), (1, 1.0), (2, 2.0), (3, 3.0)]
    assert (found.n_rounds, found.n_evaluations) == (4, search.n_evaluations)
    assert found.point == pytest.approx(4.0)
    settled = Search().in_rounds(Moving(9, settles_at=2.0), begin)
    assert settled.n_rounds == 2
    resumed = Search().in_rounds(Moving(4), SearchResult(np.zeros(1), 0.0, n_rounds=3))
    assert resumed.n_rounds == 4
    assert resumed.point == pytest.approx(1.0)


@pytest.mark.parametrize("minimum", [-0.93, 0.21, 0.99])
def test_the_best_of_a_line_is_polished_between_its_neighbours(minimum):
    found = along_line(lambda x: (x - minimum) ** 2, (-1.0, 1.0), 9, 1e-7)
    assert found == pytest.approx(minimum, abs=1e-4)


def test_a_grid_point_that_polishing_does_not_better_is_kept():
    """Where the greatest value is at a spike that Brent's method steps over."""
    assert along_line(lambda x: 0.0 if x == 0.5 else 1.0 + x, (0.0, 1.0), 5, 1e-3) == 0.5


def test_coarse_rows_are_random_ones_and_some_that_are_near():
    order = np.random.default_rng(0).permutation(1000)
    near = order[500 : 500 + N_CENTRES * NEAR_ROWS]
    rows = coarse_rows(order, order[:N_CENTRES], lambda: near)
    assert set(near) <= set(rows)
    assert set(order[: COARSE_ROWS - near.size]) <= set(rows)
    assert rows.size == COARSE_ROWS
    np.testing.assert_array_equal(coarse_rows(order[:50], order[:2], None), np.sort(order[:50]))
    np.testing.assert_array_equal(coarse_rows(order, order[:2], None), np.sort(order[:COARSE_ROWS]))


def test_systematic_draws_are_as_often_as_they_are_likely():
    chances = np.random.default_rng(1).gamma(0.3, size=40)
    places, counts = systematic_draws(chances, 500)
    expected = 500 * chances / chances.sum()
    drawn = np.zeros(40)
    drawn[places] = counts
    assert counts.sum() == 500
    assert (np.abs(drawn - expected) <= 1.0).all()
    assert systematic_draws(np.array([1.0, 1.0]), 1)[0].tolist() == [0]


def test_a_known_noise_is_no_variable_of_the_posterior_of_a_member():
    """Its entry has a standard normal law, and the gradient is that of differences."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(12, 2)), rng.normal(size=(12, 1))
    units = Units(np.zeros(1), np.ones(1))
    problem = LocalProblem.of(Data.of(X, y), units, np.arange(2), 0, known_noise=0.2)
    structure = problem.structure("constant", 5, GaussianSpectrum())
    vector = structure.start() + 0.3 * rng.normal(size=structure.start().size)
    posterior = MemberPosterior(problem.fitter().evidence(structure, np.arange(12), vector))
    value, gradient = posterior.value_and_gradient(vector)
    expected = approx_fprime(vector, lambda v: posterior.value(v), 1e-7)
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-4)
    moved = vector.copy()
    moved[NOISE_PLACE] = np.log(0.2)
    gap = vector[NOISE_PLACE] - np.log(0.2)
    assert value - posterior.value(moved) == pytest.approx(0.5 * gap**2)
