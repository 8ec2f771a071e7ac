"""Other models beside a model: scores against plain refits, budgets, and reports that hold them."""

import copy
import json
import pickle
from functools import partial

import numpy as np
import pytest
import trimesh
from scipy.spatial import KDTree
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern, WhiteKernel
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.neighbors import KNeighborsRegressor

import coupledgp as cgp
from coupledgp.diagnostics.rivals import contest as contest_module
from coupledgp.diagnostics.rivals.contest import Contest, HeldOut
from coupledgp.diagnostics.rivals.rival import FittedRival, Rival
from coupledgp.diagnostics.scoring.alternatives import Alternatives, Skipped
from coupledgp.diagnostics.scoring.laws import PointLaws
from coupledgp.diagnostics.scoring.scores import point_nlpd
from coupledgp.diagnostics.sections.comparison import rival_table
from coupledgp.errors import CoupledGPError, InvalidInputError, NumericalError
from coupledgp.gp.protocol import Data
from coupledgp.ground.progress import reporter, silent, watched
from coupledgp.models.other_models.judge import alternatives_of_predictions
from coupledgp.models.other_models.tables import boosting

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (120, 2))
Y = np.sign(X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=120)
TRAIN, TEST = (X[:80], Y[:80]), (X[80:], Y[80:])
SMOOTH = np.sin(X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=120)


@pytest.fixture
def only(monkeypatch):
    """Leave only rivals of some names to be fitted, in their order; tell all names."""
    run = Contest.run

    def choose(*names):
        told = []

        def chosen(self, rivals, attempt):
            told.extend(one.name for one in rivals)
            return run(self, [one for one in rivals if one.name in names], attempt)

        monkeypatch.setattr(Contest, "run", chosen)
        return told

    return choose


def by_name(found):
    return {one.name: one for one in found}


