"""The graph regressors: conventions, units, twins, and agreement of fast and exact paths."""

import networkx as nx
import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

from coupledgp import ExactGraphGPRegressor, GraphGPRegressor
from coupledgp.diagnostics import gaussian_kl
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.graphs import Graph
from coupledgp.graphs.estimator import AUTO_KERNELS
from coupledgp.graphs.process import NodeGP
from coupledgp.graphs.recipes import MAX_HOPS
from coupledgp.ground.parameters import folded
from coupledgp.kernels import HeatKernel, RegularizedLaplacianKernel, dense_kernel
from tests.graph_cases import karate, weighted_graph

CIRCLE = 60


def ring() -> Graph:
    """A ring with chords: smooth signals are easy on it."""
    k = np.arange(CIRCLE)
    return Graph.from_edges(np.tile(k, 2), np.concatenate([(k + 1) % CIRCLE, (k + 2) % CIRCLE]))


def signal() -> np.ndarray:
    noise = 0.05 * np.random.default_rng(0).standard_normal(CIRCLE)
    return 7.0 + 3.0 * np.sin(2 * np.pi * np.arange(CIRCLE) / CIRCLE) + noise


TRAIN = np.flatnonzero(np.arange(CIRCLE) % 5 != 2)
TEST = np.flatnonzero(np.arange(CIRCLE) % 5 == 2)


@pytest.fixture(scope="module")
def fitted() -> GraphGPRegressor:
    gp = GraphGPRegressor(ring(), "heat", random_state=0, hyperparameters="maximum")
    return gp.fit(TRAIN, signal()[TRAIN])


def test_defaults_agree_with_the_exact_model(fitted: GraphGPRegressor) -> None:
    exact = ExactGraphGPRegressor(ring(), "heat", hyperparameters="maximum")
    exact.fit(TRAIN, signal()[TRAIN])
    assert fitted.kernel_.time == pytest.approx(exact.kernel_.time, rel=0.2)
    mean, std = fitted.predict(TEST, return_std=True)
    exact_mean, exact_std = exact.predict(TEST, return_std=True)
    np.testing.assert_allclose(mean, exact_mean, atol=0.02)
    np.testing.assert_allclose(std, exact_std, rtol=0.05)
    assert np.sqrt(np.mean((mean - signal()[TEST]) ** 2)) < 0.15
    assert fitted.converged_
    assert fitted.plan_.predicted_error <= 1e-3
    assert fitted.truncation_.relative < 1e-3
    assert fitted.score(TEST, signal()[TEST]) > 0.99


def test_exact_twin_has_the_same_hyperparameters_and_data(fitted: GraphGPRegressor) -> None:
    twin = fitted.exact_twin()
    assert twin.kernel_ == fitted.kernel_
    assert twin.outputscale_ == pytest.approx(fitted.outputscale_)
    assert twin.noise_ == pytest.approx(fitted.noise_)
    assert twin.exact_twin() is twin
    np.testing.assert_allclose(twin.predict(TEST), fitted.predict(TEST), atol=0.02)


def test_evidence_is_of_y_in_original_units() -> None:
    y = signal()[TRAIN]
    gp = ExactGraphGPRegressor(ring(), hyperparameters="maximum").fit(TRAIN, y)
    A = gp.prior_covariance(TRAIN) + gp.noise_ * np.eye(TRAIN.size)
    expected = stats.multivariate_normal(np.full(y.size, y.mean()), A).logpdf(y)
    assert gp.log_marginal_likelihood_value_ == pytest.approx(expected, rel=1e-6)
    assert gp.log_marginal_likelihood_error_ == 0.0


