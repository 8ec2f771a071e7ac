"""Every process keeps the contract of the protocol, and the contract finds those that do not."""

from dataclasses import dataclass, fields, replace
from functools import cache

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.core.mixture import MixtureGP
from coupledgp.core.problem import RowWeights
from coupledgp.core.process import Data, GaussianProcess
from coupledgp.core.transforms import BoxCox, Logit, YeoJohnson
from coupledgp.ground.parameters import folded
from coupledgp.tables.weight_space import WeightSpaceGP
from coupledgp.testing import ProcessContract
from tests.core.few_steps import take_few_steps

RNG = np.random.default_rng(11)
X, X_MORE, X_TEST = (RNG.normal(size=(n, 2)) for n in (60, 20, 7))
GRAPH = cgp.Graph.from_edges(np.arange(40), (np.arange(40) + 1) % 40)


def targets(X, n_outputs):
    y = np.sin(2 * X[:, :1]) + 0.5 * X[:, 1:] + 0.2 * RNG.normal(size=(len(X), n_outputs))
    return 4.0 + 3.0 * y * (1 + np.arange(n_outputs))


Y = {k: targets(X, k) for k in (1, 2)}
Y_MORE = {k: targets(X_MORE, k) for k in (1, 2)}
WAVE = 1.0 + np.sin(np.arange(40) / 4)[:, None] + 0.1 * RNG.normal(size=(40, 2))
TABLES = {
    "features": {"n_frequencies": 9, "random_state": 3},
    "more features than rows": {"n_frequencies": 64, "random_state": 3},
    "laplace": {"features": "laplace", "n_frequencies": 12, "random_state": 3},
    "single precision": {"n_frequencies": 9, "dtype": "float32", "random_state": 3},
    "units of y": {"n_frequencies": 9, "normalize_y": False, "random_state": 3},
    "fitted spectrum": {
        "n_frequencies": 4, "frequencies": "fitted", "random_state": 3,
    },
}  # fmt: skip
AVERAGED = {
    "n_frequencies": 9, "hyperparameters": "averaged", "n_hyperparameter_draws": 8,
    "random_state": 3,
}  # fmt: skip
GRAPHS = {
    "walks": {"n_walks": 6, "exact_hops": 1, "random_state": 3},
    "walks by solves": {"n_walks": 6, "solver": "iterative", "kernel": "heat", "random_state": 3},
}
METHODS = ["spectral", "series", "cholesky"]
FEW = {"n_hyperparameter_draws": 5, "random_state": 3}


@cache
def process_of_table(name, n_outputs):
    y = Y[n_outputs][:, 0] if n_outputs == 1 else Y[n_outputs]
    settings = {**TABLES, "averaged": AVERAGED}.get(name)
    kind = cgp.ExactGPRegressor if settings is None else cgp.SparseSpectrumGPRegressor
    with pytest.MonkeyPatch.context() as patch:
        take_few_steps(patch)
        return kind(**folded(kind, settings or {"random_state": 3})).fit(X, y).process_


@cache
def process_of_graph(name, n_outputs):
    nodes, y = np.arange(0, 30), WAVE[:30, :n_outputs]
    if name in (*GRAPHS, "averaged"):
        gp = cgp.GraphGPRegressor(
            GRAPH, **folded(cgp.GraphGPRegressor, {**GRAPHS, "averaged": FEW}[name])
        )
    else:
        gp = cgp.ExactGraphGPRegressor(
            GRAPH, "regularized-laplacian", method=name, random_state=3, hyperparameters="maximum"
        )
    return gp.fit(nodes, y[:, 0] if n_outputs == 1 else y).process_


class TestTables(ProcessContract):
    @pytest.fixture(autouse=True, params=[*TABLES, "averaged", "exact"])
    def _choose(self, request, seed):
        for n_outputs in (1, 2):
            self.process = process_of_table(request.param, n_outputs)
        self.points, self.further, self.seed = X_TEST, Data.of(X_MORE, Y_MORE[2]), seed
        self.coupling = None if request.param == "exact" else "orthogonal"
        if request.param == "single precision":
            self.tolerance = 1e-4  # sums in another order round differently


class TestOneOutput(ProcessContract):
    @pytest.fixture(autouse=True, params=["features", "averaged", "exact"])
    def _choose(self, request, seed):
        self.process = process_of_table(request.param, 1)
        self.points, self.further, self.seed = X_TEST, Data.of(X_MORE, Y_MORE[1]), seed
        self.coupling = None if request.param == "exact" else "orthogonal"


WEIGHTS = np.random.default_rng(5).uniform(0.2, 4.0, size=80)


def weighted(X, y, kind, places):
    """Data whose rows count or scatter differently."""
    ones = np.ones(len(y))
    pair = (ones, WEIGHTS[places]) if kind == "counts" else (WEIGHTS[places], ones)
    return Data.of(X, y, weights=RowWeights(*pair))