class Clock:
    """A clock that rivals move."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Densities:
    """Laws with given negative log densities (p,), nats per output of two."""

    def __init__(self, nlpd):
        self.nlpd = nlpd

    def log_density(self, targets):
        return -2 * self.nlpd


DATA = Data.of(np.zeros((2, 1)), np.zeros((2, 2)))


class TestContest:
    Y = np.zeros((4, 2))
    OWN = np.array([1.0, 2.0, 3.0, 4.0])

    def rival(self, name, forecast, taken, clock, nlpd=None, error=None):
        def fit(data, seconds):
            with reporter("fit") as report:
                for _ in range(10):
                    clock.now += taken / 10
                    report("step")
            if error is not None:
                raise error
            values = self.OWN - 0.5 if nlpd is None else nlpd
            laws = PointLaws(np.ones((4, 2)), np.ones((4, 2)), Densities(values))
            return FittedRival(lambda points: laws, " Detail.")

        return Rival(name, fit, f"Use {name}.", forecast)

    def run(self, budget, clock, rivals, **given):
        held_out = HeldOut(DATA, np.zeros((4, 1)), self.Y, self.OWN, **given)
        return held_out.alternatives(rivals, Contest(budget, silent, clock))

    def test_order_gains_and_errors(self):
        clock = Clock()
        gaps = np.array([0.1, 0.3, -0.2, 0.0])
        found = self.run(
            100.0, clock,
            [
                self.rival("dear", 8.0, 1.0, clock, self.OWN - gaps),
                self.rival("cheap", 1.0, 1.0, clock),
                self.rival("broken", 2.0, 1.0, clock, error=NumericalError("singular")),
                self.rival("no density", 3.0, 1.0, clock, np.array([1, 2, 3, np.inf])),
            ],
        )  # fmt: skip
        assert [one.name for one in found] == ["cheap", "dear"]
        assert found[0].gain == pytest.approx(0.5)
        assert found[0].action == "Use cheap. Detail."
        assert found[0].rmse == 1.0
        assert found[0].seconds == pytest.approx(1.0)
        assert found[1].gain == pytest.approx(gaps.mean())
        assert found[1].standard_error == pytest.approx(gaps.std(ddof=1) / 2)
        assert found[1].nlpd == pytest.approx((self.OWN - gaps).mean())
        assert found.skipped == (
            Skipped("broken", "singular"),
            Skipped("no density", "it gives some test targets no density"),
        )

    def test_errors_that_points_share_widen_the_standard_error(self):
        clock = Clock()
        (one,) = self.run(
            9.0, clock, [self.rival("one", 1.0, 1.0, clock)],
            shared=lambda laws, gains: 0.09 * float(laws.std.mean()),
        )  # fmt: skip
        assert one.standard_error == pytest.approx(0.3)

    def test_the_budget_is_kept(self):
        clock = Clock()
        tasks = [("first", 2.0, 2.0), ("slow", 3.0, 1000.0), ("never", 30.0, 1.0)]
        found = self.run(30.0, clock, [self.rival(*task, clock) for task in tasks])
        assert [one.name for one in found] == ["first"]
        assert [one.name for one in found.skipped] == ["slow", "never"]
        assert found.skipped[0].reason.startswith("did not end within")
        assert found.skipped[1].reason == "forecast 92 s, 0 s of the budget left"
        assert clock.now <= 2 + 100  # one step of the slow one

    def test_a_slow_machine_is_allowed_for(self):
        clock = Clock()
        tasks = [("first", 1.5, 4.0), ("second", 5.5, 1.0)]
        found = self.run(10.0, clock, [self.rival(*task, clock) for task in tasks])
        assert [one.name for one in found] == ["first"]
        assert found.skipped[0].reason == "forecast 12 s, 6 s of the budget left"

    def test_a_single_point_has_no_standard_error(self):
        rival = Rival("a", lambda data, seconds: lambda points: (np.zeros(1), np.ones(1)))
        own = np.full(1, 1 + 0.5 * np.log(2 * np.pi))
        held_out = HeldOut(DATA, np.zeros((1, 1)), np.zeros((1, 1)), own)
        (one,) = held_out.alternatives([rival], Contest(5.0, silent))
        assert one.standard_error is None
        assert one.gain == pytest.approx(1.0)

    def test_least_seconds_and_none(self):
        assert contest_module.LEAST_SECONDS > 0
        assert self.run(1.0, Clock(), []) == ()


def test_watching_goes_through_every_report():
    seen = []
    with watched(seen.append), reporter("inner", True) as report:
        report("step")
    assert seen == ["step"]
    with reporter("outer", False) as report:
        assert report is silent


def boosted(X_train, y_train, X_test, y_test, seed):
    """Means, standard deviations and negative log densities (p,) by boosted trees."""
    data = Data.of(X_train, y_train[:, None])
    held_out = HeldOut(data, X_test, y_test[:, None], np.zeros(len(y_test)), seed)
    found = held_out.scored(boosting(data, seed), np.inf)
    return found.laws.mean[:, 0], found.laws.std[:, 0], found.nlpd


class TestTables:
    def test_a_kernel_is_a_plain_refit(self, only):
        names = only("kernel matern-1/2", "transformed targets")
        model = cgp.ExactGPRegressor(random_state=3).fit(*TRAIN)
        found = cgp.alternatives(model, *TEST, random_state=5)
        assert names == [
            "kernel matern-1/2", "kernel matern-3/2", "kernel matern-5/2", "kernel laplace",
            "transformed targets", "local part", "mixture", "gradient boosting",
        ]  # fmt: skip
        one = by_name(found)["kernel matern-1/2"]
        refit = cgp.ExactGPRegressor("matern-1/2", random_state=3).fit(*TRAIN)
        mean, std = refit.predict(X[80:], return_std=True)
        own = point_nlpd(Y[80:], *model.predict(X[80:], return_std=True))
        gaps = own - point_nlpd(Y[80:], mean, std)
        assert one.gain == pytest.approx(gaps.mean())
        assert one.standard_error >= gaps.std(ddof=1) / np.sqrt(40)
        assert one.rmse == pytest.approx(np.sqrt(np.mean((Y[80:] - mean) ** 2)))
        assert one.action == "Use a rougher kernel: kernel='matern-1/2'."
        assert one.gain > 0  # a step is rough

    def test_bad_hyperparameters_are_told(self, only):
        only("fitted hyperparameters")
        model = cgp.ExactGPRegressor(lengthscale=0.02, optimizer=None).fit(X[:80], SMOOTH[:80])
        (one,) = cgp.alternatives(model, X[80:], SMOOTH[80:])
        assert one.gain > 5 * one.standard_error
        refit = cgp.ExactGPRegressor(random_state=0).fit(X[:80], SMOOTH[:80])
        laws = (one.predict(X[80:], return_std=True) for one in (model, refit))
        own, other = (point_nlpd(SMOOTH[80:], *law) for law in laws)
        cov = model.predict(X[80:], return_cov=True)[1]
        std = np.sqrt(np.diagonal(cov))
        together = np.abs(cov / np.outer(std, std)).sum() / 40
        expected = np.sqrt(np.var(own - other, ddof=1) / 40 * together)
        assert one.standard_error == pytest.approx(expected, rel=1e-6)
        assert one.action == "Fit the hyperparameters: optimizer='lbfgs'."

    def test_skewed_targets_want_a_transform(self, only):
        only("transformed targets")
        train, test = (X[:80], np.exp(2 * Y[:80])), (X[80:], np.exp(2 * Y[80:]))
        model = cgp.ExactGPRegressor(random_state=0).fit(*train)
        (one,) = cgp.alternatives(model, *test)
        assert one.gain > 0.5
        assert "It takes " in one.action
        transformed = cgp.ExactGPRegressor(random_state=0, target_transform="auto").fit(*train)
        density = transformed.log_density(*test)
        assert one.nlpd == pytest.approx(-density.mean())

    def test_a_model_of_transformed_targets_stays_so(self, only):
        names = only("kernel matern-1/2")
        train, test = (X[:80], np.exp(Y[:80])), (X[80:], np.exp(Y[80:]))
        model = cgp.ExactGPRegressor(random_state=0, target_transform="log").fit(*train)
        (one,) = cgp.alternatives(model, *test)
        assert "transformed targets" not in names
        other = cgp.ExactGPRegressor("matern-1/2", random_state=0, target_transform="log")
        gaps = other.fit(*train).log_density(*test) - model.log_density(*test)
        assert one.gain == pytest.approx(gaps.mean())

    def test_sampled_features_keep_their_number_and_weights(self, only):
        names = only("kernel matern-3/2")
        weights = RNG.uniform(0.5, 2, 80)
        model = cgp.SparseSpectrumGPRegressor(n_frequencies=16, random_state=1)
        model.fit(*TRAIN, sample_weight=weights)
        (one,) = cgp.alternatives(model, *TEST)
        refit = cgp.SparseSpectrumGPRegressor("matern-3/2", n_frequencies=16, random_state=1)
        density = refit.fit(*TRAIN, sample_weight=weights).log_density(*TEST)
        assert one.nlpd == pytest.approx(-density.mean())
        names.clear()
        fitted = cgp.SparseSpectrumGPRegressor(
            n_frequencies=8, frequencies="fitted", random_state=0, max_iter=3
        )
        cgp.alternatives(fitted.fit(*TRAIN), *TEST)
        assert not any(name.startswith("kernel") for name in names)

    def test_several_outputs(self, only):
        only("gradient boosting")
        both = np.column_stack([Y, -3 * Y])
        model = cgp.ExactGPRegressor(random_state=0).fit(X[:80], both[:80])
        (one,) = cgp.alternatives(model, X[80:], both[80:])
        each = [boosted(X[:80], targets[:80], X[80:], targets[80:], 0) for targets in both.T]
        assert one.nlpd == pytest.approx(np.mean([nlpd for _, _, nlpd in each]))

    def test_a_process_without_its_estimator(self, only):
        names = only("gradient boosting")
        process = cgp.ExactGPRegressor(optimizer=None).fit(*TRAIN).process_
        (one,) = cgp.alternatives(process, *TEST)
        assert np.isfinite(one.gain)
        assert "mixture" in names

    def test_boosting_has_the_error_of_cross_validation(self):
        found, std, nlpd = boosted(X[:80], Y[:80], X[80:], Y[80:], 4)
        plain = HistGradientBoostingRegressor(random_state=4)
        folds = KFold(5, shuffle=True, random_state=4)
        error = np.sqrt(np.mean((Y[:80] - cross_val_predict(plain, *TRAIN, cv=folds)) ** 2))
        mean = plain.fit(*TRAIN).predict(X[80:])
        np.testing.assert_allclose(found, mean)
        np.testing.assert_allclose(std, error)
        np.testing.assert_allclose(nlpd, point_nlpd(Y[80:], mean, std))
        with pytest.raises(InvalidInputError, match="expected 60 training rows at least, got 9"):
            boosted(X[:9], Y[:9], X[80:], Y[80:], 0)

    @pytest.mark.filterwarnings("ignore:y. expected targets that differ")
    def test_constant_targets_and_one_point(self, only):
        only("kernel matern-1/2", "gradient boosting")
        model = cgp.ExactGPRegressor(random_state=0).fit(X[:80], np.full(80, 2.0))
        found = cgp.alternatives(model, X[80:81], [2.0])
        assert len(found) + len(found.skipped) == 2
        assert all(one.standard_error is None for one in found)


class Nearest:
    """The observation nearest to a point, with the spread of all as standard deviation."""

    name = "my nearest"
    action = "Take the nearest row."
    seconds = 0.1

    def fit(self, data):
        assert (len(data.points), data.targets.shape) == (80, (80, 1))
        tree = KDTree(data.points)
        spread = data.targets.std()
        return lambda points: (data.targets[tree.query(points)[1], 0], np.full(len(points), spread))


def constant(data):
    """The mean of the targets, without a law."""
    return lambda points: np.full(len(points), data.targets.mean())


class TestOwnRivals:
    MODEL = cgp.ExactGPRegressor(optimizer=None).fit(*TRAIN)

    def test_a_class_a_function_and_a_name(self):
        found = cgp.alternatives(
            self.MODEL, *TEST, rivals=[Nearest(), constant, "kernel matern-1/2"]
        )
        assert not found.skipped
        named = by_name(found)
        assert set(named) == {"my nearest", "constant", "kernel matern-1/2"}
        one = named["my nearest"]
        assert one.action == "Take the nearest row."
        mean = Y[:80][KDTree(X[:80]).query(X[80:])[1]]
        own = point_nlpd(Y[80:], *self.MODEL.predict(X[80:], return_std=True))
        gain = own - point_nlpd(Y[80:], mean, Y[:80].std())
        assert one.gain == pytest.approx(gain.mean())
        assert one.rmse == pytest.approx(np.sqrt(np.mean((Y[80:] - mean) ** 2)))
        assert named["constant"].action == "Use constant."

    def test_means_alone_get_the_error_of_five_folds(self):
        (one,) = cgp.alternatives(self.MODEL, *TEST, rivals=constant, random_state=3)
        errors = np.empty(80)
        for rest, held in KFold(5, shuffle=True, random_state=3).split(np.arange(80)):
            errors[held] = Y[held] - Y[rest].mean()
        std = np.sqrt(np.mean(errors**2))
        assert one.nlpd == pytest.approx(point_nlpd(Y[80:], Y[:80].mean(), std).mean())

    def test_models_of_this_package_and_of_others(self):
        def ours(data):
            return cgp.ExactGPRegressor("matern-3/2", random_state=0).fit(data.points, data.targets)

        def theirs(data):
            kernel = Matern(1.0, nu=1.5) + WhiteKernel(0.1)
            return GaussianProcessRegressor(kernel).fit(data.points, data.targets[:, 0])

        found = by_name(cgp.alternatives(self.MODEL, *TEST, rivals=[ours, theirs]))
        mean, std = ours(Data.of(X[:80], Y[:80])).predict(X[80:], return_std=True)
        assert found["ours"].nlpd == pytest.approx(point_nlpd(Y[80:], mean, std).mean())
        mean, std = theirs(Data.of(X[:80], Y[:80, None])).predict(X[80:], return_std=True)
        assert found["theirs"].nlpd == pytest.approx(point_nlpd(Y[80:], mean, std).mean(), rel=1e-6)

    def test_an_estimator_of_scikit_learn(self):
        (one,) = cgp.alternatives(self.MODEL, *TEST, rivals=[KNeighborsRegressor(3)])
        assert one.name == "KNeighborsRegressor"
        mean = KNeighborsRegressor(3).fit(*TRAIN).predict(X[80:])
        assert one.rmse == pytest.approx(np.sqrt(np.mean((Y[80:] - mean) ** 2)))

    def test_repeated_points_are_in_one_fold(self):
        """A rival that knows every row by heart has errors where it has not seen it."""
        rows = np.repeat(np.arange(10.0)[:, None], 2, axis=0)
        targets = np.repeat(np.arange(10.0), 2)[:, None]

        def by_heart(data):
            known = {float(x[0]): y[0] for x, y in zip(data.points, data.targets, strict=True)}
            return lambda points: np.array([known.get(float(x[0]), -1.0) for x in points])

        held_out = HeldOut(Data.of(rows, targets), rows, targets, np.zeros(20))
        std = held_out.scored(Rival.of(by_heart), np.inf).laws.std
        np.testing.assert_allclose(std, np.sqrt(np.mean((targets + 1) ** 2)))

    def test_one_point_tells_no_error(self):
        data = Data.of(np.zeros((3, 1)), np.arange(3.0)[:, None])
        held_out = HeldOut(data, np.zeros((2, 1)), np.zeros((2, 1)), np.zeros(2))
        found = held_out.alternatives([Rival.of(constant)], Contest(5.0, silent))
        reason = "expected observations at two points at least, got one"
        assert found.skipped == (Skipped("constant", reason),)

    def test_nodes_and_places(self):
        """Of several outputs, and where nodes are observed twice."""
        ring = cgp.Graph.from_edges(np.arange(20), (np.arange(20) + 1) % 20)
        nodes = np.repeat(np.arange(0, 20, 2), 2)
        y = np.column_stack([np.sin(nodes / 3), np.cos(nodes / 3)])
        model = cgp.ExactGraphGPRegressor(ring, "heat").fit(nodes, y)

        def usual(data):
            assert data.points.shape == (20,)
            spread = np.ones(data.targets.shape[1])
            return lambda points: (np.tile(data.targets.mean(axis=0), (len(points), 1)), spread)

        (one,) = cgp.alternatives(model, [1, 3], y[[1, 3]], rivals=usual)
        assert one.rmse == pytest.approx(np.sqrt(np.mean((y[[1, 3]] - y.mean(axis=0)) ** 2)))
        road = cgp.LaplaceOperator.from_edges(np.arange(9), np.arange(1, 10), np.ones(9))
        z = np.array([0.0, 0.4, 0.5, 0.3, 0.0, 0.1])
        field = cgp.FieldGPRegressor(road).fit([0, 2, 4, 6, 8, 9], z)

        def mean(data):
            assert data.points.shape[1] == 4
            return lambda places: np.full(len(places), data.targets.mean())

        (one,) = cgp.alternatives(field, [1, 3, 5], [0.2, 0.5, 0.4], rivals=[mean])
        assert one.rmse == pytest.approx(
            np.sqrt(np.mean((z.mean() - np.array([0.2, 0.5, 0.4])) ** 2))
        )

    def test_a_rival_that_wins_is_the_advice_of_a_report(self):
        def oracle(data):
            return lambda points: (np.sign(points[:, 0]) + points[:, 1], np.full(len(points), 0.1))

        found = partial(cgp.alternatives, rivals=[Rival.of(oracle)])
        report = cgp.posterior_report(self.MODEL, *TEST, alternatives=found)
        assert report.verdicts[0].colour == "red"
        assert report.advice[0].action == "Use oracle."
        law = np.full(40, Y[:80].mean()), np.full(40, Y[:80].std())
        audited = cgp.audit(
            law, *TRAIN, *TEST, alternatives=partial(alternatives_of_predictions, rivals=oracle)
        )
        assert [one.name for one in audited.alternatives] == ["oracle"]

    @pytest.mark.parametrize(
        ("rivals", "message"),
        [
            ("mixtur", "did you mean 'mixture'"),
            ([3], "rivals: expected a function of the data, or an object with a name and fit"),
            (
                [Nearest],
                "rivals: expected a function of the data, or an object with a name and fit",
            ),
            ([constant, constant], "rivals: expected different names, got 'constant' twice"),
            (["mixture", "all"], "rivals: expected different names, got 'mixture' twice"),
        ],
    )
    def test_refusals(self, rivals, message):
        with pytest.raises(InvalidInputError, match=message):
            cgp.alternatives(self.MODEL, *TEST, rivals=rivals)

    @pytest.mark.parametrize(
        ("law", "reason"),
        [
            (lambda points: np.zeros(3), "expected means of shape (40, 1) or (40,), got (3,)"),
            (
                lambda points: (np.zeros(40), np.zeros((40, 2))),
                "expected standard deviations of shape (40, 1) or (40,), got (40, 2)",
            ),
            (
                lambda points: (np.zeros(40), np.zeros(40)),
                "expected positive standard deviations, got 0",
            ),
            (lambda points: (np.full(40, np.nan), 1.0), "it gives some test targets no density"),
        ],
    )
    def test_laws_that_do_not_fit_are_named(self, law, reason):
        found = cgp.alternatives(self.MODEL, *TEST, rivals={"mine": lambda data: law})
        assert found.skipped == (Skipped("mine", reason),)


class TestGraphs:
    def test_families_and_graphs(self, only):
        """Weights that have nothing to do with the values do harm."""
        names = only("graph without weights", "kernel regularized-laplacian", "positions")
        n = 60
        rng = np.random.default_rng(1)
        graph = cgp.Graph.from_edges(np.arange(n - 1), np.arange(1, n), 10 ** rng.uniform(-2, 2, n - 1))  # noqa: E501  # fmt: skip
        nodes = np.sort(rng.choice(n, 40, replace=False))
        rest = np.setdiff1d(np.arange(n), nodes)
        y = np.sin(np.arange(n) / 8) + 0.05 * rng.normal(size=n)
        model = cgp.ExactGraphGPRegressor(graph, "heat", random_state=0).fit(nodes, y[nodes])
        positions = np.arange(n)[:, None] / n
        found = by_name(cgp.alternatives(model, rest, y[rest], positions=positions))
        assert set(names) == {
            "kernel regularized-laplacian", "kernel matern", "kernel random-walk",
            "kernel inverse-cosine", "graph without weights", "combinatorial Laplacian",
            "positions",
        }  # fmt: skip
        plain = cgp.Graph.from_edges(np.arange(n - 1), np.arange(1, n))
        refit = cgp.ExactGraphGPRegressor(plain, "heat", random_state=0).fit(nodes, y[nodes])
        one = found["graph without weights"]
        assert one.nlpd == pytest.approx(-refit.log_density(rest, y[rest]).mean(), rel=1e-6)
        assert one.gain > 0
        assert found["positions"].gain > 0

    def test_graphs_of_equal_degrees_without_weights(self, only):
        names = only()
        ring = cgp.Graph.from_edges(np.arange(20), (np.arange(20) + 1) % 20)
        model = cgp.ExactGraphGPRegressor(ring, "heat").fit(np.arange(10), np.arange(10.0))
        assert cgp.alternatives(model, [15, 16], [1.0, 2.0]) == ()
        assert not {"graph without weights", "combinatorial Laplacian", "positions"} & set(names)
        with pytest.raises(InvalidInputError, match="positions: expected 20 rows"):
            cgp.alternatives(model, [15], [1.0], positions=np.ones((3, 2)))


class TestFields:
    def test_a_surface(self, only):
        names = only("kernel position, matern-5/2", "kernel along the surface, alpha=2")
        ball = cgp.LaplaceOperator.from_trimesh(trimesh.creation.icosphere(subdivisions=2))
        train, test = np.arange(0, 120, 3), np.arange(1, 120, 3)
        z = ball.positions[:, 2] + 0.05 * np.random.default_rng(0).normal(size=len(ball.positions))
        model = cgp.FieldGPRegressor(ball, "matern").fit(ball.at_vertices(train), z[train])
        found = by_name(cgp.alternatives(model, ball.at_vertices(test), z[test]))
        assert len(names) == 7
        refit = cgp.FieldGPRegressor(ball, cgp.kernels.PositionKernel("matern-5/2"))
        refit.fit(ball.at_vertices(train), z[train])
        density = refit.log_density(ball.at_vertices(test), z[test])
        one = found["kernel position, matern-5/2"]
        assert one.nlpd == pytest.approx(-density.mean())
        assert one.gain > 0

    def test_a_network(self, only):
        names = only("kernel along the network, alpha=1", "kernel families mixed by evidence")
        road = cgp.LaplaceOperator.from_edges(np.arange(9), np.arange(1, 10), np.ones(9))
        model = cgp.FieldGPRegressor(road).fit([0, 2, 4, 6, 8, 9], [0.0, 0.4, 0.5, 0.3, 0.0, 0.1])
        found = cgp.alternatives(model, [1, 3, 5], [0.2, 0.5, 0.4])
        assert set(names) == {
            "kernel along the network, alpha=1", "kernel along the network, alpha=2",
            "kernel families mixed by evidence",
        }  # fmt: skip
        assert len(found) + len(found.skipped) == 2
        assert found.skipped[-1].reason == "it is the model itself"


class TestReports:
    def test_a_report_holds_them(self, only, tmp_path):
        only("kernel matern-1/2", "fitted hyperparameters")
        test = X[80:], SMOOTH[80:]
        model = cgp.ExactGPRegressor(lengthscale=0.02, optimizer=None).fit(X[:80], SMOOTH[:80])
        report = cgp.posterior_report(model, *test, alternatives=True, budget="5min")
        assert report.alternatives == report.evidence.alternatives
        assert [one.name for one in report.alternatives] == [
            "fitted hyperparameters",
            "kernel matern-1/2",
        ]
        assert report.verdicts[0].colour == "red"
        assert report.advice[0].action == report.alternatives[0].action
        stored = json.loads(report.to_json())["evidence"]
        assert stored["alternatives"][0]["gain"] == report.alternatives[0].gain
        assert stored["skipped_alternatives"] == []
        assert "What else could be used" in report.to_html()
        assert cgp.posterior_report(model, *test).alternatives is None
        given = cgp.posterior_report(model, *test, alternatives=cgp.alternatives)
        assert [one.gain for one in given.alternatives] == [one.gain for one in report.alternatives]
        with pytest.raises(InvalidInputError, match="alternatives: expected y_test"):
            cgp.posterior_report(model, X[80:], alternatives=True)

    def test_an_audit_holds_them(self, only):
        only("kernel gaussian")
        mean = np.full(40, TRAIN[1].mean())
        law = mean, np.full(40, TRAIN[1].std())
        report = cgp.audit(law, *TRAIN, *TEST, alternatives=True)
        (one,) = report.alternatives
        assert one.gain > 0.5
        assert one.action == "Use the exact process of a kernel: ExactGPRegressor('gaussian')."
        own = point_nlpd(Y[80:], *law)
        (again,) = alternatives_of_predictions(*TRAIN, *TEST, own)
        assert again.gain == one.gain
        assert "What else could be used" in report.to_html()
        with pytest.raises(InvalidInputError, match="alternatives: expected a function"):
            cgp.diagnostics.audit(law, *TRAIN, *TEST, alternatives=True)

    def test_skipped_ones_survive_copies_and_are_shown(self):
        found = Alternatives([], [Skipped("local part", "forecast 9 s, 2 s of the budget left")])
        for one in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
            assert one.skipped == found.skipped
        assert "2 s of the budget left" in found._repr_html_()
        assert str(found) == found.explain()
        report = cgp.posterior_report(TestOwnRivals.MODEL, *TEST, alternatives=lambda *given: found)
        *baselines, row = rival_table(report).rows
        gains = {one[0]: one[1] for one in baselines}
        values = [float(text.split()[0]) for text in gains.values()]
        assert values == sorted(values, reverse=True)
        gain = report.baselines[0].differences["nlpd"]["mean"]
        assert gains["the mean of the known targets"].startswith(f"{gain:+.3f} ± ")
        assert row[:2] == ["local part", "skipped: forecast 9 s, 2 s of the budget left"]
        assert found.explain() == "skipped: local part, forecast 9 s, 2 s of the budget left"


def test_wrong_arguments():
    model = cgp.ExactGPRegressor(optimizer=None).fit(*TRAIN)
    with pytest.raises(InvalidInputError, match="budget: expected seconds"):
        cgp.alternatives(model, *TEST, budget="soon")
    with pytest.raises(InvalidInputError, match="budget: expected seconds"):
        cgp.alternatives(model, *TEST, budget="6GB")
    with pytest.raises(InvalidInputError, match="positions: expected them for a model of a graph"):
        cgp.alternatives(model, *TEST, positions=np.ones((40, 2)))
    with pytest.raises(InvalidInputError, match="model: expected a fitted model of this package"):
        cgp.alternatives(HistGradientBoostingRegressor(), *TEST)
    bare = cgp.SparseSpectrumGPRegressor(n_frequencies=4, optimizer=None).fit(*TRAIN)
    with pytest.raises(CoupledGPError, match="no training rows"):
        cgp.alternatives(bare.process_.without_data(), *TEST)


def test_the_same_seed_gives_the_same_bits(only):
    only("gradient boosting", "kernel matern-1/2")
    model = cgp.SparseSpectrumGPRegressor(n_frequencies=8, optimizer=None).fit(*TRAIN)
    first, second = (cgp.alternatives(model, *TEST, random_state=2, budget=600) for _ in range(2))
    assert [one.gain for one in first] == [one.gain for one in second]