@pytest.mark.parametrize("model", [GraphGPRegressor, ExactGraphGPRegressor])
def test_no_optimizer_keeps_the_given_hyperparameters(model: type) -> None:
    y = signal()[TRAIN]
    gp = model(ring(), HeatKernel(5.0), optimizer=None, outputscale=2.0, noise=0.01)
    gp.fit(TRAIN, y)
    assert gp.kernel_ == HeatKernel(5.0)
    assert gp.outputscale_ == pytest.approx(2.0 * y.var())
    assert gp.noise_ == pytest.approx(0.01 * y.var())
    fixed = model(ring(), HeatKernel(5.0), options={"fixed": ("kernel", "noise")}, noise=0.02).fit(
        TRAIN, y
    )
    assert fixed.kernel_ == HeatKernel(5.0)
    assert fixed.noise_ == pytest.approx(0.02 * y.var())


@pytest.mark.parametrize("model", [GraphGPRegressor, ExactGraphGPRegressor])
@pytest.mark.parametrize("solver", ["dense", "iterative"])
def test_predictions_are_those_of_the_formula(model: type, solver: str) -> None:
    y = signal()[TRAIN]
    gp = model(
        ring(),
        HeatKernel(5.0),
        optimizer=None,
        outputscale=2.0,
        noise=0.01,
        solver=solver,
        random_state=0,
    ).fit(TRAIN, y)
    every = gp.prior_covariance()
    A = every[np.ix_(TRAIN, TRAIN)] + gp.noise_ * np.eye(TRAIN.size)
    cross = every[np.ix_(TEST, TRAIN)]
    mean = y.mean() + cross @ np.linalg.solve(A, y - y.mean())
    cov = every[np.ix_(TEST, TEST)] - cross @ np.linalg.solve(A, cross.T)
    found, latent_cov = gp.predict(TEST, return_cov=True, latent=True)
    np.testing.assert_allclose(found, mean, atol=1e-4)
    np.testing.assert_allclose(latent_cov, cov, atol=1e-4)
    _, with_noise = gp.predict(TEST, return_cov=True)
    np.testing.assert_allclose(with_noise - latent_cov, gp.noise_ * np.eye(TEST.size), atol=1e-12)
    _, std = gp.predict(TEST, return_std=True)
    np.testing.assert_allclose(std**2, np.diag(with_noise), rtol=1e-4)
    draws = gp.sample_y(TEST, 4000, random_state=1)
    error = std / np.sqrt(4000)
    assert (np.abs(draws.mean(axis=1) - mean) < 6 * error + 1e-4).all()
    np.testing.assert_allclose(draws.std(axis=1), std, rtol=6 / np.sqrt(2 * 4000))


@pytest.mark.long
def test_iterative_fit_comes_near_the_dense_one() -> None:
    y = signal()[TRAIN]
    settings = {"kernel": "heat", "hyperparameters": "maximum", "random_state": 0}
    dense = ExactGraphGPRegressor(ring(), **folded(ExactGraphGPRegressor, settings)).fit(TRAIN, y)
    iterative = ExactGraphGPRegressor(
        ring(),
        **folded(
            ExactGraphGPRegressor,
            dict(method="series", solver="iterative", options={"n_probes": 64}, **settings),
        ),
    ).fit(TRAIN, y)
    np.testing.assert_allclose(iterative.predict(TEST), dense.predict(TEST), atol=0.1)
    assert iterative.log_marginal_likelihood_error_ > 0


def test_many_standard_deviations_come_from_samples() -> None:
    settings = {"optimizer": None, "noise": 0.01, "random_state": 0, "solver": "iterative"}
    exact = GraphGPRegressor(ring(), HeatKernel(5.0), **folded(GraphGPRegressor, settings)).fit(
        TRAIN, signal()[TRAIN]
    )
    sampled = GraphGPRegressor(
        ring(),
        HeatKernel(5.0),
        **folded(
            GraphGPRegressor,
            dict(options={"exact_variances": 0, "n_variance_samples": 2000}, **settings),
        ),
    ).fit(TRAIN, signal()[TRAIN])
    std, near = (gp.predict(TEST, return_std=True)[1] for gp in (exact, sampled))
    np.testing.assert_allclose(near, std, rtol=6 / np.sqrt(2 * 2000))