class TestRowsThatDiffer(ProcessContract):
    @pytest.fixture(
        autouse=True,
        params=["features", "more features than rows", "single precision", "averaged",
                "exact"],
    )  # fmt: skip
    def _choose(self, request, row_kind, seed):
        alike = process_of_table(request.param, 1)
        data = weighted(X, Y[1], row_kind, slice(60))
        self.process = alike.conditioned(data, renormalize=True)
        self.points, self.seed = X_TEST, seed
        self.further = weighted(X_MORE, Y_MORE[1], row_kind, slice(60, 80))
        self.coupling = None if request.param == "exact" else "orthogonal"
        if request.param == "single precision":
            self.tolerance = 1e-4  # sums in another order round differently

    @pytest.fixture(params=["counts", "noise"])
    def row_kind(self, request):
        return request.param

    def test_rows_matter(self):
        alike = self.process.conditioned(Data.of(X, Y[1]))
        assert not np.allclose(self._law(alike)[0], self._law(self.process)[0], rtol=1e-3)

    def test_rows_that_are_alike_may_follow(self):
        plain = Data.of(X_MORE, Y_MORE[1])
        together = self.process.data.followed_by(plain)
        at_once = self.process.conditioned(together, renormalize=True)
        self._require_same_law(self.process.updated(plain), at_once, "updated")
        assert self.process.updated(plain).log_evidence == pytest.approx(
            at_once.log_evidence, rel=10 * self.tolerance
        )


TRANSFORMED = {
    "log": {"target_transform": "log", "n_frequencies": 9, "random_state": 3},
    "box-cox": {
        "target_transform": BoxCox(0.4), "n_frequencies": 64, "random_state": 3,
        "normalize_y": False,
    },
    "yeo-johnson": {"target_transform": YeoJohnson(0.6), "n_frequencies": 9, "random_state": 3},
    "logit": {"target_transform": Logit(-50.0, 500.0), "n_frequencies": 9, "random_state": 3},
    "averaged": {"target_transform": "log", **AVERAGED},
    "exact": {"target_transform": "log"},
}  # fmt: skip


@cache
def process_of_positive_table(name):
    kind = cgp.ExactGPRegressor if name == "exact" else cgp.SparseSpectrumGPRegressor
    return kind(**folded(kind, TRANSFORMED[name])).fit(X, np.exp(Y[1][:, 0] / 8)).process_


class TestTransformed(ProcessContract):
    @pytest.fixture(autouse=True, params=TRANSFORMED)
    def _choose(self, request, seed):
        self.process = process_of_positive_table(request.param)
        self.points, self.seed = X_TEST, seed
        self.further = Data.of(X_MORE, np.exp(Y_MORE[1] / 8))
        self.coupling = None if request.param == "exact" else "orthogonal"

    def test_samples_have_the_moments_of_the_law(self):
        if isinstance(self.process.inner, MixtureGP):
            return  # the point prediction of a mixture is not its mean
        rng = np.random.default_rng([self.seed, 1])
        for latent in (False, True):
            samples = self.process.sample(self.points, 20_000, rng, latent=latent)[:, 0]
            mean, covariance = self.process.law(self.points, "covariance", latent=latent)
            std = np.sqrt(np.diagonal(covariance[..., 0]))
            error = (samples.mean(axis=1) - mean[:, 0]) / std
            assert np.abs(error).max() < 5 / np.sqrt(20_000)
            found = np.cov(samples) / np.outer(std, std)
            assert np.abs(found - covariance[..., 0] / np.outer(std, std)).max() < 0.15

    def test_quantiles_are_those_of_the_density(self):
        chances = np.array([0.1, 0.5, 0.9])
        quantiles = self.process.quantiles(self.points[:1], chances)[0, 0]
        grid = np.linspace(1e-9, quantiles[-1], 20_001)
        many = np.repeat(self.points[:1], grid.size, axis=0)
        density = np.exp(self.process.log_density(many, grid[:, None]))
        mass = np.array([np.trapezoid(np.where(grid <= q, density, 0), grid) for q in quantiles])
        if isinstance(self.process.transforms[0], (YeoJohnson, Logit)):
            mass += self.process.sample(
                self.points[:1], 4000, np.random.default_rng(0)
            ).ravel().__lt__(0).mean()  # fmt: skip
        np.testing.assert_allclose(mass, chances, atol=5e-3)

    def test_evidence_is_that_of_the_targets(self):
        process, other = self.process, self.process.conditioned(self.process.data)
        assert process.log_evidence == pytest.approx(other.log_evidence, rel=1e-6)
        slopes = process.log_evidence - process.inner.log_evidence
        y, step = process.data.targets[:, 0], 1e-6
        transform = process.transforms[0]
        forward = (transform.forward(y * (1 + step)) - transform.forward(y * (1 - step))) / (
            2 * step * y
        )
        assert slopes == pytest.approx(np.log(forward).sum(), abs=1e-5)
        updated = process.updated(self.further)
        both = process.conditioned(process.data.followed_by(self.further), renormalize=True)
        assert updated.log_evidence == pytest.approx(both.log_evidence, rel=1e-6)

    def test_no_density_outside_the_range(self):
        low, high = self.process.transforms[0].domain
        outside = [end for end in (low, high) if np.isfinite(end)]
        for end in outside:
            value = np.full((len(self.points), 1), end)
            assert (self.process.log_density(self.points, value) == -np.inf).all()


