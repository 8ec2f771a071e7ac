"""Effects and shares of variance against closed forms, plain averages and each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.diagnostics.effects.axis import AxisPosterior, arranged
from coupledgp.diagnostics.effects.explaining import Explanation
from coupledgp.diagnostics.effects.units import Unit, rows_of, units_of
from coupledgp.errors import InvalidInputError
from coupledgp.expressions import AxisTerm, Factor
from coupledgp.gp.mixture import MixtureGP
from coupledgp.gp.protocol import Data
from coupledgp.gp.transformed import mixed_parts
from coupledgp.kernels.axes import elementary
from coupledgp.spectra import MaternSpectrum


def ishigami(X: np.ndarray) -> np.ndarray:
    return np.sin(X[:, 0]) + 7 * np.sin(X[:, 1]) ** 2 + 0.1 * X[:, 2] ** 4 * np.sin(X[:, 0])


TRUTH = {("first", 0): 0.314, ("first", 1): 0.442, ("first", 2): 0.0, ("pair", 2): 0.244}


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    """Ishigami's function at a Latin square of 200 rows, noise of five percent."""
    rng = np.random.default_rng(0)
    ranks = np.array([rng.permutation(200) for _ in range(3)]).T
    X = np.pi * (2 * (ranks + 0.5) / 200 - 1)
    f = ishigami(X)
    return X, f + 0.05 * f.std() * rng.standard_normal(200)


@pytest.mark.parametrize("kernel", ["gaussian", "matern-5/2"])
def test_shares_of_ishigami(table, kernel):
    """A product kernel has closed forms, that of Euclidean distances has averages."""
    model = cgp.ExactGPRegressor(kernel=kernel, random_state=0, max_iter=30).fit(*table)
    found = model.importance()
    method = "closed forms of the kernel" if kernel == "gaussian" else "averages over sampled rows"
    assert found.method == method
    for (kind, place), truth in TRUTH.items():
        share = found.first[f"x{place}"] if kind == "first" else found.pairs["x0", "x2"]
        assert abs(share.mean - truth) < 0.05
        assert share.low <= share.mean <= share.high
    assert abs(found.total["x0"].mean - 0.558) < 0.05
    assert "conditional on the hyperparameters" in str(found)


