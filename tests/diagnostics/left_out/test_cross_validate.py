"""Reports of what is left out: figures, errors over groups, tables, forms and verdicts."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

import coupledgp as cgp
from coupledgp.core.process import Data
from coupledgp.diagnostics.left_out.asked import LeftOutTask
from coupledgp.diagnostics.left_out.report import optimism, rows_table
from coupledgp.diagnostics.rivals.of_process import left_out_rivals
from coupledgp.diagnostics.scoring.scores import error_over_groups, point_crps
from coupledgp.errors import CoupledGPError, InvalidInputError

RNG = np.random.default_rng(12)
X = RNG.uniform(-2, 2, (120, 2))
DAY = np.arange(120) % 6
OFFSETS = 0.3 * RNG.normal(size=6)
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + OFFSETS[DAY] + 0.2 * RNG.normal(size=120)
SETTINGS = {"n_frequencies": 24, "optimizer": None, "noise": 0.1, "random_state": 0}
cross_validate = cgp.diagnostics.cross_validate


@pytest.fixture(scope="module")
def model():
    return cgp.SparseSpectrumGPRegressor(**SETTINGS).fit(X, Y)


@pytest.mark.parametrize("groups", [None, DAY, np.array(list("abcdef"))[DAY]])
def test_figures_are_those_of_refits(model, groups):
    report = cross_validate(model, groups)
    numbers = np.arange(120) if groups is None else DAY
    process, mean, std = model.process_, np.empty(120), np.empty(120)
    for number in np.unique(numbers):
        out = numbers == number
        rest = process.conditioned(Data.of(X[~out], Y[~out, None]))
        law = rest.law(X[out], "variance")
        mean[out], std[out] = law.mean[:, 0], np.sqrt(law.spread[:, 0])
    z = (Y - mean) / std
    assert report.rmse == pytest.approx(np.sqrt(np.mean((Y - mean) ** 2)))
    expected = 0.5 * z**2 + np.log(std) + 0.5 * np.log(2 * np.pi)
    assert report.nlpd == pytest.approx(expected.mean())
    assert report.coverage[0.95] == pytest.approx(np.mean(np.abs(z) < 1.959964))
    sums = np.array([(expected - expected.mean())[numbers == k].sum() for k in np.unique(numbers)])
    error = np.sqrt((sums**2).sum() * sums.size / (sums.size - 1)) / 120
    assert report.standard_errors["nlpd"] == pytest.approx(error)
    table = report.left_out_table()
    np.testing.assert_allclose(table["mean"], mean[table["row"]])
    np.testing.assert_allclose(table["residual"], z[table["row"]])
    assert (np.diff(np.abs(table["residual"])) <= 0).all()
    assert report.n_test == 120
    assert report.n_groups == np.unique(numbers).size


def test_errors_of_single_rows_are_those_of_independent_ones():
    losses = RNG.normal(size=50)
    expected = losses.std(ddof=1) / np.sqrt(50)
    assert error_over_groups(losses, np.arange(50)) == pytest.approx(expected)
    assert error_over_groups(losses, np.zeros(50)) is None
    # Rows that repeat each other say no more than one of them.
    repeated, groups = np.repeat(losses, 4), np.repeat(np.arange(50), 4)
    assert error_over_groups(repeated, groups) == pytest.approx(expected)


def test_baselines_leave_out_the_same_groups(model):
    report = cross_validate(model, DAY)
    rivals = {one.name: one for one in left_out_rivals(model.process_, DAY)}
    assert [one.name for one in report.baselines] == list(rivals)
    for one in report.baselines:
        other = rivals[one.name]
        assert one.rmse == pytest.approx(np.sqrt(np.mean((Y - other.mean[:, 0]) ** 2)))
        gap = report.rmse**2 - one.rmse**2
        assert one.differences["squared_error"]["mean"] == pytest.approx(gap)
    mean = next(one for one in report.baselines if one.name == "mean")
    others = np.array([Y[day != DAY].mean() for day in DAY])
    assert mean.rmse == pytest.approx(np.sqrt(np.mean((Y - others) ** 2)))


def test_groups_go_together_in_the_judgement(model):
    """Days that share an error make coverage less certain than as many single rows."""
    single, days = cross_validate(model), cross_validate(model, DAY)
    assert single.is_joint
    assert days.is_joint
    blocks = cross_validate(model, np.digitize(X[:, 0], [-1, 0, 1]))
    errors = [one.calibration.standard_error[0.5] for one in (single, blocks)]
    assert errors[1] > 1.3 * errors[0]
    assert single.calibration.binomial_error[0.5] == pytest.approx(np.sqrt(0.25 / 120))


@pytest.mark.long
def test_some_rows_are_scored_from_all(model):
    some, every = cross_validate(model, max_rows=30), cross_validate(model)
    table, other = some.left_out_table(), every.left_out_table()
    assert some.n_test == 30
    means = dict(zip(other["row"], other["mean"], strict=True))
    np.testing.assert_allclose(table["mean"], [means[row] for row in table["row"]])
    assert "30 of 120 rows" in some.left_out
    again = cross_validate(model, max_rows=30).left_out_table()
    np.testing.assert_array_equal(table["row"], again["row"])
    assert set(cross_validate(model, max_rows=30, random_state=1).rows) != set(some.rows)


def test_rows_of_equal_inputs_are_left_out_together():
    twice = np.repeat(np.arange(60), 2)
    model = cgp.SparseSpectrumGPRegressor(**SETTINGS).fit(X[twice], Y[:120])
    report = cross_validate(model)
    law = model.process_.left_out_law(twice)
    table = report.left_out_table()
    np.testing.assert_allclose(table["mean"], law.mean[table["row"], 0])
    assert "equal inputs" in report.left_out
    assert report.n_groups == 60


def test_groups_by_the_name_of_an_input():
    kind = np.array(["new", "old", "rare"])[np.minimum(np.arange(120) % 5, 2)]
    table = pa.table({"a": X[:, 0], "kind": kind, "n": DAY.astype(float)})
    model = cgp.SparseSpectrumGPRegressor(**SETTINGS).fit(table, Y)
    found = cross_validate(model, "kind").group_table()
    expected = cross_validate(model, kind).group_table()
    assert found["group"].tolist() == expected["group"].tolist()
    np.testing.assert_allclose(found["rmse"], expected["rmse"])
    assert dict(zip(found["group"], found["n"], strict=True)) == {"new": 24, "old": 24, "rare": 72}
    assert cross_validate(model, "n").n_groups == 6
    with pytest.raises(InvalidInputError, match="one of a, kind, n"):
        cross_validate(model, "b")


def test_group_table(model):
    report = cross_validate(model, DAY)
    table, rows = report.group_table(), report.left_out_table()
    assert table["n"].tolist() == [20] * 6
    assert (np.diff(table["nlpd"]) <= 0).all()
    for name, rmse, share in zip(table["group"], table["rmse"], table["coverage"], strict=True):
        own = rows["group"] == name
        assert rmse == pytest.approx(np.sqrt(np.mean((rows["y"] - rows["mean"])[own] ** 2)))
        assert share == pytest.approx(rows["inside"][own].mean())


def test_several_outputs():
    model = cgp.SparseSpectrumGPRegressor(**SETTINGS).fit(X, np.column_stack([Y, 3 * X[:, 1]]))
    report = cross_validate(model, DAY)
    table = report.left_out_table()
    assert len(table["y"]) == 240
    assert set(table["output"]) == {0, 1}
    assert report.figures.n_outputs == 2
    assert report.calibration is not None
    assert "output" in rows_table(report).columns


def test_transformed_targets_are_scored_in_their_units():
    y = np.exp(Y)
    model = cgp.SparseSpectrumGPRegressor(**SETTINGS, target_transform="log").fit(X, y)
    report = cross_validate(model)
    np.testing.assert_allclose(report.predictions.y[:, 0], Y)
    assert any("transformed" in remark for remark in report.remarks)
    law = model.process_.left_out_law(np.arange(120))
    assert (law.mean > 0).all()


@pytest.mark.long
def test_a_mixture_is_scored_by_its_own_density():
    model = cgp.SparseSpectrumGPRegressor(
        n_frequencies=9,
        hyperparameters="averaged",
        options={"n_hyperparameter_draws": 4},
        random_state=0,
    ).fit(X, Y)
    report = cross_validate(model)
    law = model.process_.left_out(np.arange(120))
    assert report.nlpd == pytest.approx(-law.log_density(Y[:, None]).mean())
    assert report.is_joint
    table = report.left_out_table()
    assert table["nlpd"].mean() == pytest.approx(report.nlpd)
    assert table["crps"].mean() == pytest.approx(report.crps)
    normal = point_crps(table["y"], table["mean"], table["std"])
    assert abs(normal.mean() - report.crps) > 1e-6


def test_graphs_are_left_out_by_node():
    graph = cgp.Graph.from_edges(np.arange(59), np.arange(1, 60))
    nodes = np.repeat(np.arange(5, 45), 2)
    y = np.sin(nodes / 5) + 0.1 * RNG.normal(size=80)
    model = cgp.ExactGraphGPRegressor(graph, random_state=0).fit(nodes, y)
    report = cross_validate(model)
    assert (report.kind, report.n_groups) == ("nodes", 40)
    law = model.process_.left_out_law(nodes)
    table = report.left_out_table()
    np.testing.assert_allclose(table["mean"], law.mean[table["row"], 0])
    assert set(table["group"]) == set(nodes.astype(str))


@pytest.mark.long
def test_forms(model, tmp_path):
    report = cross_validate(model, DAY, title="By day", data="six days")
    found = json.loads(report.to_json(tmp_path / "r.json"))
    assert found["groups_are"] == "groups"
    assert found["n_groups"] == 6
    assert found["rmse"] == report.rmse
    assert len(found["worst_groups"]) == 6
    assert len(found["worst_rows"]) == 20
    assert found["provenance"]["data"] == "six days"
    page = report.to_html(tmp_path / "r.html")
    for text in ("By day", "rows left out", "the worst first", "What else could be used"):
        assert text in page
    assert "test points" not in page
    assert report.verdict().startswith("Left out: 120 rows, each from those of other groups")
    colours = [one.colour for one in report.verdicts]
    assert colours[2] == "grey"
    assert "compare()" in report.verdicts[2].sentence


def test_verdicts_find_known_faults():
    good = cgp.ExactGPRegressor(random_state=0).fit(X, Y - OFFSETS[DAY])
    assert [one.colour for one in cross_validate(good).verdicts[:2]] == ["green", "green"]
    # Days come again every six rows, which no column says.
    daily = cgp.ExactGPRegressor(random_state=0).fit(X, Y)
    assert [one.check for one in cross_validate(daily).evidence.findings.found] == ["repeats"]
    narrow = good.process_.hyperparameters.noise / 30
    made = cgp.ExactGPRegressor(
        lengthscale=good.lengthscale_, outputscale=good.process_.hyperparameters.outputscale,
        noise=narrow, optimizer=None,
    ).fit(X, Y)  # fmt: skip
    assert cross_validate(made).verdicts[1].colour == "red"
    noise = RNG.normal(size=120)
    useless = cgp.ExactGPRegressor(lengthscale=0.3, noise=0.01, optimizer=None).fit(X, noise)
    assert cross_validate(useless).verdicts[0].colour == "red"


def test_few_rows_for_many_hyperparameters_are_warned_of():
    few = cgp.ExactGPRegressor(random_state=0).fit(X[:20], Y[:20])
    report = cross_validate(few)
    assert report.warnings[0].startswith("4 hyperparameters of 20 targets")
    assert report.verdict().startswith(report.warnings[0])
    assert report.verdicts[1].colour != "green"
    if report.verdicts[1].colour == "grey":
        assert report.verdicts[1].sentence.startswith("Few rows chose many")
    lead = report.verdicts[0].figure
    assert (report.verdicts[0].colour == "green") == (lead > 2 * 4 / 20)
    many = cross_validate(cgp.ExactGPRegressor(random_state=0).fit(X, Y))
    assert many.warnings == ()
    assert "4 hyperparameters" in many.remarks[0]


@pytest.mark.long
def test_hyperparameters_are_counted(model):
    assert optimism(model.process_).n_hyperparameters == 4
    alike = cgp.ExactGPRegressor(lengthscale=1.0, optimizer=None).fit(X, Y).process_
    assert optimism(alike).n_hyperparameters == 3
    local = cgp.LocalGPRegressor(random_state=0).fit(X, Y).process_
    assert optimism(local).n_hyperparameters == local.local_prior.vector.size


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros(120), "two groups at least"),
        (np.arange(119), "each of 120 training rows"),
        (np.where(np.arange(120) == 7, np.nan, 1.0), "row 7 has none"),
        (np.array([None] + ["a"] * 119, dtype=object), "row 0 has none"),
        ("a", "an array, since inputs have no names"),
    ],
)
def test_groups_are_checked(model, groups, message):
    with pytest.raises(InvalidInputError, match=message):
        cross_validate(model, groups)


def test_models_that_cannot_be_left_out_say_why(model):
    from sklearn.linear_model import LinearRegression

    with pytest.raises(InvalidInputError, match=r"coupledgp\.audit"):
        cross_validate(LinearRegression().fit(X, Y))
    with pytest.raises(CoupledGPError, match="training rows"):
        cross_validate(model.process_.without_data())
    with pytest.raises(InvalidInputError, match="max_rows"):
        cross_validate(model, max_rows=1)


def test_groups_of_numbers_keep_their_order(model):
    task = LeftOutTask.of(model, 10 - DAY, 1000, 0)
    assert task.names.tolist() == ["5", "6", "7", "8", "9", "10"]
