"""Walker couplings: every walker alone keeps the law of a simple random walk."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from coupledgp.couplings import (
    AntitheticLengths,
    GeometricLaw,
    IidLengths,
    IndependentSteps,
    MatchedLaw,
    MultiSigmaLengths,
    RepellingSteps,
    SigmaLengths,
    StratifiedLengths,
    SystematicSteps,
    WalkerCoupling,
    available_walker_couplings,
    parse_walker_coupling,
    register_lengths,
    register_steps,
    solve_sigma,
)
from coupledgp.couplings.walkers import registry
from coupledgp.couplings.walkers import sigma as solver
from coupledgp.couplings.walkers.registry import LENGTHS
from coupledgp.couplings.walkers.steps import Steps, deal
from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.features import sample_walks
from coupledgp.graphs import Graph
from coupledgp.graphs.walk_visits import paths
from coupledgp.ground.counter import LengthUniforms
from coupledgp.kernels import HeatKernel
from coupledgp.random import FloatArray
from coupledgp.testing.checks import require_law
from tests.graph_cases import assert_mean_is, blocks, copies, plain_graph, weighted_graph
from tests.registries import forgotten

ALL_STEPS = [IndependentSteps(), RepellingSteps(), SystematicSteps()]


@pytest.mark.parametrize("steps", ALL_STEPS, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("graph", [plain_graph(), weighted_graph()], ids=repr)
def test_every_walker_visits_nodes_as_a_simple_random_walk(graph: Graph, steps: Steps) -> None:
    start, n_draws, n_walks = 0, 500, 4
    lengths = np.array([3, 3, 2, 3])
    walked = [paths(seed, start, lengths, steps, graph) for seed in range(n_draws)]
    move = graph.adjacency.toarray()
    move[13, 13] = 1.0
    move /= move.sum(axis=1, keepdims=True)
    for walker, step in itertools.product(range(n_walks), (1, 2, 3)):
        if step > lengths[walker]:
            continue
        visited = np.array([path[walker][step] for path in walked])
        chances = np.linalg.matrix_power(move, step)[start]
        require_law(np.bincount(visited, minlength=graph.n_nodes), chances, f"{walker}, {step}")


def test_repelling_walkers_take_distinct_neighbours() -> None:
    graph = plain_graph()
    walked = paths(0, 0, np.ones(5, int), RepellingSteps(), graph)
    assert sorted(path[1] for path in walked) == [1, 2, 3, 4, 5]


WEIGHTS = [
    np.array([0.3, 1.0, 0.1, 2.5, 0.7, 0.7, 0.05]),
    np.array([8.0, 0.1, 0.2, 5.0]),
    np.array([1.0, 1.0, 2.0]),
    np.array([3.0]),
]


@pytest.mark.parametrize("steps", ALL_STEPS, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
@pytest.mark.parametrize("n_walks", [2, 3])
def test_every_walker_of_a_group_has_the_weights_law(
    weights: np.ndarray, steps: Steps, n_walks: int, rng: np.random.Generator
) -> None:
    chances = weights / weights.sum()
    u = rng.random((4000, 2, n_walks))
    drawn = np.array([steps.choose(draw, weights.size, weights) for draw in u])
    for walker in range(n_walks):
        require_law(np.bincount(drawn[:, walker], minlength=weights.size), chances, "walker")
    if not isinstance(steps, IndependentSteps):
        counts = np.stack([(drawn == place).sum(axis=1) for place in range(weights.size)], axis=1)
        assert np.abs(counts - n_walks * chances).max() < 1 + 1e-9


def test_dealing_makes_every_permutation_equally_often(rng: np.random.Generator) -> None:
    dealt = [tuple(deal(rng.random(3)).tolist()) for _ in range(6000)]
    kinds = list(itertools.permutations(range(3)))
    counts = np.array([dealt.count(kind) for kind in kinds])
    require_law(counts, np.full(6, 1 / 6), "permutations")


def test_repelling_pairs_on_a_weighted_graph_part_where_they_can(
    rng: np.random.Generator,
) -> None:
    weights = np.array([0.2, 0.3, 0.1, 0.4])  # two walkers: no chance above one half
    drawn = [RepellingSteps().choose(rng.random((2, 2)), 4, weights) for _ in range(500)]
    assert all(pair[0] != pair[1] for pair in drawn)


@pytest.fixture
def _restored_registries() -> Iterator[None]:
    with forgotten(registry.LENGTHS, registry.STEPS):
        yield


class MirroredSteps(Steps):
    """Pairs of walkers on one node at opposite quantiles, an example of a user's own law."""

    def choose(self, u: FloatArray, degree: int, weights: FloatArray | None) -> np.ndarray:
        v = u[0].copy()
        half = v.size // 2
        v[half : 2 * half] = 1.0 - v[:half]
        return IndependentSteps().choose(v[None, :], degree, weights)