class Order2:
    """A posterior of an additive kernel of order two, stated by its terms."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.X = rng.random((40, 3))
        self.X[:, 2] = rng.integers(0, 3, 40)
        factors = tuple(
            Factor((j,), MaternSpectrum(1.5), np.log([0.5 + 0.3 * j])) for j in range(3)
        )
        self.terms = (
            AxisTerm(0.3, 0, ()), AxisTerm(0.8, 1, factors), AxisTerm(0.5, 2, factors)
        )  # fmt: skip
        self.y = np.sin(5 * self.X[:, 0]) * self.X[:, 1] + self.X[:, 2] + 0.1 * rng.random(40)
        gram = self.covariance(self.X, self.X) + 0.05 * np.eye(40)
        self.factor, self.alpha = np.linalg.cholesky(gram), np.linalg.solve(gram, self.y)
        found = units_of(self.X, None, ["a", "b", "c"], None, None, 8)
        self.units = [
            replace(unit, points=unit.points[:6], weights=np.full(len(unit.points[:6]), 1.0))
            for unit in found
        ]
        self.units = [replace(u, weights=u.weights / u.weights.sum()) for u in self.units]
        self.posterior = AxisPosterior(
            self.terms, self.X, self.factor, self.alpha[:, None], np.array([2.0]),
            tuple(self.units), 2000, 0,
        )  # fmt: skip

    def covariance(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        total = np.full((len(a), len(b)), self.terms[0].variance)
        for term in self.terms[1:]:
            grams = [f.gram(a[:, list(f.columns)], b[:, list(f.columns)]) for f in term.factors]
            total += term.variance * elementary(grams, term.order)[term.order]
        return total

    def functional(self, weights: np.ndarray, points: np.ndarray) -> tuple[float, float]:
        """Mean and deviation of a weighted sum of values of f, by dense algebra."""
        cross = weights @ self.covariance(points, self.X)
        gone = np.linalg.solve(self.factor, cross)
        prior = weights @ self.covariance(points, points) @ weights
        return 2 * float(cross @ self.alpha), 2 * float(np.sqrt(prior - gone @ gone))


@pytest.fixture(scope="module")
def order2() -> Order2:
    return Order2()


def product(units: list[Unit]) -> tuple[np.ndarray, np.ndarray]:
    """All points of the product of laws, and their weights."""
    places = np.meshgrid(*(np.arange(len(u.points)) for u in units), indexing="ij")
    flat = [p.ravel() for p in places]
    weights = np.prod([u.weights[p] for u, p in zip(units, flat, strict=True)], axis=0)
    return rows_of(units, flat, 3), weights


def test_a_main_effect_is_the_average_of_the_posterior(order2):
    """Mean and deviation of the draws against weighted sums by dense algebra."""
    a, b, c = order2.units
    points = np.array([[0.1], [0.9]])
    mean, draws = order2.posterior.main(0, points)
    others, weights = product([Unit("a", a.columns, a.points[:1], np.ones(1), a.grid, ()), b, c])
    own = np.repeat(a.points, len(others), axis=0)[:, 0]
    whole = np.tile(others, (len(a.points), 1))
    whole[:, 0] = own
    for k, point in enumerate(points):
        here = others.copy()
        here[:, 0] = point
        signed = np.concatenate([weights, -np.repeat(a.weights, len(others)) * np.tile(
            weights, len(a.points))])  # fmt: skip
        expected, deviation = order2.functional(signed, np.vstack([here, whole]))
        assert abs(mean[k, 0] - expected) < 1e-8
        assert abs(draws[k, 0].mean() - expected) < 4 * deviation / np.sqrt(2000)
        assert abs(draws[k, 0].std() / deviation - 1) < 0.08


def test_main_effects_and_pairs_are_the_whole_of_order_two(order2):
    """What they leave of the variance is zero, up to the sample of the product of laws."""
    own = order2.posterior
    whole = own.variance().mean()
    first = [own.first(j).mean() for j in range(3)]
    pairs = {(i, j): own.pair(i, j).mean() for i in range(3) for j in range(i)}
    assert abs(whole - sum(first) - sum(pairs.values())) < 0.03 * whole
    total = own.total(0).mean()
    assert abs(total - first[0] - pairs[1, 0] - pairs[2, 0]) < 0.03 * whole


def test_a_factor_of_two_units_has_no_closed_form(order2):
    wide = Factor((0, 1), MaternSpectrum(1.5), np.zeros(1))
    assert arranged((AxisTerm(1.0, 1, (wide,)),), order2.units) is None
    assert arranged(order2.terms, order2.units) == order2.terms


def test_categories_missing_cells_and_names():
    """A category is one part with its levels; a missing number is a point of its own."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(2)
    kind = rng.choice(["red", "green", "blue"], 90)
    size = rng.random(90)
    y = np.where(kind == "red", 2.0, 0.0) + size
    size[::10] = np.nan
    X = pd.DataFrame({"size": size, "kind": kind})
    model = cgp.ExactGPRegressor(missing="indicator", random_state=0, max_iter=20).fit(X, y)
    found = model.effects(["kind", "size"])
    assert found.names == ("kind", "size")
    effect = dict(zip(found.grid[0], found.mean[0], strict=True))
    assert set(effect) == {"red", "green", "blue"}
    assert abs(effect["red"] - effect["blue"] - 2.0) < 0.2
    assert found.grid[1][-1] == "missing"
    assert len(found.grid[1]) <= 33
    assert list(found.frame().columns) == ["name", "value", "mean", "low", "high"]
    with pytest.raises(InvalidInputError, match="columns: expected names or numbers"):
        model.effects(["weight"])


def test_several_outputs_transforms_and_correlated_columns():
    rng = np.random.default_rng(3)
    x = rng.random(80)
    X = np.column_stack([x, x + 0.1 * rng.random(80)])
    Y = np.column_stack([x, -2 * x]) + 0.01 * rng.random((80, 2))
    model = cgp.SparseSpectrumGPRegressor(n_frequencies=32, random_state=0).fit(X, Y)
    found = model.effects([0])
    assert found.mean[0].shape == (32, 2)
    assert "Columns hang on each other" in str(found)
    shares = model.importance().total["x0"].mean
    assert shares.shape == (2,)
    one = cgp.ExactGPRegressor(target_transform="log", random_state=0).fit(X, np.exp(x))
    assert "median of y" in str(one.effects([0]))


def test_mixtures_of_models_of_y_and_of_its_transform():
    """A member of transformed targets is one part, as in the choices of `GPRegressor`."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, size=(60, 2))
    y = np.exp(0.6 * X[:, 0] + 0.1 * rng.normal(size=60))
    data = Data.of(X, y[:, None])
    plain = cgp.ExactGPRegressor(random_state=0).fit(X, y).process_
    logged = cgp.ExactGPRegressor(target_transform="log", random_state=0).fit(X, y).process_
    mixture = MixtureGP.of([plain, logged], np.array([0.25, 0.75]), data)
    assert [share for _, share in mixed_parts(mixture)] == [0.25, 0.75]
    units = units_of(X, None, ("a", "b"), None, None, 9)
    found = Explanation(mixture, units, 0)
    effects = found.effects([0], 0.9, 1)
    grid = units[0].grid
    truth = np.exp(0.6 * np.asarray(grid, dtype=float).reshape(-1))
    centred = effects.mean[0] - effects.mean[0].mean()
    assert np.abs(centred - (truth - truth.mean())).max() < 0.15
    assert any("median of y" in remark for remark in effects.remarks)
    assert found.importance(0.9, 1).total["a"].mean > 0.9
