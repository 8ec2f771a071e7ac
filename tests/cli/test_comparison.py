"""`coupledgp fit` compares with the exact GP: which rows, which method, which density."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import coupledgp as cgp
from coupledgp import diagnostics
from coupledgp.cli import run
from coupledgp.cli.readers import notices
from coupledgp.cli.shared import evaluate
from tests.cli.tables import PRICE, QUICK, columns


def test_large_tables_are_compared_on_a_stated_subsample(data, call, monkeypatch):
    monkeypatch.setattr("coupledgp.cli.shared.evaluate.MAX_TEST_ROWS", 10)
    arguments = ["fit", data, "-t", "price", *QUICK, "--exact-rows", 20]
    out = call(*arguments)
    assert "on 20 of 48 training rows, at 10 of 12 test rows" in out
    figures = json.loads(call(*arguments, "--json"))["comparison"]
    assert (figures["n_train"], figures["n_test"]) == (20, 10)
    assert "comparison" not in call(*arguments[:-2], "--exact-rows", 0)


def test_subsample_is_that_of_the_posterior_given_those_rows(data, call, tmp_path, monkeypatch):
    given = []
    compare = diagnostics.compare

    def spy(model, X, y=None, **options):
        given.append((model, X, y))
        return compare(model, X, y, **options)

    monkeypatch.setattr("coupledgp.cli.shared.evaluate.compare", spy)
    call("fit", data, "-t", "price", *QUICK, "--exact-rows", 20, "-o", tmp_path / "m")
    (model, _, y), whole = given[0], cgp.load_model(tmp_path / "m")
    assert len(model.X_train_) == 20
    assert len(y) == 12
    assert np.array_equal(model.lengthscale_, whole.lengthscale_)
    assert model.noise_ == whole.noise_


@pytest.mark.parametrize(
    ("how", "n_rows", "exact_rows", "expected"),
    [
        ("auto", 5000, None, (5000, "dense", 1000)),
        ("auto", 5001, None, (5001, "stochastic", 128)),
        ("auto", 40_000, None, (40_000, "stochastic", 128)),
        ("auto", 40_001, None, (2000, "dense", 1000)),
        ("auto", 50_000, 500, (500, "dense", 1000)),
        ("auto", 50_000, 6000, (6000, "stochastic", 128)),
        ("auto", 300, 500, (300, "dense", 1000)),
        ("subset", 3000, None, (2000, "dense", 1000)),
        ("subset", 100, None, (100, "dense", 1000)),
        ("dense", 9000, None, (9000, "dense", 1000)),
        ("stochastic", 300, None, (300, "stochastic", 128)),
        ("stochastic", 90_000, None, (90_000, "stochastic", 128)),
        ("none", 300, None, None),
        ("auto", 300, 0, None),
    ],
)
def test_what_is_compared(how, n_rows, exact_rows, expected):
    plan = evaluate.plan_comparison(how, n_rows, exact_rows)
    assert plan == (None if expected is None else evaluate.Plan(*expected))


def test_the_whole_model_is_compared_by_solves(data, capsys, monkeypatch):
    """Above the dense limit the expected time is printed on stderr before the comparison."""
    monkeypatch.setattr(evaluate, "DENSE_ROWS", 40)
    monkeypatch.setattr(evaluate, "MAX_SOLVED_ROWS", 7)
    monkeypatch.setattr(notices, "LONG_SECONDS", 0.0)
    monkeypatch.setattr(cgp.SparseSpectrumGPRegressor, "exact_twin", None)
    arguments = ["fit", data, "-t", "price", *QUICK]
    assert run(arguments) == 0
    out, err = capsys.readouterr()
    assert "on 48 training rows, at 7 of 12 test rows; the exact law by iterative solves" in out
    assert err.startswith("coupledgp: comparing with the exact GP of 48 rows at 7 points")
    assert err.count("\n") == 1
    assert run([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["comparison"]
    assert found["accuracy"]["method"] == "stochastic"
    assert found["accuracy"]["bounds"]["kl_per_point"][1] < 1e-3
    assert run([*arguments, "--json", "--compare", "none"]) == 0
    assert json.loads(capsys.readouterr().out)["comparison"] is None


def test_both_methods_agree(data, call):
    arguments = ["fit", data, "-t", "price", *QUICK, "--json", "--compare"]
    dense, solved = (
        json.loads(call(*arguments, how))["comparison"] for how in ("dense", "stochastic")
    )
    assert dense["accuracy"]["method"] == "dense"
    for name in ("kl_per_point", "reference_rmse", "reference_nlpd"):
        assert solved[name] == pytest.approx(dense[name], rel=1e-3, abs=1e-4), name


def test_the_cost_of_solves_is_said_only_if_it_is_long(capsys):
    evaluate.announce_solves(5001, 128, "hint")
    assert capsys.readouterr() == ("", "")
    evaluate.announce_solves(36_000, 128, "--compare subset is quicker")
    assert capsys.readouterr() == (
        "",
        "coupledgp: comparing with the exact GP of 36000 rows at 128 points by iterative solves: "
        "about 4 min of one core, some times that if the noise is small; "
        "--compare subset is quicker\n",
    )


def test_a_dense_exact_gp_that_does_not_fit_is_refused_before_the_fit(data, fails, monkeypatch):
    monkeypatch.setattr(cgp.SparseSpectrumGPRegressor, "fit", None)
    monkeypatch.setattr("coupledgp.ground.memory.available_bytes", lambda: 1000.0)
    monkeypatch.setattr("coupledgp.ground.memory.UNASKED", 0)
    assert "X: 48 rows of the exact GP need about" in fails(
        "fit", data, "-t", "price", "--compare", "dense"
    )


@pytest.mark.long
def test_the_nlpd_of_a_mixture_is_that_of_its_density(data, call, tmp_path):
    arguments = ["fit", data, "-t", "price", "--test", data, *QUICK, "--frequencies", "fitted"]
    arguments += ["-o", tmp_path / "m"]
    result = json.loads(call(*arguments, "--json"))
    model = cgp.load_model(tmp_path / "m")
    X = pa.table({name: np.asarray(v, dtype=float) for name, v in columns(price=None).items()})
    terms = []
    for weight, member in zip(model.member_weights_, model.members_, strict=True):
        terms.append(np.log(weight) + norm.logpdf(PRICE, *member.predict(X, return_std=True)))
    expected = -logsumexp(terms, axis=0).mean()
    assert result["scores"]["nlpd"] == pytest.approx(expected, rel=1e-9)
    assert result["comparison"]["nlpd"] == pytest.approx(expected, rel=1e-9)
    gaussian = -norm.logpdf(PRICE, *model.predict(X, return_std=True)).mean()
    assert result["scores"]["nlpd"] != pytest.approx(gaussian, rel=1e-6)
    assert result["scores"]["density"] == "mixture"
    out = call(*arguments)
    assert "NLPD, nats a row (density of the mixture)" in out
    assert f"a mixture of {len(model.members_)} Gaussian laws" in out