@pytest.mark.usefixtures("_restored_registries")
def test_a_step_law_of_ones_own_runs_by_name() -> None:
    register_steps("mirrored", MirroredSteps)
    assert "stratified+mirrored" in available_walker_couplings()
    assert str(WalkerCoupling(IidLengths(), MirroredSteps())) == "iid+mirrored"
    graph = weighted_graph()
    walks = sample_walks(graph, 4, 0.3, "iid+mirrored", max_length=5, generator=1)
    some = sample_walks(graph, 4, 0.3, "iid+mirrored", max_length=5, nodes=[8, 0], generator=1)
    f = 0.5 ** np.arange(6)
    np.testing.assert_array_equal(some.features(f).toarray(), walks.features(f).toarray()[[8, 0]])
    spread = []
    for coupling in ("iid", "iid+mirrored"):
        walks = sample_walks(copies(graph, 400), 2, 0.1, coupling, max_length=1, generator=2)
        draws = blocks(walks.features(np.array([0.0, 1.0])), 400)
        assert_mean_is(draws, graph.normalized_adjacency.toarray())
        spread.append(draws.var(axis=0).sum())
    assert spread[1] < spread[0]


class BrokenSteps(Steps):
    def choose(self, u: FloatArray, degree: int, weights: FloatArray | None) -> np.ndarray:
        return np.full(u.shape[1], degree)


@pytest.mark.usefixtures("_restored_registries")
def test_the_registry_refuses_names_and_the_engine_bad_laws() -> None:
    register_steps("broken", BrokenSteps)
    for register in (register_steps, register_lengths):
        with pytest.raises(InvalidInputError, match="'systematic' is taken"):
            register("systematic", SystematicSteps)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="without '\\+'"):
            register("a+b", SystematicSteps)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"'broken', 'independent', 'repelling'"):
        parse_walker_coupling("iid+brokn")
    with pytest.raises(CoupledGPError, match=r"BrokenSteps\.choose .* integers from 0 to"):
        sample_walks(plain_graph(), 2, coupling="iid+broken", generator=0)


def test_systematic_walkers_spread_evenly() -> None:
    graph = plain_graph()
    for seed in range(20):
        walked = paths(seed, 0, np.ones(12, int), SystematicSteps(), graph)
        counts = np.bincount([path[1] for path in walked], minlength=6)[1:6]
        assert set(counts) <= {2, 3}


def test_antithetic_pairs_never_halt_together_for_small_p() -> None:
    uniforms = LengthUniforms(0, np.arange(2000), 2)
    drawn = AntitheticLengths().sample(GeometricLaw(0.5), 40, uniforms)
    assert (drawn[:, 0] != drawn[:, 1]).all()


def test_sigma_pairs_lie_in_matched_quantiles() -> None:
    law, sigma = GeometricLaw(0.02), (2, 0, 1)
    drawn = SigmaLengths(permutation=sigma).sample(law, 600, LengthUniforms(0, np.arange(2000), 2))
    edges = law.lengths(np.array([1 / 3, 2 / 3]), 600)
    first, second = (np.searchsorted(edges, drawn[:, k], side="right") for k in (0, 1))
    off_edge = ~np.isin(drawn, edges).any(axis=1)
    np.testing.assert_array_equal(np.array(sigma)[first[off_edge]], second[off_edge])


