"""The ladder of rows: which rungs are climbed, by what rule, in which precision, and why."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from coupledgp.core import ladder as ladder_module
from coupledgp.core.ladder import (
    SINGLE_ERROR,
    Ladder,
    Rung,
    climb,
    rung_sizes,
    single_error,
)
from coupledgp.core.optimize import maximise_evidence
from coupledgp.core.problem import (
    EvidenceGradient,
    LadderProblem,
    PredictiveEvidence,
    RowWeights,
    SpectralEvidence,
)
from coupledgp.core.search import Search, TableObjective
from coupledgp.core.starts import SearchSpace
from coupledgp.core.weights_evidence import FeatureEvidence
from coupledgp.core.weights_posterior import FeatureStream
from coupledgp.features import FeatureMap, FourierFeatures, LaplaceFeatures
from coupledgp.ground.progress import watched

DIM = 2


def table(n: int, rng: np.random.Generator, noise: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, DIM))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + noise * rng.normal(size=n)
    return X, (y - y.mean())[:, None] / y.std()


def problem_of(
    n: int, rng: np.random.Generator, m: int = 12, noise: float = 0.3
) -> FeatureEvidence:
    X, y = table(n, rng, noise)
    stream = FeatureStream(FourierFeatures(DIM, m, generator=1), X, np.zeros(DIM), np.ones(DIM))
    return FeatureEvidence(stream, y)


@pytest.mark.parametrize(
    ("n_rows", "sizes"),
    [
        (5, [5]),
        (2048, [2048]),
        (2049, [1024, 2049]),
        (8191, [1024, 8191]),
        (8192, [1024, 4096, 8192]),
        (15_000, [1024, 4096, 15_000]),
        (36_000, [1024, 4096, 16_384, 36_000]),
        (10**6, [1024, 4096, 16_384, 65_536, 262_144, 10**6]),
    ],
)
def test_rungs_are_four_times_as_large_as_the_last(n_rows: int, sizes: list[int]) -> None:
    assert rung_sizes(n_rows) == sizes


class PretendAt(PredictiveEvidence):
    """Evidence with its maximum at a lengthscale that the number of rows decides."""

    def __init__(self, problem: Pretend, lengthscale: np.ndarray) -> None:
        self.problem, self.theta = problem, np.log(lengthscale)

    def spectral(self) -> SpectralEvidence:
        raise AssertionError("the variances are kept")

    def value(self, outputscale: float, noise: float) -> float:
        return self.evaluate(outputscale, noise).value

    def evaluate(self, outputscale: float, noise: float) -> EvidenceGradient:
        gap = self.theta - self.problem.optimum
        n = self.problem.n_rows
        return EvidenceGradient(-n * float(gap @ gap), -2 * n * gap, 0.0, 0.0)

    def log_density(self, others: LadderProblem, outputscale: float, noise: float) -> np.ndarray:
        row = np.random.default_rng(0).normal(size=others.n_rows)
        gain = np.interp(self.theta[0], *self.problem.gains)
        wobble = np.random.default_rng(int(1e6 + 1e3 * self.theta[0])).normal(size=others.n_rows)
        return gain + row + 0.1 * (wobble - wobble.mean())


class Pretend(LadderProblem):
    """Problem of n rows whose best log lengthscale is the logarithm to base four of n / 64."""

    n_outputs = 1
    weights = None

    def __init__(self, n_rows: int, gains: tuple[list[float], list[float]]) -> None:
        self.n_rows, self.gains = n_rows, gains
        self.optimum = np.log(n_rows / 64) / np.log(4)

    def at(self, lengthscale: np.ndarray) -> PretendAt:
        return PretendAt(self, lengthscale)

    def subset(self, rows: np.ndarray) -> Pretend:
        return Pretend(len(rows), self.gains)

    def single_precision(self) -> None:
        return None


def climbed(gains: list[float], monkeypatch: pytest.MonkeyPatch) -> tuple[float, Ladder]:
    """The log lengthscale and the ladder of 8192 pretended rows; gains at theta 0, 1, 2, ..."""
    monkeypatch.setattr(ladder_module, "FIRST_ROWS", 64)
    problem = Pretend(8192, (list(range(len(gains))), gains))
    space = SearchSpace(base=np.ones(1), ard=True, free=frozenset({"lengthscale"}))
    rng = np.random.default_rng(0)
    found, ladder = climb(problem, space, [np.array([0.3])], 1, 100, rng)
    return float(found.point[0]), ladder


class TestChoice:
    def test_it_climbs_while_the_held_out_density_rises(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        theta, ladder = climbed([0.0, 0.5, 1.0, 1.5, 2.0], monkeypatch)
        assert [rung.n_rows for rung in ladder.rungs] == [64, 256, 1024, 4096, 8192]
        assert theta == pytest.approx(3.5, abs=1e-3)
        assert ladder.rungs[0].rise is None
        assert ladder.rungs[-1].rise is None
        assert ladder.rungs[1].rise == pytest.approx(0.5, abs=0.02)
        assert ladder.rungs[1].error == pytest.approx(0.1 * np.sqrt(2 / 1024), rel=0.1)
        assert "4096 instead of 1024 rows" in ladder.explain()
        assert "the next step was the whole table" in ladder.explain()

    def test_it_stops_where_the_rise_is_within_its_error(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        theta, ladder = climbed([0.0, 0.5, 0.5, 0.5, 0.5], monkeypatch)
        assert [rung.n_rows for rung in ladder.rungs] == [64, 256, 1024]
        assert theta == pytest.approx(2.0, abs=1e-3)
        assert ladder.chosen is ladder.rungs[-1]
        assert "no rise by more than its error" in ladder.explain()

    def test_it_steps_back_where_the_density_falls(self, monkeypatch: pytest.MonkeyPatch) -> None:
        theta, ladder = climbed([0.0, 0.5, 0.2, 0.9, 0.9], monkeypatch)
        assert [rung.n_rows for rung in ladder.rungs] == [64, 256, 1024]
        assert ladder.rungs[-1].fell
        assert ladder.chosen is ladder.rungs[1]
        assert theta == pytest.approx(1.0, abs=1e-3)
        assert ladder.explain().startswith("Lengthscales from 256 of 8192 rows: those from 1024")


def test_words_of_short_tables_and_kept_lengthscales() -> None:
    assert "the table was searched whole" in Ladder(50, 0, (Rung(50, 3, 2, True),)).explain()
    rungs = Rung(1024, 3, 2, True), Rung(3000, 3, 2, True)
    assert "too short for a comparison" in Ladder(3000, 375, rungs).explain()
    assert "Lengthscales are kept" in Ladder(50).explain()


class TestFeatures:
    @pytest.mark.parametrize("n", [15, 60])
    @pytest.mark.parametrize("n_outputs", [1, 2])
    def test_held_out_densities_are_those_of_the_joint_law(
        self, n: int, n_outputs: int, rng: np.random.Generator
    ) -> None:
        """By the law of all rows together, conditioned row by row."""
        v, s, lengthscale = 1.7, 0.2, np.array([1.2, 0.7])
        problem = problem_of(n + 5, rng)
        problem = FeatureEvidence(problem.stream, rng.normal(size=(n + 5, n_outputs)))
        order = rng.permutation(n + 5)
        given, others = problem.subset(order[:n]), problem.subset(order[n:])
        found = given.at(lengthscale).log_density(others, v, s)
        phi = replace(problem.stream, lengthscale=lengthscale).dense().numpy()[order]
        law = v * phi @ phi.T + s * np.eye(n + 5)
        y = problem.targets[order]
        for row, density in zip(range(n, n + 5), found, strict=True):
            weights = np.linalg.solve(law[:n, :n], law[:n, row])
            spread = np.sqrt(law[row, row] - weights @ law[:n, row])
            expected = stats.norm.logpdf(y[row], weights @ y[:n], spread).sum()
            assert density == pytest.approx(expected, rel=1e-8)

    @pytest.mark.parametrize("n", [15, 60])
    def test_held_out_densities_of_weighted_rows(self, n: int, rng: np.random.Generator) -> None:
        """Noise of each row in the law of the given rows and of the others; counts as shares."""
        v, s, lengthscale = 1.7, 0.2, np.array([1.2, 0.7])
        plain = problem_of(n + 5, rng)
        weights = RowWeights(rng.uniform(0.5, 2, n + 5), rng.uniform(0.5, 2, n + 5))
        problem = FeatureEvidence(plain.stream, plain.targets, weights)
        given, others = problem.subset(np.arange(n)), problem.subset(np.arange(n, n + 5))
        found = given.at(lengthscale).log_density(others, v, s)
        phi = replace(problem.stream, lengthscale=lengthscale).dense().numpy()
        law = v * phi @ phi.T
        inner = law[:n, :n] + s * np.diag(weights.relative_noise[:n])
        gain = np.linalg.solve(inner, law[:n, n:]).T
        variance = np.diag(law)[n:] - (gain * law[n:, :n]).sum(1) + s * weights.noise[n:]
        y = problem.targets[:, 0]
        expected = stats.norm.logpdf(y[n:], gain @ y[:n], np.sqrt(variance))
        shares = weights.counts[n:] / weights.counts[n:].mean()
        np.testing.assert_allclose(found, expected * shares, rtol=1e-8)

    def test_subsets_share_the_inputs(self, rng: np.random.Generator) -> None:
        problem = problem_of(50, rng)
        part = problem.subset(np.array([4, 7, 30, 31])).subset(np.array([1, 3]))
        assert part.stream.X is problem.stream.X
        assert part.n_rows == part.stream.n_rows == 2
        np.testing.assert_array_equal(part.targets, problem.targets[[7, 31]])
        whole = problem.stream.dense()
        torch.testing.assert_close(part.stream.dense(), whole[[7, 31]])

    @pytest.mark.parametrize("kind", [FourierFeatures, LaplaceFeatures])
    @pytest.mark.parametrize("coupling", ["orthogonal+pnc", "orthogonal-fast"])
    @pytest.mark.parametrize("n", [30, 400])
    def test_single_precision_is_near_double(
        self, kind: type[FeatureMap], coupling: str, n: int, rng: np.random.Generator
    ) -> None:
        X, y = table(n, rng)
        made = kind(DIM, 20, coupling, generator=0)
        problem = FeatureEvidence(FeatureStream(made, X, np.zeros(DIM), np.ones(DIM)), y)
        single = problem.single_precision()
        assert single is not None
        assert single.stream.feature_map.dtype == torch.float32
        assert made.dtype == torch.float64
        assert single.single_precision() is None
        lengthscale = np.full(DIM, 2.5)
        exact, quick = (p.at(lengthscale).evaluate(1.1, 0.1) for p in (problem, single))
        assert 0 < single_error(exact, quick, problem) < 1e-4

    def test_its_gram_carries_no_ridge(self, rng: np.random.Generator) -> None:
        """The ridge of a float32 model would shift the evidence by more than the rounding does."""
        problem = problem_of(400, rng, noise=0.01)
        single = problem.single_precision()
        assert single is not None
        lengthscale, scales = np.full(DIM, 1.5), (1.0, 1e-2)
        exact = problem.at(lengthscale).evaluate(*scales)
        errors = [
            single_error(exact, FeatureEvidence(single.stream, single.targets, None, regular).at(
                lengthscale).evaluate(*scales), problem)
            for regular in (False, True)
        ]  # fmt: skip
        assert 10 * errors[0] < errors[1]

    def test_other_maps_stay_in_double(self, rng: np.random.Generator) -> None:
        class Own(FeatureMap):
            n_features = 3

            def _features(self, inputs: torch.Tensor) -> torch.Tensor:
                return self.project(inputs)

        X, y = table(20, rng)
        stream = FeatureStream(Own(DIM, 3, generator=0), X, np.zeros(DIM), np.ones(DIM))
        assert FeatureEvidence(stream, y).single_precision() is None

    def test_what_is_not_finite_is_far(self, rng: np.random.Generator) -> None:
        problem = problem_of(20, rng)
        exact = problem.at(np.ones(DIM)).evaluate(1.0, 0.1)
        lost = replace(exact, noise=float("nan"))
        assert single_error(exact, lost, problem) == float("inf")


@pytest.fixture
def short_rungs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder_module, "FIRST_ROWS", 64)


def searched(problem: FeatureEvidence, **options: object) -> object:
    space = SearchSpace(base=np.ones(DIM), ard=True)
    return maximise_evidence(problem, space, rng=np.random.default_rng(5), **options)  # type: ignore[arg-type]


@pytest.mark.usefixtures("short_rungs")
class TestSearch:
    def test_its_end_is_nearly_a_maximum_of_its_rung(self, rng: np.random.Generator) -> None:
        """No search of all rows in double precision finds much more than the last rung's end."""
        problem = problem_of(400, rng)
        found = searched(problem)
        space = SearchSpace(base=np.ones(DIM), ard=True)
        objective = TableObjective(problem, space)
        start = space.logarithms(found.hyperparameters.lengthscale)  # type: ignore[attr-defined]
        best = Search().improved(objective, start, ladder_module.Stopping(100, 1e-12, 1e-8))
        assert found.log_evidence / 400 >= -best.value - 3e-3  # type: ignore[attr-defined]

    def test_same_seed_same_bits(self, rng: np.random.Generator) -> None:
        problem = problem_of(700, rng)
        first, second = searched(problem), searched(problem)
        np.testing.assert_array_equal(
            first.hyperparameters.lengthscale,
            second.hyperparameters.lengthscale,  # type: ignore[attr-defined]
        )
        assert first.log_evidence == second.log_evidence  # type: ignore[attr-defined]
        assert first.ladder == second.ladder  # type: ignore[attr-defined]

    def test_single_precision_gives_the_hyperparameters_of_double(
        self, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        problem = problem_of(400, rng)
        single = searched(problem)
        monkeypatch.setattr(FeatureEvidence, "single_precision", lambda self: None)
        double = searched(problem)
        assert [r.single_precision for r in single.ladder.rungs] == [True] * len(
            single.ladder.rungs
        )  # type: ignore[attr-defined]
        assert not any(rung.single_precision for rung in double.ladder.rungs)  # type: ignore[attr-defined]
        assert single.log_evidence / 400 == pytest.approx(double.log_evidence / 400, abs=1e-3)  # type: ignore[attr-defined]

    def test_little_noise_is_searched_in_double(self, rng: np.random.Generator) -> None:
        """Where rounding in single precision exceeds the ridge, it is no help."""
        problem = problem_of(400, rng, m=60, noise=1e-5)
        found = searched(problem)
        assert not found.ladder.rungs[-1].single_precision  # type: ignore[attr-defined]
        assert found.hyperparameters.noise < 1e-4  # type: ignore[attr-defined]
        assert SINGLE_ERROR < 1e-3

    def test_messages_name_the_rung(self, rng: np.random.Generator) -> None:
        messages: list[str] = []
        with watched(messages.append):
            searched(problem_of(700, rng))
        assert messages[0].startswith("start values: 64 of 700 rows: evaluation ")
        assert "log evidence" in messages[0]
        assert any(message.startswith("256 of 700 rows: evaluation") for message in messages)
        assert messages[-1].startswith("Lengthscales from ")

    def test_short_tables_are_searched_whole(self, rng: np.random.Generator) -> None:
        found = searched(problem_of(128, rng))
        assert [rung.n_rows for rung in found.ladder.rungs] == [128]  # type: ignore[attr-defined]
        assert not found.ladder.rungs[0].single_precision  # type: ignore[attr-defined]