@pytest.mark.parametrize(
    "kernel", ["regularized-laplacian", "matern", "random-walk", "inverse-cosine", "learned"]
)
def test_every_kernel_fits_and_agrees_with_its_twin(kernel: str) -> None:
    gp = GraphGPRegressor(ring(), kernel, random_state=0).fit(TRAIN, signal()[TRAIN])
    mean, std = gp.predict(TEST, return_std=True)
    twin_mean, twin_std = gp.exact_twin().predict(TEST, return_std=True)
    assert (np.abs(mean - twin_mean) < 0.2 * twin_std).all()
    np.testing.assert_allclose(std, twin_std, rtol=0.1)


def test_the_papers_estimator_is_one_call() -> None:
    gp = GraphGPRegressor(
        karate(),
        coupling="sigma",
        options={"length_law": "geometric"},
        exact_hops=0,
        random_state=0,
    ).fit(range(0, 34, 2), np.arange(17.0))
    assert gp.plan_.n_hops == 0
    assert gp.predict().shape == (34,)


def test_same_seed_same_fit_and_labels_are_accepted() -> None:
    graph = Graph.from_edges(list("abcde"), list("bcdea"))
    fits = [
        GraphGPRegressor(graph, exact_hops=1, random_state=3).fit(["a", "c", "d"], [1.0, 2.0, 0.5])
        for _ in range(2)
    ]
    np.testing.assert_array_equal(fits[0].predict(), fits[1].predict())
    assert fits[0].predict(["b"]).shape == (1,)
    assert fits[0].nodes_ == ["a", "c", "d"]


def test_repeated_observations_and_isolated_nodes() -> None:
    gp = GraphGPRegressor(weighted_graph(), optimizer=None, random_state=0)
    gp.fit([0, 0, 1, 8], [1.0, 1.2, 0.9, -1.0])
    mean, std = gp.predict([13, 0], return_std=True, latent=True)
    assert mean[0] == pytest.approx(np.mean([1.0, 1.2, 0.9, -1.0]))
    assert std[0] == pytest.approx(np.sqrt(gp.outputscale_), rel=2e-3)
    assert std[1] < std[0]


@pytest.mark.parametrize("kernel", ["heat", "matern"])
def test_nothing_is_known_of_a_node_alone(kernel: str) -> None:
    """A wide kernel left it hardly any prior variance: the surest prediction of the graph."""
    start = np.arange(CIRCLE)
    ends = np.tile(start, 2), np.concatenate([(start + 1) % CIRCLE, (start + 2) % CIRCLE])
    pair, alone = CIRCLE + 1, CIRCLE + 2
    graph = Graph.from_edges(
        np.append(ends[0], CIRCLE), np.append(ends[1], CIRCLE + 1), n_nodes=CIRCLE + 3
    )
    for make in (GraphGPRegressor, ExactGraphGPRegressor):
        gp = make(graph, kernel, random_state=0, hyperparameters="maximum")
        gp.fit(TRAIN, signal()[TRAIN])
        std = gp.predict(return_std=True, latent=True)[1]
        assert std[alone] == pytest.approx(np.sqrt(gp.outputscale_), rel=2e-3)
        assert std[alone] > std[pair] > 3 * std[:CIRCLE].max()
        own = gp.prior_covariance([alone, pair, 0])
        np.testing.assert_allclose(own[0] / gp.outputscale_, [1.0, 0.0, 0.0], atol=4e-3)


