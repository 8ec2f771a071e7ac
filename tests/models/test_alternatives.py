"""Other models beside a model: scores against plain refits, budgets, and reports that hold them."""

import copy
import json
import pickle

import numpy as np
import pytest
import trimesh
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold, cross_val_predict

import coupledgp as cgp
from coupledgp.diagnostics.scoring.alternatives import Alternatives, Skipped
from coupledgp.diagnostics.scoring.scores import point_nlpd
from coupledgp.diagnostics.sections.comparison import alternatives_table
from coupledgp.errors import CoupledGPError, InvalidInputError, NumericalError
from coupledgp.gp.protocol import Data
from coupledgp.ground.progress import reporter, silent, watched
from coupledgp.models.other_models import contest as contest_module
from coupledgp.models.other_models.boosting import boosted
from coupledgp.models.other_models.contest import Candidate, Contest, Scored
from coupledgp.models.other_models.judge import alternatives_of_predictions

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (120, 2))
Y = np.sign(X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=120)
TRAIN, TEST = (X[:80], Y[:80]), (X[80:], Y[80:])
SMOOTH = np.sin(X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=120)


@pytest.fixture
def only(monkeypatch):
    """Leave only candidates of some names to be fitted, in their order; tell all names."""
    run = Contest.run

    def choose(*names):
        told = []

        def chosen(self, candidates):
            told.extend(one.name for one in candidates)
            return run(self, [one for one in candidates if one.name in names])

        monkeypatch.setattr(Contest, "run", chosen)
        return told

    return choose


def by_name(found):
    return {one.name: one for one in found}


class Clock:
    """A clock that candidates move."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class TestContest:
    Y = np.zeros((4, 2))
    OWN = np.array([1.0, 2.0, 3.0, 4.0])

    def candidate(self, name, forecast, taken, clock, nlpd=None, error=None):
        def score(seconds):
            with reporter("fit") as report:
                for _ in range(10):
                    clock.now += taken / 10
                    report("step")
            if error is not None:
                raise error
            values = self.OWN - 0.5 if nlpd is None else nlpd
            return Scored(np.ones((4, 2)), np.ones((4, 2)), values, " Detail.")

        return Candidate(name, f"Use {name}.", forecast, score)

    def test_order_gains_and_errors(self):
        clock = Clock()
        gaps = np.array([0.1, 0.3, -0.2, 0.0])
        found = Contest(self.Y, self.OWN, 100.0, silent, clock=clock).run(
            [
                self.candidate("dear", 8.0, 1.0, clock, self.OWN - gaps),
                self.candidate("cheap", 1.0, 1.0, clock),
                self.candidate("broken", 2.0, 1.0, clock, error=NumericalError("singular")),
                self.candidate("no density", 3.0, 1.0, clock, np.array([1, 2, 3, np.inf])),
            ]
        )
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
        contest = Contest(
            self.Y, self.OWN, 9.0, silent, lambda one, gains: 0.09 * float(one.std.mean()), clock
        )
        (one,) = contest.run([self.candidate("one", 1.0, 1.0, clock)])
        assert one.standard_error == pytest.approx(0.3)

    def test_the_budget_is_kept(self):
        clock = Clock()
        tasks = [("first", 2.0, 2.0), ("slow", 3.0, 1000.0), ("never", 30.0, 1.0)]
        found = Contest(self.Y, self.OWN, 30.0, silent, clock=clock).run(
            [self.candidate(*task, clock) for task in tasks]
        )
        assert [one.name for one in found] == ["first"]
        assert [one.name for one in found.skipped] == ["slow", "never"]
        assert found.skipped[0].reason.startswith("did not end within")
        assert found.skipped[1].reason == "forecast 92 s, 0 s of the budget left"
        assert clock.now <= 2 + 100  # one step of the slow one

    def test_a_slow_machine_is_allowed_for(self):
        clock = Clock()
        tasks = [("first", 1.5, 4.0), ("second", 5.5, 1.0)]
        found = Contest(self.Y, self.OWN, 10.0, silent, clock=clock).run(
            [self.candidate(*task, clock) for task in tasks]
        )
        assert [one.name for one in found] == ["first"]
        assert found.skipped[0].reason == "forecast 12 s, 6 s of the budget left"

    def test_a_single_point_has_no_standard_error(self):
        candidate = Candidate("a", "A.", 0.0, lambda s: Scored(*np.zeros((2, 1, 1)), np.zeros(1)))
        (one,) = Contest(np.zeros((1, 1)), np.ones(1), 5.0, silent).run([candidate])
        assert one.standard_error is None
        assert one.gain == 1.0

    def test_least_seconds_and_none(self):
        assert contest_module.LEAST_SECONDS > 0
        assert Contest(self.Y, self.OWN, 1.0, silent).run([]) == ()


def test_watching_goes_through_every_report():
    seen = []
    with watched(seen.append), reporter("inner", True) as report:
        report("step")
    assert seen == ["step"]
    with reporter("outer", False) as report:
        assert report is silent


class TestTables:
    def test_a_kernel_is_a_plain_refit(self, only):
        names = only("kernel matern-1/2", "transformed targets")
        model = cgp.ExactGPRegressor(random_state=3).fit(*TRAIN)
        found = cgp.alternatives(model, *TEST, random_state=5)
        assert names == [
            "kernel matern-1/2", "kernel matern-3/2", "kernel matern-5/2", "transformed targets",
            "local part", "mixture", "gradient boosting",
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
        scored = boosted(Data.of(X[:80], both[:80]), X[80:], both[80:], 0)
        assert one.nlpd == pytest.approx(scored.nlpd.mean())

    def test_a_process_without_its_estimator(self, only):
        names = only("gradient boosting")
        process = cgp.ExactGPRegressor(optimizer=None).fit(*TRAIN).process_
        (one,) = cgp.alternatives(process, *TEST)
        assert np.isfinite(one.gain)
        assert "mixture" in names

    def test_boosting_has_the_error_of_cross_validation(self):
        scored = boosted(Data.of(X[:80], Y[:80, None]), X[80:], Y[80:, None], 4)
        plain = HistGradientBoostingRegressor(random_state=4)
        folds = KFold(5, shuffle=True, random_state=4)
        error = np.sqrt(np.mean((Y[:80] - cross_val_predict(plain, *TRAIN, cv=folds)) ** 2))
        mean = plain.fit(*TRAIN).predict(X[80:])
        np.testing.assert_allclose(scored.mean[:, 0], mean)
        np.testing.assert_allclose(scored.std, error)
        np.testing.assert_allclose(scored.nlpd, point_nlpd(Y[80:], mean, scored.std[:, 0]))
        few = boosted(Data.of(X[:9], Y[:9, None]), X[80:], Y[80:, None], 0)
        assert few == "expected 60 training rows at least, got 9"

    @pytest.mark.filterwarnings("ignore:y. expected targets that differ")
    def test_constant_targets_and_one_point(self, only):
        only("kernel matern-1/2", "gradient boosting")
        model = cgp.ExactGPRegressor(random_state=0).fit(X[:80], np.full(80, 2.0))
        found = cgp.alternatives(model, X[80:81], [2.0])
        assert len(found) + len(found.skipped) == 2
        assert all(one.standard_error is None for one in found)


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
        (row,) = alternatives_table(found).rows
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
