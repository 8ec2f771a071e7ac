"""A score that a user registers is in every form of a report; the table states all the others."""

import json
import pickle
import re
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
from scipy import stats

import coupledgp as cgp
from coupledgp.diagnostics import (
    Figures,
    JointScore,
    MarginalScore,
    PointScore,
    StochasticOptions,
    compare,
    register_score,
    unregister_score,
)
from coupledgp.diagnostics.scoring.score_table import SCORES, score_names
from coupledgp.errors import InvalidInputError

RNG = np.random.default_rng(5)
X = RNG.normal(size=(60, 2))
Y = np.sin(X[:, 0]) + 0.2 * RNG.normal(size=60)
TRAIN, TEST = slice(0, 40), slice(40, 60)
SOLVED = {"method": "stochastic", "options": StochasticOptions(rank=20)}


def pinball_points(y, mean, std):
    """Loss of the 90 % quantile of a Gaussian law."""
    gap = y - (mean + stats.norm.ppf(0.9) * std)
    return np.maximum(0.9 * gap, -0.1 * gap)


def pinball(**options):
    return PointScore(
        name="pinball", label="pinball loss at 90 %", unit="units of y", points=pinball_points,
        **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def model():
    return cgp.SparseSpectrumGPRegressor(
        n_frequencies=6, optimizer=None, noise=0.1, random_state=0
    ).fit(X[TRAIN], Y[TRAIN])


@pytest.fixture(autouse=True)
def table():
    """The table of scores, as it was afterwards."""
    before = dict(SCORES)
    yield SCORES
    SCORES.clear()
    SCORES.update(before)


def row_of(page, heading):
    """Cells of the row of a page's table that has a heading."""
    cell = '<td class="[a-z]+">[^<]*</td>'
    found = re.search(rf'<th scope="row">{re.escape(heading)}</th>((?:{cell})*)', page)
    assert found, f"{heading}: no such row"
    return re.findall(">([^<]*)</td>", found[1])


@pytest.mark.long
def test_a_mean_of_losses_is_everywhere(model):
    register_score(pinball())
    report = compare(model, X[TEST], Y[TEST])
    laws = {}
    for prefix, estimator in (("", model), ("reference_", model.exact_twin())):
        laws[prefix] = pinball_points(Y[TEST], *estimator.predict(X[TEST], return_std=True))
    found = report.to_dict()
    for prefix, losses in laws.items():
        assert found[f"{prefix}pinball"] == pytest.approx(losses.mean())
        error = losses.std(ddof=1) / np.sqrt(20)
        assert found[f"{prefix}standard_errors"]["pinball"] == pytest.approx(error)
    gap = laws[""] - laws["reference_"]
    assert found["differences"]["pinball"]["mean"] == pytest.approx(gap.mean())
    assert (
        report.figures.get("pinball") == found["pinball"] == json.loads(report.to_json())["pinball"]
    )
    own, other = row_of(report.to_html(), "pinball loss at 90 %, units of y")
    assert own == f"{report.figures.get('pinball'):.4g} ± {found['standard_errors']['pinball']:.2g}"
    assert other.startswith(f"{report.figures.get('reference_pinball'):.4g} ± ")
    assert row_of(report.to_html(), "model - reference, pinball loss at 90 %")[0].startswith(
        f"{gap.mean():+.3g} ± "
    )


@pytest.mark.long
def test_bounds_of_solves_stand_beside_it(model):
    def bounds(y, mean, std, mean_error, least_std):
        assert y.shape == mean.shape == std.shape == mean_error.shape == least_std.shape == (20, 1)
        assert (least_std <= std).all()
        losses = pinball_points(y, mean, std)
        return losses - 0.25, losses + 0.5

    register_score(pinball(bounds=bounds))
    report = compare(model, X[TEST], Y[TEST], **SOLVED)
    assert report.accuracy.bounds["reference_pinball"] == pytest.approx((0.25, 0.5))
    _, other = row_of(report.to_html(), "pinball loss at 90 %, units of y")
    assert other.endswith("(bounds -0.2 +0.5)")


@pytest.mark.long
def test_a_score_without_bounds_says_so_where_solves_stop_at_a_tolerance(model):
    register_score(pinball())
    register_score(
        MarginalScore(name="gap", label="gap", function=lambda y, mean, std: float(np.max(std)))
    )
    assert not compare(model, X[TEST], Y[TEST]).accuracy.unbounded
    report = compare(model, X[TEST], Y[TEST], **SOLVED)
    assert set(report.accuracy.unbounded) == {
        "reference_pinball", "reference_gap", "differences.pinball"
    }  # fmt: skip
    own, other = row_of(report.to_html(), "pinball loss at 90 %, units of y")
    assert other.endswith("(no bound)")
    assert "bound" not in own
    options = StochasticOptions(rank=20, n_columns=10)
    report = compare(model, X[TEST], Y[TEST], method="stochastic", options=options)
    assert {"gap", "reference_gap", "reference_pinball"} <= set(report.accuracy.unbounded)
    assert "pinball" in report.accuracy.standard_errors


def test_columns_in_the_names_of_scoringrules(model):
    report = compare(model, X[TEST], Y[TEST])
    table = report.scoring_table()
    assert {len(column) for column in table.values()} == {20}
    for prefix in ("", "reference_"):
        law = stats.norm(table[f"{prefix}mu"], table[f"{prefix}sigma"])
        np.testing.assert_allclose(table[f"{prefix}logs_normal"], -law.logpdf(table["obs"]))
        crps = table[f"{prefix}crps_normal"].mean()
        assert crps == pytest.approx(report.figures.get(f"{prefix}crps"))
    with pytest.raises(InvalidInputError, match="y_test: expected targets"):
        compare(model, X[TEST]).scoring_table()


@pytest.mark.long
def test_a_number_of_all_marginals(model):
    register_score(
        MarginalScore(
            name="largest_gap", label="largest gap", format=lambda value: f"about {value:.1f}",
            function=lambda y, mean, std: float(np.abs(y - mean).max()),
        )
    )  # fmt: skip
    report = compare(model, X[TEST], Y[TEST])
    expected = np.abs(Y[TEST] - model.predict(X[TEST])).max()
    assert report.to_dict()["largest_gap"] == pytest.approx(expected)
    assert row_of(report.to_html(), "largest gap")[0] == f"about {expected:.1f}"
    assert "largest_gap" not in report.standard_errors
    assert "largest_gap" not in report.differences


@pytest.mark.long
def test_numbers_by_level(model):
    register_score(
        MarginalScore(
            name="missed", label="outside {level} intervals", unit="points",
            function=lambda y, mean, std: {0.5: 3.0, 0.9: 1.0},
        )
    )  # fmt: skip
    page = compare(model, X[TEST], Y[TEST]).to_html()
    assert row_of(page, "outside 50 % intervals, points") == ["3", "3"]
    assert row_of(page, "outside 90 % intervals, points") == ["1", "1"]


@pytest.mark.long
def test_a_score_of_the_joint_law(model):
    def mahalanobis(y, mean, cov):
        return float((y - mean) @ np.linalg.solve(cov, y - mean)) / y.size

    register_score(JointScore(name="mahalanobis", label="Mahalanobis", function=mahalanobis))
    report = compare(model, X[TEST], Y[TEST])
    mean, cov = model.predict(X[TEST], return_cov=True)
    assert report.figures.get("mahalanobis") == pytest.approx(mahalanobis(Y[TEST], mean, cov))
    assert row_of(report.to_html(), "Mahalanobis")[0] == f"{report.figures.get('mahalanobis'):.4g}"


@pytest.mark.long
def test_where_more_is_better_the_table_says_so(model):
    register_score(
        PointScore(
            name="likelihood", label="likelihood", lower_is_better=False,
            points=lambda y, mean, std: stats.norm(mean, std).pdf(y),
        )
    )  # fmt: skip
    page = compare(model, X[TEST], Y[TEST]).to_html()
    assert row_of(page, "model - reference, likelihood (higher is better)")


def test_without_targets_it_is_none(model):
    register_score(pinball())
    report = compare(model, X[TEST])
    assert report.to_dict()["pinball"] is report.figures.get("reference_pinball") is None
    assert "pinball" not in report.to_html()


def test_a_report_made_before_stays_as_it_was(model):
    before = compare(model, X[TEST], Y[TEST])
    register_score(pinball())
    assert "pinball" not in before.to_dict()
    assert "pinball" not in before.to_html()


def test_pickled_reports_keep_it(model):
    register_score(pinball())
    report = compare(model, X[TEST], Y[TEST])
    again = pickle.loads(pickle.dumps(report))
    assert again.figures.get("pinball") == report.figures.get("pinball")
    assert again.figures == report.figures != compare(model, X[TEST]).figures


@pytest.mark.parametrize(
    "name", ["rmse", "reference_pinball", "kl_per_point", "differences", "two words", ""]
)
def test_names_that_are_taken(name):
    with pytest.raises(InvalidInputError, match="name: expected an identifier that is not taken"):
        register_score(PointScore(name=name, label="a score", points=pinball_points))


def test_losses_whose_name_is_taken():
    with pytest.raises(InvalidInputError, match=r"loss_name: .* not taken, got 'squared_error'"):
        register_score(pinball(loss_name="squared_error"))
    assert "pinball" not in SCORES


def test_a_score_is_registered_again_and_taken_out():
    register_score(pinball())
    register_score(PointScore(name="later", label="later", points=pinball_points))
    with pytest.raises(InvalidInputError, match="name: 'pinball' is taken; replace=True"):
        register_score(pinball())
    again = pinball()
    register_score(again, replace=True)
    assert SCORES["pinball"] is again
    assert list(SCORES)[-2:] == ["pinball", "later"]
    with pytest.raises(InvalidInputError, match="expected an identifier that is not taken"):
        register_score(PointScore(name="rmse", label="other", points=pinball_points), replace=True)
    unregister_score("pinball")
    with pytest.raises(InvalidInputError, match=r"name: expected .* got 'pinball'"):
        unregister_score("pinball")


def test_what_is_no_score():
    with pytest.raises(InvalidInputError, match=r"score: expected a PointScore, .* got function"):
        register_score(pinball_points)


def test_every_figure_of_the_package_is_an_attribute_of_reports(model):
    report = compare(model, X[TEST], Y[TEST])
    names = [item.name for item in fields(Figures)]
    assert set(score_names()) <= set(names)
    assert {name: getattr(report, name) for name in names} == report.figures.to_dict()


def test_figures_are_frozen_and_take_known_names_only():
    figures = Figures(3, 1, 0.5, 0.25, rmse=2.0)
    assert (figures.kl_per_point, figures.rmse, figures.mae) == (0.5, 2.0, None)
    assert "rmse=2.0" in repr(figures)
    with pytest.raises(FrozenInstanceError):
        figures.rmse = 1.0
    with pytest.raises(TypeError, match=r"expected names of figures and scores, got \['pinball'\]"):
        Figures(3, 1, 0.5, 0.25, pinball=2.0)