@pytest.mark.parametrize("make", [GraphGPRegressor, ExactGraphGPRegressor])
@pytest.mark.parametrize("y", [[0.1] * 4, [[0.1, 5.0]] * 4, [0.1]])
def test_constant_targets_keep_the_default_scales(make, y) -> None:  # type: ignore[no-untyped-def]
    """They have no scale to learn: a fit would end with no variance at all, sure of everything."""
    gp = make(karate(), random_state=0).fit([0, 1, 2, 5][: len(y)], y)
    mean, std = gp.predict(return_std=True)
    np.testing.assert_allclose(mean - np.asarray(y[0]), 0.0, atol=1e-12)
    np.testing.assert_allclose(gp.outputscale_, 1.0)
    np.testing.assert_allclose(gp.noise_, 0.1)
    assert gp.kernel_ == HeatKernel()
    assert std.min() > np.sqrt(0.1)
    assert (gp.n_rounds_, gp.converged_) == (0, True)


@pytest.mark.long
def test_a_kernel_as_wide_as_a_fit_allows_is_computed_not_walked() -> None:
    """With too few hops the default walked thousands of steps a walker, and drew them anew."""
    kernel = RegularizedLaplacianKernel(1e4)
    settings = {"optimizer": None, "outputscale": 3e3, "noise": 1e-3, "normalize_y": False}
    gp = GraphGPRegressor(
        ring(), kernel, **folded(GraphGPRegressor, dict(random_state=0, **settings))
    ).fit(TRAIN, signal()[TRAIN])
    assert gp.plan_.predicted_error <= 1e-3
    assert gp.plan_.n_hops > 512
    mean, cov = gp.predict(TEST, return_cov=True)
    expected, covariance = gp.exact_twin().predict(TEST, return_cov=True)
    assert gaussian_kl(expected, covariance, mean, cov) < 1e-4 * TEST.size


@pytest.mark.parametrize("hops", [700, MAX_HOPS])
def test_many_hops_lose_no_digits(hops: int) -> None:
    """Factors of the last hops are as small as 2^-960."""
    kernel = RegularizedLaplacianKernel(300.0)
    gp = GraphGPRegressor(ring(), kernel, exact_hops=hops, optimizer=None, random_state=0)
    gp.fit(TRAIN, signal()[TRAIN])
    own = gp.prior_covariance()
    expected = gp.outputscale_ * dense_kernel(ring(), kernel)
    np.testing.assert_allclose(own, expected, rtol=0, atol=3e-6 * gp.outputscale_)


@pytest.mark.long
def test_iterative_fits_compare_families_too() -> None:
    """They fitted the heat kernel alone whatever the data say."""
    x = np.abs(np.arange(CIRCLE) - 20) / CIRCLE  # a kink: no heat kernel's function
    y = x + 0.01 * np.random.default_rng(1).standard_normal(CIRCLE)
    settings = {"solver": "iterative", "random_state": 0}
    auto = ExactGraphGPRegressor(ring(), **folded(ExactGraphGPRegressor, settings)).fit(
        TRAIN, y[TRAIN]
    )
    each = {
        name: ExactGraphGPRegressor(ring(), name, **folded(ExactGraphGPRegressor, settings)).fit(
            TRAIN, y[TRAIN]
        )
        for name in AUTO_KERNELS
    }
    best = max(each.values(), key=lambda gp: gp.log_marginal_likelihood_value_)
    assert best.kernel_ != each["heat"].kernel_
    assert auto.kernel_ == best.kernel_
    assert auto.n_rounds_ == sum(gp.n_rounds_ for gp in each.values())


def test_targets_that_are_no_numbers_are_named() -> None:
    with pytest.raises(InvalidInputError, match=r"y: expected numbers, got .*'fast'"):
        GraphGPRegressor(karate()).fit([0, 1], ["fast", "slow"])


def test_clone_and_parameters_follow_scikit_learn() -> None:
    for model in (GraphGPRegressor(karate(), n_walks=5), ExactGraphGPRegressor(karate())):
        copy = clone(model)
        assert copy.graph is model.graph
        assert str(copy.get_params()) == str(model.get_params())


