"""Series filters against dense covariances: solves, determinants, variances, products, draws."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from coupledgp.errors import InvalidInputError, MemoryLimitError
from coupledgp.ground import compiled
from coupledgp.inference.space_time import filters, variances
from coupledgp.inference.space_time.factors import LANES
from coupledgp.inference.space_time.filters import SeriesFilter, Term
from coupledgp.inference.space_time.lanes import lanes_of
from coupledgp.inference.space_time.state_space import distinct_steps
from coupledgp.kernels.time import Constant, Matern12, Matern32, Periodic, White

EIGENVALUES = np.array([0.0, 0.3, 2.0, 2.0])
TERMS = (
    Term("graph", Matern32(6.0), 1.0),
    Term("graph", Constant(), 0.5),
    Term("graph", Periodic(12.0), 0.3),
    Term("node", Matern12(3.0), 0.2),
    Term("node", White(), 0.1),
)
N = 60
REGULAR = np.arange(N) * 0.5
IRREGULAR = np.cumsum(np.random.default_rng(5).exponential(size=N))
EVERYWHERE = np.ones(N, dtype=bool)
SOMEWHERE = EVERYWHERE.copy()
SOMEWHERE[[0, 50]] = False
SOMEWHERE[10:20] = SOMEWHERE[55:] = False


def terms_of_steps(scale):
    """One graph's and one node's term whose lengthscales are this many steps of `REGULAR`."""
    return (
        Term("graph", Matern32(0.5 * scale), 1.0),
        Term("graph", Constant(), 2.0),
        Term("node", Matern12(0.5 * scale), 0.2),
    )


# Terms, noise, times, seen, tolerance of solves relative to their largest entry.
CASES = {
    "regular": (TERMS, 0.05, REGULAR, EVERYWHERE, 1e-12),
    "irregular": (TERMS, 0.05, IRREGULAR, EVERYWHERE, 1e-12),
    "unseen times": (TERMS, 0.05, REGULAR, SOMEWHERE, 1e-12),
    "irregular, unseen": (TERMS, 0.05, IRREGULAR, SOMEWHERE, 1e-12),
    "one term": ((Term("graph", Matern12(2.0), 1.0),), 0.1, REGULAR, EVERYWHERE, 1e-12),
    "two constants": ((*TERMS[:2], Term("node", Constant(), 0.7)), 0.1, REGULAR, SOMEWHERE, 1e-12),
    "constants alone": ((TERMS[1], Term("node", Constant(), 0.7)), 0.1, REGULAR, SOMEWHERE, 1e-12),
    "node alone": ((Term("node", Matern32(2.0), 1.0),), 0.1, IRREGULAR, SOMEWHERE, 1e-12),
    "little noise": (TERMS[:4], 1e-6, REGULAR, EVERYWHERE, 1e-9),
    "much noise": (TERMS, 1e4, REGULAR, EVERYWHERE, 1e-12),
    "short lengthscale": (terms_of_steps(0.01), 0.05, REGULAR, EVERYWHERE, 1e-12),
    "long lengthscale": (terms_of_steps(1e6), 0.05, REGULAR, EVERYWHERE, 1e-11),
    "no variance": ((Term("graph", Matern12(2.0), 0.0), TERMS[3]), 0.1, REGULAR, SOMEWHERE, 1e-12),
}
each_case = pytest.mark.parametrize("case", CASES)


def made(case):
    terms, noise, times, seen, _ = CASES[case]
    return SeriesFilter(terms, noise, EIGENVALUES, times, seen)


def kernel_of(found, i, chosen=None):
    """Dense covariance (n, n) of series i, or of some of its terms."""
    lags = found.times[:, None] - found.times
    total = np.zeros_like(lags)
    for c, term in enumerate(found.terms):
        if chosen is None or c in chosen:
            share = found.eigenvalues[i] if term.where == "graph" else 1.0
            total += share * term.variance * term.kernel.covariance(lags)
    return total


def dense_variances(found, i, chosen=None):
    """Variances (n,) of some terms of series i given all that is seen, by dense algebra."""
    seen = found.seen
    part = kernel_of(found, i, chosen)
    noisy = (kernel_of(found, i) + found.noise * np.eye(found.n_times))[np.ix_(seen, seen)]
    return np.diag(part) - np.einsum("st,st->t", part[seen], np.linalg.solve(noisy, part[seen]))


@each_case
def test_solves_and_determinants_are_those_of_the_dense_covariance(case):
    found, tolerance = made(case), CASES[case][-1]
    values = np.random.default_rng(0).normal(size=(3, 4, N))
    values[..., ~found.seen] = np.nan
    solved, determinants = found.solve(values), found.log_determinants
    assert solved.shape == values.shape
    assert not solved[..., ~found.seen].any()
    for i in range(4):
        noisy = kernel_of(found, i) + found.noise * np.eye(N)
        noisy = noisy[np.ix_(found.seen, found.seen)]
        expected = np.linalg.solve(noisy, values[:, i, found.seen].T).T
        largest = np.abs(expected).max()
        np.testing.assert_allclose(
            solved[:, i, found.seen], expected, rtol=0, atol=tolerance * largest
        )
        expected = np.linalg.slogdet(noisy)[1]
        assert determinants[i] == pytest.approx(expected, rel=1e-9, abs=1e-9)


@each_case
def test_variances_are_those_of_the_dense_posterior(case):
    found = made(case)
    graph = tuple(c for c, term in enumerate(found.terms) if term.where == "graph")
    both, each = found.variances(), found.term_variances()
    assert both.shape == (2, 4, N)
    assert each.shape == (len(found.terms), 4, N)
    for i in range(4):
        np.testing.assert_allclose(both[0, i], dense_variances(found, i, graph), atol=1e-9)
        np.testing.assert_allclose(both[1, i], dense_variances(found, i), atol=1e-9)
        for c in range(len(found.terms)):
            np.testing.assert_allclose(each[c, i], dense_variances(found, i, (c,)), atol=1e-9)


@each_case
def test_products_are_those_of_the_dense_kernel(case):
    found = made(case)
    values = np.random.default_rng(1).normal(size=(2, 4, N))
    for which in [(0,), tuple(range(len(found.terms))), ()]:
        without = SeriesFilter(found.terms, found.noise, np.ones(4), found.times)
        expected = values @ kernel_of(without, 0, which)
        np.testing.assert_allclose(found.product(which, values), expected, atol=1e-11)


def exact_moments(found, values):
    """Solve (n,), log-determinant and variances (n,) of one series in 50 digits."""
    with mpmath.workdps(50):
        n = found.n_times
        kernels = [_exact_kernel(found.terms[c], found.times) for c in range(len(found.terms))]
        prior = sum(kernels[1:], kernels[0])
        noisy = prior + mpmath.mpf(found.noise) * mpmath.eye(n)
        inverse = noisy**-1
        solved = inverse * mpmath.matrix(values.tolist())
        determinant = float(mpmath.log(mpmath.det(noisy)))
        left = prior - prior * inverse * prior
        spread = np.array([float(left[t, t]) for t in range(n)])
    return np.array([float(entry) for entry in solved]), determinant, spread


def _exact_kernel(term, times):
    """Covariance of a term of eigenvalue one, Matern or constant, in the present precision."""

    def value(one, other):
        lag = abs(mpmath.mpf(one) - mpmath.mpf(other))
        if isinstance(term.kernel, Constant):
            return mpmath.mpf(term.variance)
        x = lag / mpmath.mpf(term.kernel.lengthscale)
        if isinstance(term.kernel, Matern12):
            return term.variance * mpmath.exp(-x)
        x *= mpmath.sqrt(3)
        return term.variance * (1 + x) * mpmath.exp(-x)

    return mpmath.matrix([[value(one, other) for other in times.tolist()] for one in times])


@pytest.mark.parametrize("scale", [1e-2, 1e3, 1e6])
def test_hard_cases_keep_all_digits(scale):
    """Dense algebra in the same precision is wrong by up to 1e-8 here."""
    found = SeriesFilter(terms_of_steps(scale), 1e-6, np.ones(1), REGULAR[:24])
    values = np.random.default_rng(11).normal(size=24)
    solved, determinant, spread = exact_moments(found, values)
    largest = np.abs(solved).max()
    np.testing.assert_allclose(found.solve(values[None])[0], solved, rtol=0, atol=1e-13 * largest)
    assert found.log_determinants[0] == pytest.approx(determinant, rel=1e-13)
    np.testing.assert_allclose(found.variances()[1, 0], spread, rtol=1e-12)


def test_times_next_to_each_other_keep_their_digits():
    times = np.sort(np.concatenate([REGULAR[:12], REGULAR[:12] + 1e-9]))
    found = SeriesFilter(terms_of_steps(20.0), 1e-4, np.ones(1), times)
    values = np.random.default_rng(12).normal(size=24)
    solved, determinant, spread = exact_moments(found, values)
    largest = np.abs(solved).max()
    np.testing.assert_allclose(found.solve(values[None])[0], solved, rtol=0, atol=1e-12 * largest)
    assert found.log_determinants[0] == pytest.approx(determinant, rel=1e-12)
    np.testing.assert_allclose(found.variances()[1, 0], spread, rtol=1e-10)


@pytest.mark.parametrize("noise", [1e-6, 0.05])
def test_a_long_axis_solves_its_own_equations(noise):
    terms = (*terms_of_steps(1e5), Term("graph", Periodic(144.0), 0.5))
    found = SeriesFilter(terms, noise, np.ones(1), 0.5 * np.arange(20_000))
    values = np.random.default_rng(13).normal(size=(1, 20_000))
    solved = found.solve(values)
    every = tuple(range(len(terms)))
    residual = found.product(every, solved) + noise * solved - values
    scale = found.product(every, np.abs(solved))
    assert np.abs(residual / scale).max() < 1e-15


def test_gains_are_kept_until_they_are_stationary():
    times, noise = np.arange(900.0), 0.3
    terms = (Term("graph", Matern32(4.0), 1.0), Term("node", Matern12(9.0), 0.3))
    seen = np.ones(900, dtype=bool)
    seen[850:] = False
    found = SeriesFilter(terms, noise, np.array([0.1, 3.0]), times, seen)
    values = np.random.default_rng(2).normal(size=(2, 900))
    solved, both = found.solve(values), found.variances()
    assert max(len(records) for records in found._gains.records) < 400
    for i in range(2):
        noisy = (kernel_of(found, i) + noise * np.eye(900))[:850, :850]
        np.testing.assert_allclose(
            solved[i, :850], np.linalg.solve(noisy, values[i, :850]), atol=1e-11
        )
        assert found.log_determinants[i] == pytest.approx(np.linalg.slogdet(noisy)[1], rel=1e-12)
        np.testing.assert_allclose(both[1, i], dense_variances(found, i), atol=1e-12)


def test_gains_of_an_axis_whose_step_changes_are_kept_up_to_there():
    times = np.concatenate([np.arange(200.0), 199.0 + 3.0 * np.arange(1, 150)])
    found = SeriesFilter((Term("graph", Matern32(5.0), 1.0),), 0.1, np.ones(1), times)
    values = np.random.default_rng(18).normal(size=(1, times.size))
    noisy = kernel_of(found, 0) + 0.1 * np.eye(times.size)
    np.testing.assert_allclose(
        found.solve(values)[0], np.linalg.solve(noisy, values[0]), rtol=0, atol=1e-12
    )
    assert 200 < len(found._gains.records[0]) < times.size
    np.testing.assert_allclose(found.variances()[1, 0], dense_variances(found, 0), atol=1e-12)


def test_gains_that_settle_slowly_are_kept_longer():
    """A tolerance of 1e-6 instead of 1e-14 would be seen here."""
    found = SeriesFilter((Term("node", Matern12(150.0), 1.0),), 10.0, np.ones(1), np.arange(1500.0))
    values = np.random.default_rng(17).normal(size=(1, 1500))
    assert 300 < len(found._gains.records[0]) < 1500
    noisy = kernel_of(found, 0) + 10.0 * np.eye(1500)
    expected = np.linalg.solve(noisy, values[0])
    np.testing.assert_allclose(found.solve(values)[0], expected, rtol=0, atol=1e-14)
    np.testing.assert_allclose(found.variances()[1, 0], dense_variances(found, 0), rtol=1e-12)
    assert found.log_determinants[0] == pytest.approx(np.linalg.slogdet(noisy)[1], rel=1e-13)


def test_forecasts_at_other_steps_follow_stationary_gains():
    terms = (Term("graph", Matern32(4.0), 1.0), Term("graph", Constant(), 0.5))
    found = SeriesFilter(terms, 0.3, np.array([0.5]), np.arange(400.0))
    longer = found.on(np.array([399.25, 402.0, 402.5, 409.0]))
    assert len(longer._gains.records[0]) < 300
    np.testing.assert_allclose(longer.variances()[1, 0], dense_variances(longer, 0), atol=1e-12)
    values = np.random.default_rng(16).normal(size=(1, 404))
    np.testing.assert_allclose(
        longer.solve(values)[:, :400], found.solve(values[:, :400]), atol=1e-13
    )


def test_gains_after_an_outage_are_computed_anew():
    times = np.arange(500.0)
    seen = np.ones(500, dtype=bool)
    seen[300:310] = False
    found = SeriesFilter((Term("graph", Matern12(5.0), 1.0),), 0.1, np.ones(1), times, seen)
    values = np.random.default_rng(3).normal(size=(1, 500))
    noisy = (kernel_of(found, 0) + 0.1 * np.eye(500))[np.ix_(seen, seen)]
    expected = np.linalg.solve(noisy, values[0, seen])
    np.testing.assert_allclose(found.solve(values)[0, seen], expected, atol=1e-12)


def test_equal_series_have_their_gains_once():
    values = np.random.default_rng(4).normal(size=(5, N))
    found = SeriesFilter(TERMS, 0.1, np.array([0.0, 2.0, 0.0, 0.0, 2.0]), REGULAR)
    assert found._lanes.groups.max() == 1
    alone = SeriesFilter(TERMS, 0.1, np.array([2.0]), REGULAR)
    np.testing.assert_array_equal(found.solve(values)[4], alone.solve(values[4:])[0])
    nodes = SeriesFilter(TERMS[3:], 0.1, np.array([0.0, 1.0, 5.0, 6.0, 7.0]), REGULAR)
    assert found._lanes.groups.max() + len(nodes._lanes.groups) == 2


@pytest.mark.parametrize("size", [1, 7, 60])
def test_covariances_that_are_computed_anew_are_the_same(monkeypatch, size):
    found = made("irregular, unseen")
    expected = found.term_variances()
    monkeypatch.setattr(variances, "KEPT", size * LANES * found._shared.space.n_states**2)
    np.testing.assert_array_equal(found.term_variances(), expected)


@pytest.mark.parametrize("q", [1, 3, 8, 21])
@pytest.mark.parametrize("m", [1, 5])
def test_each_row_is_treated_once_by_a_lane_of_its_kind(q, m):
    eigenvalues = np.random.default_rng(q).integers(0, 1 + q // 2, size=q).astype(float)
    eigenvalues[: q // 2] = 0.0
    lanes, kinds = lanes_of(eigenvalues)
    tasks, groups = lanes.tasks(m)
    used = tasks >= 0
    assert sorted(tasks[used]) == list(range(m * q))
    np.testing.assert_array_equal(
        kinds[lanes.groups[groups]][used], np.tile(eigenvalues, m)[tasks[used]]
    )


def test_many_rows_of_one_series_share_the_lanes():
    lanes, _ = lanes_of(np.ones(1))
    assert len(lanes.tasks(80)[0]) == 10
    lanes, _ = lanes_of(np.concatenate([np.zeros(80), np.arange(1.0, 9.0)]))
    assert len(lanes.tasks(1)[0]) == 11


def test_steps_that_differ_by_rounding_are_one_step():
    lengths, steps = distinct_steps(1e9 + 0.1 * np.arange(1000))
    np.testing.assert_allclose(lengths, [0.1], rtol=1e-7)
    assert not steps.any()
    lengths, steps = distinct_steps(IRREGULAR)
    np.testing.assert_allclose(lengths[steps[:-1]], np.diff(IRREGULAR), rtol=1e-12)
    assert distinct_steps(np.array([0.0, 1.0, 2.0, 4.0, 5.0]))[0].tolist() == [1.0, 2.0]


def test_one_time_and_one_series():
    found = SeriesFilter((Term("graph", Matern32(1.0), 2.0),), 0.5, np.array([1.5]), np.zeros(1))
    assert found.solve(np.ones((1, 1)))[0, 0] == pytest.approx(1 / 3.5)
    assert found.log_determinants[0] == pytest.approx(np.log(3.5))
    np.testing.assert_allclose(found.variances()[:, 0, 0], 3.0 - 9.0 / 3.5)
    assert found.product((0,), np.ones((1, 1)))[0, 0] == pytest.approx(2.0)


def test_a_longer_axis_leaves_the_solve_as_it_is():
    found = SeriesFilter(TERMS, 0.1, EIGENVALUES, IRREGULAR, SOMEWHERE)
    further = np.concatenate([IRREGULAR[::7], IRREGULAR[:-1] + 1e-3, IRREGULAR[-1] + [1.0, 50.0]])
    longer = found.on(further)
    places = np.searchsorted(longer.times, IRREGULAR)
    assert set(further) <= set(longer.times)
    values = np.random.default_rng(6).normal(size=(4, N))
    spread = np.full((4, longer.n_times), np.nan)
    spread[:, places] = values
    solved = longer.solve(spread)
    np.testing.assert_allclose(solved[:, places], found.solve(values), atol=1e-12)
    np.testing.assert_allclose(longer.log_determinants, found.log_determinants, rtol=1e-12)
    np.testing.assert_allclose(longer.variances()[..., places], found.variances(), atol=1e-12)
    for i in range(4):
        np.testing.assert_allclose(longer.variances()[1, i], dense_variances(longer, i), atol=1e-12)


@pytest.mark.parametrize("times", [REGULAR, IRREGULAR], ids=["regular", "irregular"])
def test_draws_have_the_covariance(times):
    found = SeriesFilter(TERMS, 0.1, EIGENVALUES, times[:20])
    which, n_draws = (0, 2, 3, 4), 5000
    draws = found.sample(which, np.random.default_rng(7), n_draws // 4)
    assert draws.shape == (n_draws // 4, 4, 20)
    flat = draws.reshape(-1, 20)
    without = SeriesFilter(TERMS, 0.1, np.ones(1), times[:20])
    expected = kernel_of(without, 0, which)
    variance = np.diag(expected)
    # Standard error of each entry of the covariance, and of the mean.
    error = np.sqrt((np.outer(variance, variance) + expected**2) / n_draws)
    assert np.abs((flat.T @ flat / n_draws - expected) / error).max() < 5.0
    assert np.abs(flat.mean(axis=0) / np.sqrt(variance / n_draws)).max() < 5.0


def test_products_and_draws_take_any_number_of_rows():
    found = made("irregular")
    values = np.random.default_rng(14).normal(size=(2, 3, 5, N))
    expected = values @ kernel_of(SeriesFilter(TERMS, 0.1, np.ones(1), IRREGULAR), 0, (0, 1))
    np.testing.assert_allclose(found.product((0, 1), values), expected, atol=1e-11)
    assert found.product((0,), values[0, 0, :0]).shape == (0, N)
    assert found.sample((0, 1), np.random.default_rng(15), 2, 7).shape == (2, 7, N)
    assert found.sample((0, 1), np.random.default_rng(15), 2, 0).shape == (2, 0, N)


def test_a_constant_is_drawn_once_for_all_times():
    found = SeriesFilter((Term("node", Constant(), 4.0),), 0.1, EIGENVALUES, REGULAR)
    draws = found.sample((0,), np.random.default_rng(8), 500)
    assert np.ptp(draws, axis=2).max() == 0.0
    assert draws[..., 0].std() == pytest.approx(2.0, abs=5 * 2.0 / np.sqrt(2 * 2000))


def test_draws_depend_on_the_seed_alone(monkeypatch):
    found = SeriesFilter(TERMS, 0.1, EIGENVALUES, REGULAR)
    once = found.sample((0, 1), np.random.default_rng(9), 3)
    monkeypatch.setattr(filters, "DRAWN_AT_ONCE", 1)
    np.testing.assert_array_equal(found.sample((0, 1), np.random.default_rng(9), 3), once)


def test_any_number_of_threads_gives_the_same_bits(monkeypatch):
    values = np.random.default_rng(10).normal(size=(2, 4, N))
    results = []
    for n_threads in (1, 4):
        monkeypatch.setattr(compiled, "_number_of_threads", lambda n=n_threads: n)
        found = made("irregular, unseen")
        results.append((found.solve(values), found.variances(), found.product((0, 1), values)))
    for one, other in zip(results[0], results[-1], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"terms": ()}, "terms: expected"),
        ({"terms": (Matern12(),)}, "terms: expected"),
        ({"noise": 0.0}, "noise: expected"),
        ({"noise": np.nan}, "noise: expected"),
        ({"eigenvalues": np.array([1.0, -0.1])}, "eigenvalues: expected numbers >= 0"),
        ({"eigenvalues": np.ones((2, 2))}, "eigenvalues: expected"),
        ({"times": np.array([0.0, 1.0, 1.0])}, "times: expected rising"),
        ({"times": np.array([0.0, np.nan])}, "times: expected finite"),
        ({"seen": np.ones(3, dtype=bool)}, "seen: expected 60"),
        ({"seen": np.ones(60)}, "seen: expected 60"),
        ({"seen": np.zeros(60, dtype=bool)}, "seen: expected an observation"),
    ],
)
def test_what_makes_no_filter_is_refused(arguments, message):
    given = {"terms": TERMS, "noise": 0.1, "eigenvalues": EIGENVALUES, "times": REGULAR}
    with pytest.raises(InvalidInputError, match=message):
        SeriesFilter(**(given | arguments))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Term("edge", Matern12(), 1.0), "where: expected"),
        (lambda: Term("node", "matern-1/2", 1.0), "kernel: expected a TimeKernel"),
        (lambda: Term("node", Matern12(), -1.0), "variance: expected"),
        (lambda: made("regular").solve(np.ones((4, N - 1))), "values: expected shape"),
        (lambda: made("regular").product((0,), np.ones(N)), "values: expected rows"),
        (lambda: made("regular").product((5,), np.ones((4, N))), "which: expected"),
        (lambda: made("regular").sample((-1,), np.random.default_rng(0), 1), "which: expected"),
    ],
)
def test_what_is_no_argument_is_refused(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_rounding_below_zero_of_eigenvalues_counts_as_zero(scale):
    found = SeriesFilter(TERMS, 0.1, scale * np.array([-1e-12, 1.0]), REGULAR)
    np.testing.assert_array_equal(found.eigenvalues, [0.0, scale])
    with pytest.raises(InvalidInputError, match="values: "):
        SeriesFilter(TERMS, 0.1, scale * np.array([-1e-3, 1.0]), REGULAR)


def test_gains_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr("coupledgp.ground.memory.UNASKED", 0)
    monkeypatch.setattr("coupledgp.ground.memory.available_bytes", lambda: 1e3)
    with pytest.raises(MemoryLimitError, match="gains of 8 series at 60 times"):
        made("irregular").log_determinants  # noqa: B018
