"""Reports, audits and cross-validations: figures by plain formulas, faults that were planted."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import coupledgp as cgp
from coupledgp.diagnostics import SCORES, Check, Look, Rule, Score, StochasticOptions, gaussian_kl
from coupledgp.errors import InvalidInputError

RNG = np.random.default_rng(31)
X = RNG.uniform(-2, 2, (160, 2))
F = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
Y = F + 0.2 * RNG.normal(size=160)
A, B = slice(0, 110), slice(110, 160)
TABLES = (X[A], Y[A], X[B], Y[B])
GIVEN: dict[str, Any] = {
    "lengthscale": [0.8, 2.5], "outputscale": 1.0, "noise": 0.04, "optimizer": None,
}  # fmt: skip
STATED = F[B], np.full(50, 0.2)


def exact(**changes: Any) -> Any:
    return cgp.ExactGPRegressor(**(GIVEN | changes)).fit(X[A], Y[A])


def sparse(m: int = 40, **changes: Any) -> Any:
    model = cgp.SparseSpectrumGPRegressor(n_frequencies=m, random_state=1, **(GIVEN | changes))
    return model.fit(X[A], Y[A])


def quick(model: Any, **more: Any) -> Any:
    return cgp.report(model, X[B], Y[B], **({"depth": "scores"} | more))


def colours(report: Any) -> list[str]:
    return [one.colour for one in report.verdicts]


class TestFigures:
    def test_scores_and_distances_by_plain_formulas(self) -> None:
        model, twin = sparse(), sparse().exact_twin()
        found = quick(model)
        (mean, cov), (other, exact_cov) = (
            one.predict(X[B], return_cov=True) for one in (model, twin)
        )
        std = np.sqrt(np.diag(cov))
        assert found.score("rmse") == pytest.approx(np.sqrt(np.mean((Y[B] - mean) ** 2)))
        nlpd = -stats.norm.logpdf(Y[B], mean, std).mean()
        assert found.score("nlpd") == pytest.approx(nlpd)
        joint = -stats.multivariate_normal(mean, cov).logpdf(Y[B]) / 50
        assert found.score("nlpd_joint") == pytest.approx(joint, rel=1e-8)
        assert found.score("rmse", "exact process") == pytest.approx(
            np.sqrt(np.mean((Y[B] - other) ** 2))
        )
        assert found.score("kl") == pytest.approx(gaussian_kl(other, exact_cov, mean, cov) / 50)
        gain = found.tables.gain("exact process")
        own = stats.norm.logpdf(Y[B], other, np.sqrt(np.diag(exact_cov)))
        assert gain.gain == pytest.approx(own.mean() + nlpd)

    @pytest.mark.parametrize("n_columns", [200, 20])
    def test_solves_give_the_figures_of_dense_algebra_within_their_bounds(
        self, n_columns: int
    ) -> None:
        model = sparse()
        options = StochasticOptions(tolerance=1e-4, dtype="float64", n_columns=n_columns)
        found, dense = quick(model, exact=options), quick(model)
        row = found.tables.figure("distance", metric="kl")
        error = 5 * np.nan_to_num(row.error)
        assert row.value - row.below - error <= dense.score("kl") <= row.value + row.above + error
        assert len(found.tables.predictions) == min(n_columns, 50)

    def test_a_reference_of_the_users(self) -> None:
        found = quick(sparse(), exact=exact(noise=0.08))
        assert found.score("rmse", "reference") == pytest.approx(
            quick(exact(noise=0.08)).score("rmse")
        )
        assert quick(sparse(), exact=None).verdicts[2].colour == "grey"

    def test_several_outputs_are_means_of_each(self) -> None:
        both = np.column_stack([Y, 2 * F + 1])
        model = cgp.SparseSpectrumGPRegressor(n_frequencies=30, random_state=1, **GIVEN)
        model.fit(X[A], both[A])
        found = cgp.report(model, X[B], both[B], depth="checks")
        error = np.square(model.predict(X[B]) - both[B]).mean()
        assert found.score("rmse") == pytest.approx(np.sqrt(error))
        assert found.tables.calibration.n == 100

    def test_parts_and_clusters_have_rows_of_their_own(self) -> None:
        part, sensor = np.repeat(["in gaps", "ahead"], 25), np.arange(50) % 5
        found = quick(exact(), parts=part, cluster={"sensor": sensor})
        error = np.square(Y[B] - exact().predict(X[B]))
        assert found.score("rmse", part="ahead") == pytest.approx(np.sqrt(error[25:].mean()))
        rows = found.to_frame().query("group == '3' and metric == 'rmse'")
        assert rows.value.iloc[0] == pytest.approx(np.sqrt(error[sensor == 3].mean()))

    def test_own_scores_rules_looks_and_sections(self) -> None:
        def alternating(column: Any, residuals: Any) -> Any:
            return np.abs((residuals * (1 - 2 * (np.arange(50) % 2))).mean(axis=1))

        look = Look(
            "alternating", alternating, lambda c, r, rows: (np.zeros(50), np.ones(50)),
            lambda c, r, scale: "Errors alternate", lambda c, r: "Add it.", origins=("order",),
        )  # fmt: skip
        score = Score(lambda law, y: np.abs(y - law.mean) ** 3, "cubed")
        rule = Rule("Could it predict better?", "own", lambda t: [
            Check("Could it predict better?", "own", "red", "It is mine.", True)
        ])  # fmt: skip
        found = quick(
            exact(), depth="checks", scores=SCORES | {"cubed": score}, rules=[rule],
            sections={"own": lambda report: ("Heading", report.to_frame().head(2), None)},
        )  # fmt: skip
        cubed = np.mean(np.abs(Y[B] - exact().predict(X[B])) ** 3)
        assert found.score("cubed") == pytest.approx(cubed)
        assert found.verdicts[0].sentence == "It is mine."
        assert "Heading" in found.to_html()
        looked = quick(exact(), depth="checks", looks=[look]).to_frame("checks")
        assert "alternating" in set(looked.rule)


class TestVerdicts:
    def test_a_right_law_is_green(self) -> None:
        assert colours(cgp.audit(STATED, *TABLES)) == ["green", "green", "grey"]
        assert colours(cgp.report(exact(), X[B], Y[B]))[1:] == ["green", "green"]

    @pytest.mark.parametrize(
        ("mean", "std", "question", "words"),
        [
            (F[B], 0.05, 1, "too small"),
            (F[B] + 0.4, 0.2, 1, "above|below|small"),
            (0 * F[B], 1.2, 0, "predicts better"),
        ],
    )
    def test_planted_faults_are_found(
        self, mean: Any, std: float, question: int, words: str
    ) -> None:
        found = cgp.audit((mean, np.full(50, std)), *TABLES, depth="checks")
        assert found.verdicts[question].colour == "red"
        fired = " ".join(one.sentence for one in found.checks if one.fired)
        assert any(word in fired for word in words.split("|"))
        assert found.advice
        assert found.advice[0].gain >= 0.01

    def test_a_coarse_approximation_is_told_to_be_closer(self) -> None:
        found = cgp.report(sparse(4), X[B], Y[B])
        assert found.verdicts[2].colour == "red"
        assert any(one.rule in ("closer", "closeness") for one in found.advice)

    def test_known_rows_and_few_points_are_not_judged(self) -> None:
        known = cgp.report(exact(), X[A], Y[A], depth="checks")
        assert colours(known)[:2] == ["grey", "grey"]
        assert not known.advice
        assert known.warnings[0].startswith("110 of 110 test rows are training rows")
        some = cgp.report(
            exact(), np.r_[X[B], X[:9]], np.r_[Y[B], Y[:9]], leave_out_overlap=True, depth="scores"
        )
        assert len(some.tables.predictions) == 50
        assert colours(cgp.report(exact(), X[B][:7], Y[B][:7]))[:2] == ["grey", "grey"]
        with pytest.raises(InvalidInputError, match="all 110 test rows are training rows"):
            cgp.report(exact(), X[A], Y[A], leave_out_overlap=True)

    def test_depths_add_checks(self) -> None:
        found = {one: quick(exact(), depth=one) for one in ("scores", "checks", "full")}
        n = [len(one.checks) for one in found.values()]
        assert n[0] < n[1] < n[2]
        assert found["scores"].tables.calibration is None
        assert len({one.score("nlpd") for one in found.values()}) == 1


class TestForms:
    def test_json_and_frames(self, tmp_path: Any) -> None:
        found = quick(sparse())
        path = found.to_json(tmp_path / "a.json")
        assert json.loads(path.read_text())["verdicts"][0]["question"] == found.verdicts[0].question
        assert found.to_html(tmp_path / "a.html") == tmp_path / "a.html"
        frame = found.to_frame()
        frame["value"] = 0.0
        assert found.score("rmse") > 0  # frames are copies
        with pytest.raises(InvalidInputError, match="table: expected one of"):
            found.to_frame("other")
        with pytest.raises(InvalidInputError, match="expected a row of the table of scores"):
            found.score("cubed")

    def test_former_names_forward(self) -> None:
        with pytest.warns(FutureWarning, match=r"coupledgp\.report"):
            found = cgp.posterior_report(exact(), X[B], Y[B], depth="scores")
        assert found.score("rmse") == quick(exact()).score("rmse")

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"depth": "some"}, "depth: expected one of"),
            ({"groups": np.zeros(3)}, "groups: expected 50 values for 'group'"),
            ({"columns": {"t": [np.nan] * 50}}, "columns: expected a value for each test point"),
            ({"exact": "other"}, "exact: expected one of"),
            ({"rivals": ["other"]}, "rivals: expected 'auto'"),
        ],
    )
    def test_wrong_arguments(self, changes: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            quick(exact(), **changes)

    def test_series_are_put_into_the_order_of_frames(self) -> None:
        rows = pd.DataFrame(X[B], columns=["a", "b"], index=np.arange(50) + 7)
        y = pd.Series(Y[B], index=rows.index, name="height")
        model = cgp.ExactGPRegressor(**GIVEN).fit(pd.DataFrame(X[A], columns=["a", "b"]), Y[A])
        found = [cgp.report(model, rows, one, depth="scores") for one in (y, y[::-1])]
        assert found[0].score("rmse") == found[1].score("rmse")
        assert found[0].tables.predictions.target == "height"
        law = pd.DataFrame({"mean": F[B], "std": 0.2}, index=rows.index)
        both = [cgp.audit(law[::-1], None, None, rows, one, depth="scores") for one in (y, y[::-1])]
        assert both[0].score("crps") == both[1].score("crps") < 0.15
        with pytest.raises(InvalidInputError, match="expected the same index"):
            cgp.report(model, rows, pd.Series(Y[B], index=np.arange(50) + 8))


class TestLeftOut:
    def test_figures_are_those_of_refits(self) -> None:
        model = exact()
        found = cgp.cross_validate(model, depth="checks")
        some = [0, 17, 80]
        for row in some:
            rest = np.delete(np.arange(110), row)
            other = model.conditioned_on(X[A][rest], Y[A][rest])
            mean, std = other.predict(X[A][[row]], return_std=True)
            law = found.tables.predictions.law
            assert law.mean[row, 0] == pytest.approx(mean[0], rel=1e-6)
            assert law.std[row, 0] == pytest.approx(std[0], rel=1e-6)
        assert found.verdicts[2].colour == "grey"

    def test_errors_are_those_over_groups(self) -> None:
        day = np.arange(110) // 11
        found = cgp.cross_validate(exact(), groups=day, depth="scores")
        p = found.tables.predictions
        losses = -stats.norm.logpdf(Y[A], p.law.mean[:, 0], p.law.std[:, 0])
        sums = np.bincount(day, losses - losses.mean())
        error = np.sqrt(np.square(sums).sum() * 10 / 9) / 110
        assert found.tables.figure("scores", metric="nlpd", model=p.name).error == pytest.approx(
            error
        )

    def test_few_rows_for_many_hyperparameters_are_warned_of(self) -> None:
        model = cgp.ExactGPRegressor(random_state=0).fit(X[:30], Y[:30])
        found = cgp.cross_validate(model, depth="checks")
        assert any("score it on new rows" in one for one in found.warnings)
        assert found.verdicts[1].colour != "green"

    def test_what_cannot_be_left_out_says_why(self) -> None:
        with pytest.raises(InvalidInputError, match="expected a fitted model of this package"):
            cgp.cross_validate(STATED)
        with pytest.raises(InvalidInputError, match="expected two groups at least"):
            cgp.cross_validate(exact(), groups=np.zeros(110))