def test_bad_arguments_are_refused() -> None:
    graph = karate()
    bad = [
        ({"n_walks": 0}, "n_walks"),
        ({"coupling": "x"}, "coupling"),
        ({"kernel": "rbf"}, "kernel"),
        ({"exact_hops": -1}, "exact_hops"),
        ({"length_law": "poisson"}, "length_law"),
        ({"solver": "magic"}, "solver"),
        ({"optimizer": "adam"}, "optimizer"),
        ({"fixed": ("gamma",)}, "fixed"),
        ({"noise": -1.0, "optimizer": None}, "noise"),
        ({"random_state": "x"}, "random_state"),
    ]
    for settings, name in bad:
        with pytest.raises(InvalidInputError, match=name):
            GraphGPRegressor(graph, **folded(GraphGPRegressor, settings)).fit([0, 1], [1.0, 2.0])
    with pytest.raises(InvalidInputError, match="y: expected 2 values to match nodes, got 1"):
        GraphGPRegressor(graph).fit([0, 1], [1.0])
    with pytest.raises(InvalidInputError, match="finite"):
        GraphGPRegressor(graph).fit([0, 1], [1.0, np.nan])
    with pytest.raises(InvalidInputError, match=r"coupledgp\.Graph"):
        GraphGPRegressor(np.eye(3)).fit([0, 1], [1.0, 2.0])
    gp = ExactGraphGPRegressor(graph).fit([0, 1], [1.0, 2.0])
    with pytest.raises(InvalidInputError, match="at most one"):
        gp.predict(return_std=True, return_cov=True)
    with pytest.raises(InvalidInputError, match="nodes"):
        gp.predict([99])


def test_auto_takes_the_family_of_greatest_evidence() -> None:
    y = signal()[TRAIN]
    names = ("heat", "regularized-laplacian", "matern")
    each = [ExactGraphGPRegressor(ring(), name).fit(TRAIN, y) for name in names]
    best = max(each, key=lambda gp: gp.log_marginal_likelihood_value_)
    found = ExactGraphGPRegressor(ring()).fit(TRAIN, y)
    assert found.kernel_ == best.kernel_
    assert found.log_marginal_likelihood_value_ == pytest.approx(
        best.log_marginal_likelihood_value_
    )
    assert found.n_evaluations_ > best.n_evaluations_


@pytest.mark.parametrize("model", [GraphGPRegressor, ExactGraphGPRegressor])
@pytest.mark.parametrize("solver", ["dense", "iterative"])
def test_outputs_are_independent_and_share_hyperparameters(model: type, solver: str) -> None:
    rng = np.random.default_rng(1)
    Y = np.column_stack([signal(), 0.1 * rng.standard_normal(CIRCLE) - 3.0])[TRAIN]
    settings = {"optimizer": None, "outputscale": 2.0, "noise": 0.05, "random_state": 0}
    settings["solver"] = solver
    both = model(ring(), HeatKernel(5.0), **settings).fit(TRAIN, Y)
    mean, std = both.predict(TEST, return_std=True)
    cov = both.predict(TEST, return_cov=True)[1]
    total = 0.0
    for k in range(2):
        one = model(ring(), HeatKernel(5.0), **settings).fit(TRAIN, Y[:, k])
        alone, alone_cov = one.predict(TEST, return_cov=True)
        np.testing.assert_allclose(mean[:, k], alone, rtol=1e-5)
        np.testing.assert_allclose(cov[..., k], alone_cov, atol=1e-4 * alone_cov.max())
        np.testing.assert_allclose(std[:, k] ** 2, np.diag(alone_cov), rtol=1e-3)
        assert both.noise_[k] == pytest.approx(one.noise_)
        assert both.prior_covariance(TEST)[..., k] == pytest.approx(one.prior_covariance(TEST))
        total += one.log_marginal_likelihood_value_
    assert both.log_marginal_likelihood_value_ == pytest.approx(total, abs=0.1)
    draws = both.sample_y(TEST, 500, random_state=0)
    assert draws.shape == (TEST.size, 2, 500)
    assert (np.abs(draws.mean(axis=2) - mean) < 6 * std / np.sqrt(500) + 1e-4).all()
    assert both.y_train_.shape == Y.shape
    assert both.exact_twin().predict(TEST).shape == (TEST.size, 2)