def test_every_walker_of_multi_sigma_lies_in_its_quantile() -> None:
    law, order = GeometricLaw(0.02), 3
    f = 0.5 ** np.arange(601)
    lengths = MultiSigmaLengths(order).prepare(law, f, 600)
    assert lengths.prepare(law, f, 600) is lengths
    drawn = lengths.sample(law, 600, LengthUniforms(0, np.arange(2000), 4))
    sigma = solver.solve_sigmas(f, law.survival(600), 4, order)
    edges = law.lengths(np.array([1 / 3, 2 / 3]), 600)
    quantiles = np.searchsorted(edges, drawn, side="right")
    off_edge = ~np.isin(drawn, edges).any(axis=1)
    np.testing.assert_array_equal(sigma[:, quantiles[off_edge, 0]].T, quantiles[off_edge])


def test_two_walkers_of_multi_sigma_are_those_of_sigma() -> None:
    law, f = GeometricLaw(0.3), 0.5 ** np.arange(41)
    one, other = (
        lengths.prepare(law, f, 40).sample(law, 40, LengthUniforms(3, np.arange(300), 2))
        for lengths in (SigmaLengths(), MultiSigmaLengths())
    )
    np.testing.assert_array_equal(one, other)


def test_multi_sigma_keeps_the_law_of_each_walker() -> None:
    law, n = GeometricLaw(0.3), 20_000
    lengths = MultiSigmaLengths(7).prepare(law, 0.5 ** np.arange(41), 40)
    drawn = lengths.sample(law, 40, LengthUniforms(1, np.arange(n), 5))
    for t, survival in enumerate(law.survival(40)[:8]):
        error = 4 * np.sqrt(survival * (1 - survival) / n)
        np.testing.assert_allclose((drawn >= t).mean(axis=0), survival, atol=error + 1e-12)


def test_multi_sigma_is_solved_for_a_series() -> None:
    with pytest.raises(InvalidInputError, match="survival: expected that of a series"):
        MultiSigmaLengths().sample(GeometricLaw(0.3), 9, LengthUniforms(1, np.arange(2), 2))


def test_stratified_lengths_use_every_stratum() -> None:
    law = MatchedLaw([1.0, 1.0])  # survival 1, 1/sqrt(2)
    drawn = StratifiedLengths().sample(law, 1, LengthUniforms(0, np.arange(500), 10))
    assert set((drawn == 1).sum(axis=1)) <= {7, 8}