class TestGraphs(ProcessContract):
    @pytest.fixture(autouse=True, params=[*GRAPHS, *METHODS, "averaged"])
    def _choose(self, request, seed):
        self.process = process_of_graph(request.param, 2)
        self.points, self.seed = np.arange(31, 38), seed
        self.further = Data.of(np.arange(20, 40), WAVE[20:])
        self.coupling = None if request.param in METHODS else "iid"
        if request.param == "walks by solves":
            self.tolerance = 1e-4  # the solver's own tolerance is 1e-6 of the targets

    def test_the_evidence_is_in_the_unit_of_the_targets(self):
        data = self.process.data
        larger = Data.of(data.points, 10 * data.targets)
        scaled = self.process.conditioned(larger, renormalize=True)
        expected = self.process.log_evidence - data.targets.size * np.log(10.0)
        assert scaled.log_evidence == pytest.approx(expected, rel=1e-4)


def test_the_mixture_is_one_of_several_members():
    process = process_of_table("averaged", 2)
    assert isinstance(process, MixtureGP)
    assert len(process.members) > 1
    assert all(member.rows is None for member in process.members), "rows are kept once"


def test_joining_data_copies_nothing_of_a_single_batch():
    data = Data.of(X, Y[1])
    assert data.points is X
    assert data.followed_by(Data.of(X_MORE, Y_MORE[1])).points.shape == (80, 2)
    np.testing.assert_array_equal(data.take(np.array([3, 1])).targets, Y[1][[3, 1]])


@dataclass(frozen=True, eq=False, repr=False)
class Broken(WeightSpaceGP):
    """A process with one named fault."""

    fault: str = ""

    @classmethod
    def like(cls, process: WeightSpaceGP, fault: str) -> GaussianProcess:
        own = {name: getattr(process, name) for name in WeightSpaceGP.__dataclass_fields__}
        return cls(**own, fault=fault)

    def latent_law(self, points, want):
        mean, spread = super().latent_law(points, want)
        if self.fault == "variance" and want == "variance":
            spread = 1.1 * spread
        return mean, spread

    def latent_samples(self, points, n_samples, rng):
        samples = super().latent_samples(points, n_samples, rng)
        return 1.3 * samples if self.fault == "samples" else samples

    def updated(self, data):
        twice = data.followed_by(data) if self.fault == "updated" else data
        return super().updated(twice)

    def conditioned(self, data, *, renormalize=False):
        return super().conditioned(data, renormalize=renormalize or self.fault == "units")

    def redrawn(self, coupling, size, seed):
        if self.fault == "seed":
            seed = int(np.random.default_rng().integers(1000))
        return super().redrawn(coupling, size, seed)

    def exact(self):
        return super().exact().conditioned(self.data.take(np.arange(30))) if (
            self.fault == "exact"
        ) else super().exact()  # fmt: skip

    def as_stored(self):
        own = {f.name: getattr(self, f.name) for f in fields(WeightSpaceGP)}
        units = replace(self.units, offset=self.units.offset + 1.0)
        return WeightSpaceGP(**own | {"units": units})


@pytest.mark.parametrize(
    ("fault", "test"),
    [
        ("variance", "test_variance_is_the_diagonal_of_the_covariance"),
        ("samples", "test_samples_follow_the_law"),
        ("updated", "test_updates_are_those_of_all_data_at_once"),
        ("units", "test_conditioning_keeps_units"),
        ("seed", "test_draws_are_fixed_by_their_seed"),
        ("exact", "test_exact_law"),
        ("state", "test_a_file_restores_the_law_to_the_bit"),
    ],
)
def test_the_contract_finds_faults(fault, test):
    contract = ProcessContract()
    contract.process = Broken.like(process_of_table("features", 2), fault)
    contract.points, contract.further = X_TEST, Data.of(X_MORE, Y_MORE[2])
    contract.coupling = "orthogonal"
    with pytest.raises(AssertionError):
        getattr(contract, test)()