def test_outputs_are_fitted_together() -> None:
    Y = np.column_stack([signal(), -2.0 * signal()])[TRAIN]
    same = {"kernel": "heat", "random_state": 0, "hyperparameters": "maximum"}
    both = GraphGPRegressor(ring(), **folded(GraphGPRegressor, same)).fit(TRAIN, Y)
    one = GraphGPRegressor(ring(), **folded(GraphGPRegressor, same)).fit(TRAIN, Y[:, 0])
    # Copies of one signal: the same best hyperparameters, twice the evidence but for the units.
    assert both.kernel_.time == pytest.approx(one.kernel_.time, rel=1e-2)
    np.testing.assert_allclose(both.predict(TEST)[:, 0], one.predict(TEST), rtol=1e-3)


def test_blocks_of_solves_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"optimizer": None, "noise": 0.05, "solver": "iterative", "exact_variances": 99}
    gp = ExactGraphGPRegressor(
        ring(), HeatKernel(5.0), **folded(ExactGraphGPRegressor, settings)
    ).fit(TRAIN, signal()[TRAIN])
    whole = gp.predict(TEST, return_cov=True)[1]
    std = gp.predict(TEST, return_std=True)[1]
    monkeypatch.setattr("coupledgp.graphs.posterior.BLOCK", 5)
    np.testing.assert_allclose(gp.predict(TEST, return_cov=True)[1], whole, atol=1e-6)
    np.testing.assert_allclose(gp.predict(TEST, return_std=True)[1], std, rtol=1e-5)


@pytest.mark.long
def test_a_joint_law_too_large_for_memory_is_refused() -> None:
    graph = Graph.from_edges([0, 1], [1, 2], n_nodes=300_000)
    gp = GraphGPRegressor(graph, HeatKernel(1.0), optimizer=None, random_state=0)
    gp.fit([0, 1], [1.0, 2.0])
    with pytest.raises(InvalidInputError, match="joint law of 300000 nodes need about"):
        gp.predict(return_cov=True)


@pytest.mark.long
def test_walkers_stay_hidden_behind_the_noise_without_the_whole_evidence():
    """Rounds of the iterative solver learn the noise late; the hops have to follow it."""
    graph = Graph.from_networkx(nx.grid_2d_graph(12, 12))
    nodes = np.random.default_rng(0).permutation(144)[:80]
    y = np.array([np.sin(a / 4) + b / 10 for a, b in graph.label_all(nodes)])
    y += 0.0003 * np.random.default_rng(1).normal(size=80)
    gp = GraphGPRegressor(graph, kernel="heat", solver="iterative", random_state=0)
    gp.fit(graph.label_all(nodes), y)
    mean = np.diagonal(dense_kernel(graph, gp.kernel_)).mean()
    share = gp.noise_ / (gp.outputscale_ * mean)
    assert share < 1e-2
    assert gp.plan_.predicted_error < 0.012 * np.sqrt(share)


def test_a_fit_forgets_the_one_before_and_a_failed_one_changes_nothing(monkeypatch) -> None:
    graph = karate()
    nodes, y = list(range(20)), np.sin(np.arange(20.0))
    gp = GraphGPRegressor(
        graph, HeatKernel(2.0), n_walks="auto", options={"kl_target": 5.0}, random_state=0
    )
    gp.fit(nodes, y)
    assert gp.kl_per_point_ < 5.0
    gp.set_params(n_walks=4).fit(nodes, y)
    assert not hasattr(gp, "selection_")
    before = vars(gp).copy()

    def fail(*args):
        raise NumericalError("as if")

    monkeypatch.setattr(NodeGP, "given", fail)
    with pytest.raises(NumericalError, match="as if"):
        gp.fit(nodes[:9], y[:9])
    assert vars(gp) == before