def test_matched_survival_is_the_root_tail_sum() -> None:
    law = MatchedLaw([3.0, 0.0, 4.0])
    np.testing.assert_allclose(law.survival(4), [1.0, 0.8, 0.8, 0.0, 0.0])
    mean = MatchedLaw([[3.0, 0.0, 4.0], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(mean.survival(2), [1.0, 0.4, 0.4])


def test_text_forms_round_trip() -> None:
    assert len(available_walker_couplings()) == 12
    for text in available_walker_couplings():
        assert str(parse_walker_coupling(text)) == text
    with pytest.raises(InvalidInputError, match="did you mean 'sigma'"):
        parse_walker_coupling("sgma")
    with pytest.raises(InvalidInputError, match="WalkerCoupling, got int"):
        parse_walker_coupling(3)


def quantile_setup(order: int) -> tuple[np.ndarray, np.ndarray]:
    f = 0.5 ** (1.0 + np.arange(40))
    graph = solver.erdos_renyi(20, 5.0)
    eigenvalues = np.linalg.eigvalsh(graph.normalized_adjacency.toarray())
    survival = GeometricLaw(0.3).survival(39)
    return solver.quantile_features(f, survival, order, eigenvalues), eigenvalues


def test_quantile_features_average_to_the_series() -> None:
    v, eigenvalues = quantile_setup(6)
    f = 0.5 ** (1.0 + np.arange(40))
    np.testing.assert_allclose(v.mean(axis=0), np.polynomial.polynomial.polyval(eigenvalues, f))


def test_eigenvalue_costs_are_the_matrix_costs() -> None:
    graph = solver.erdos_renyi(12, 4.0)
    matrix = graph.normalized_adjacency.toarray()
    values, vectors = np.linalg.eigh(matrix)
    f, survival = 0.4 ** np.arange(20), GeometricLaw(0.2).survival(19)
    v = solver.quantile_features(f, survival, 4, values)
    features = [vectors @ np.diag(row) @ vectors.T for row in v]
    for a, b in itertools.product(range(4), repeat=2):
        total = features[a] + features[b]
        cost = np.linalg.norm(total @ total.T) ** 2
        assert (solver.pair_vectors(v)[a, b] ** 2).sum() == pytest.approx(cost)
    sigma = np.array([1, 3, 0, 2])
    sums = [features[q] + features[sigma[q]] for q in range(4)]
    quadratic = sum(np.linalg.norm(x @ y.T) ** 2 for x in sums for y in sums)
    assert solver.quadratic_objective(solver.pair_vectors(v), sigma) == pytest.approx(quadratic)


def test_linear_sigma_is_optimal() -> None:
    v, _ = quantile_setup(6)
    cost = (solver.pair_vectors(v) ** 2).sum(axis=-1)
    best = min(
        sum(cost[q, s] for q, s in enumerate(sigma)) for sigma in itertools.permutations(range(6))
    )
    solved = solver.assign(cost)
    assert cost[np.arange(6), solved].sum() == pytest.approx(best)


def test_quadratic_sigma_is_optimal_and_projections_come_near() -> None:
    v, _ = quantile_setup(6)
    vectors = solver.pair_vectors(v)
    values = {
        sigma: solver.quadratic_objective(vectors, np.array(sigma))
        for sigma in itertools.permutations(range(6))
    }
    start = np.arange(6)
    exact = solver.best_permutation(vectors, start)
    assert values[tuple(exact.tolist())] == pytest.approx(min(values.values()))
    near = solver.project_and_assign(vectors, start, 200, np.random.default_rng(0))
    assert values[tuple(near.tolist())] <= 1.1 * min(values.values())
    small = solver.compress(vectors, 200, np.random.default_rng(0))
    compressed = solver.best_permutation(small, start)
    assert values[tuple(compressed.tolist())] <= 1.1 * min(values.values())


def test_each_permutation_is_the_best_given_those_before() -> None:
    f, survival, n = 0.5 ** np.arange(30), GeometricLaw(0.2).survival(29), 5
    graph = plain_graph()
    sigma = solver.solve_sigmas(f, survival, 4, n, graph)
    np.testing.assert_array_equal(sigma[0], np.arange(n))
    np.testing.assert_array_equal(sigma[1], solve_sigma(f, survival, n, graph))
    values = np.linalg.eigvalsh(graph.normalized_adjacency.toarray())
    v = solver.quantile_features(f, survival, n, values)
    for k in range(1, 4):
        before = v[sigma[:k]].sum(axis=0)
        costs = {
            other: ((before + v[list(other)]) ** 4).sum()
            for other in itertools.permutations(range(n))
        }
        assert costs[tuple(sigma[k].tolist())] <= min(costs.values()) * (1 + n * solver.TIE)
    fewer = solver.solved_permutations(f, survival, 3, n, graph)
    np.testing.assert_array_equal(fewer, sigma[:3])


def test_solver_is_cached_and_accepts_a_reference() -> None:
    f, survival = 0.5 ** np.arange(30), GeometricLaw(0.2).survival(29)
    first = solver.solved_permutation(f, survival, 12, None)
    assert solver.solved_permutation(f.copy(), survival.copy(), 12, None) is first
    own = solve_sigma(f, survival, 12, reference=plain_graph())
    assert sorted(own) == list(range(12))
    assert sorted(solve_sigma(f, survival, 12, objective="quadratic", compression=30)) == list(
        range(12)
    )
    with pytest.raises(InvalidInputError, match=r"each of 0\.\.n-1 once"):
        SigmaLengths(permutation=(0, 0))


@pytest.mark.parametrize("name", LENGTHS)
def test_laws_of_lengths_leave_uniforms_as_they_are(name):
    law, series = GeometricLaw(0.3), HeatKernel().modulation(30)
    draws = np.random.default_rng(0).random((32, 5, 4))
    draws.flags.writeable = False
    lengths = LENGTHS[name].prepare(law, series, 30).sample(law, 30, lambda k: draws[k])
    assert lengths.shape == (5, 4)
