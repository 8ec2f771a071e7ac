"""The command line as a person uses it: tables in, figures out, and one line for each trouble."""

import csv
import decimal
import json
import re
import subprocess
import sys
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import coupledgp as cgp
from coupledgp import diagnostics
from coupledgp.cli import evaluate, run
from coupledgp.cli.commands import demo_field, demo_pages, demo_study

RNG = np.random.default_rng(7)
N = 60
A, B = RNG.normal(size=N), RNG.integers(0, 9, N)
PRICE = np.round(np.sin(2 * A) + 0.1 * RNG.normal(size=N), 4)
QUICK = ["--n-frequencies", "12", "--max-iter", "4", "--n-restarts", "0"]


def columns(n=N, **changes):
    table = {
        "a": A[:n],
        "b b": B[:n],
        "flag": B[:n] > 4,
        "fixed": np.full(n, 3),
        "price": PRICE[:n],
    }
    return {name: list(values) for name, values in (table | changes).items() if values is not None}


def write_csv(path, table, delimiter=","):
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
    return str(path)


def read_csv(path, delimiter=","):
    with open(path, newline="") as file:
        rows = list(csv.reader(file, delimiter=delimiter))
    return {name: [row[k] for row in rows[1:]] for k, name in enumerate(rows[0])}


@pytest.fixture
def data(tmp_path):
    return write_csv(tmp_path / "data.csv", columns())


@pytest.fixture
def call(capsys):
    """Run a command, which must succeed, and return its output on stdout."""

    def call(*arguments):
        code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert (code, err) == (0, "")
        return out

    return call


@pytest.fixture
def fails(capsys, tmp_path):
    """Run a command; it must fail with one line and leave no file. Returns the line."""

    def fails(*arguments):
        before = set(tmp_path.rglob("*"))
        code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert code == 2
        assert out == ""
        assert err.count("\n") == 1
        assert err.startswith("coupledgp: error: ")
        assert set(tmp_path.rglob("*")) == before
        return err

    return fails


@pytest.fixture(scope="module")
def model_path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    data = write_csv(folder / "data.csv", columns())
    arguments = ["fit", data, "-t", "price", *QUICK, "--exact-rows", "0", "-o", folder / "m"]
    assert run([*map(str, arguments), "--json"]) == 0
    return folder / "m"


# fit


def test_fit_prints_a_table_that_names_the_columns(data, call):
    out = call("fit", data, "--target", "price", *QUICK)
    lines = out.splitlines()
    assert "data.csv: target 'price', 4 columns, 48 training rows, 12 test rows" in lines[0]
    listed = {line.split("  ")[0]: line for line in lines if "  " in line}
    for name in ("a", "b b", "flag", "fixed", "outputscale (variance)", "noise (variance)"):
        float(listed[name].removeprefix(name).split()[0])
    for text in ("RMSE", "NLPD", "coverage of 50 %", "coverage of 95 %", "KL(reference || model)"):
        assert text in out, text
    assert "on 48 training rows, at 12 test rows" in out
    assert "Time: fit" in out


def test_a_transformed_target_gives_positive_intervals(tmp_path, call):
    data = write_csv(tmp_path / "train.csv", columns(price=np.exp(np.sin(2 * A) + 1)))
    options = ["-t", "price", *QUICK, "--target-transform"]
    result = json.loads(call("fit", data, *options, "box-cox", "--json", "-o", tmp_path / "m"))
    assert result["scores"]["density"] == "transformed"
    assert result["model"]["target_transform"].startswith("box-cox(power=")
    assert set(result["scores"]["coverage"]) == {"0.5", "0.8", "0.95"}
    assert "target transformed by log" in call("fit", data, *options, "log")
    call("predict", tmp_path / "m", data, "-o", tmp_path / "out.csv", "--interval", "0.95")
    assert min(map(float, read_csv(tmp_path / "out.csv")["lower_95"])) >= 0


def test_columns_of_weights_and_noise_are_no_inputs(tmp_path, call, fails):
    table = columns(w=np.where(np.arange(N) % 2, 2, 0), s2=np.full(N, 0.25))
    data = write_csv(tmp_path / "train.csv", table)
    arguments = ["fit", data, "-t", "price", *QUICK, "--holdout", "0", "--exact-rows", "20"]
    arguments += ["--json", "--include-data", "-o"]
    call(*arguments, tmp_path / "w", "--weight-column", "w", "--drop", "s2")
    model = cgp.load_model(tmp_path / "w")
    assert list(model.feature_names_in_) == ["a", "b b", "flag", "fixed"]
    assert len(model.X_train_) == N // 2
    assert (model.process_.data.counts == 2).all()
    result = json.loads(call(*arguments, tmp_path / "s", "--noise-column", "s2", "--drop", "w"))
    assert result["hyperparameters"]["noise"] == pytest.approx(0.25)
    for option in ("--weight-column", "--noise-column"):
        missing = fails(*arguments, tmp_path / "x", option, "nothing")
        assert "--weight-column, --noise-column: " in missing
        assert "expected column 'nothing'" in missing
        assert "besides the target" in fails(*arguments, tmp_path / "x", option, "price")


def test_json_is_all_that_is_printed_and_the_figures_are_right(tmp_path, call):
    train = write_csv(tmp_path / "train.csv", columns())
    shifted = columns(n=25, a=A[:25] + 0.3, price=np.sin(2 * (A[:25] + 0.3)))
    test = write_csv(tmp_path / "test.csv", shifted)
    result = json.loads(
        call("fit", train, "-t", "price", "--test", test, *QUICK, "--json",
             "-o", tmp_path / "m", "--include-data")
    )  # fmt: skip
    model = cgp.load_model(tmp_path / "m")
    names = ["a", "b b", "flag", "fixed"]
    assert list(model.feature_names_in_) == names
    assert len(model.X_train_) == result["data"]["n_train"] == N
    X = pa.table({name: np.asarray(shifted[name], dtype=float) for name in names})
    y = np.asarray(shifted["price"])
    mean, std = model.predict(X, return_std=True)
    scores = result["scores"]
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((y - mean) ** 2)))
    assert scores["r2"] == pytest.approx(model.score(X, y))
    assert scores["nlpd"] == pytest.approx(-norm.logpdf(y, mean, std).mean())
    for level in (0.5, 0.8, 0.95):
        low, high = norm.interval(level, mean, std)
        assert scores["coverage"][str(level)] == pytest.approx(np.mean((low <= y) & (y <= high)))
    assert result["log_evidence"] == model.log_marginal_likelihood_value_
    assert result["hyperparameters"]["noise"] == model.noise_
    assert list(result["hyperparameters"]["lengthscale"].values()) == list(model.lengthscale_)
    report = diagnostics.compare(model, X, y)
    assert result["comparison"]["kl_per_point"] == pytest.approx(report.kl_per_point, rel=1e-6)
    assert set(result["seconds"]) == {"fit", "predict", "compare"}


def test_relevance_finds_the_only_column_that_matters(data, call):
    result = json.loads(call("fit", data, "-t", "price", "--n-frequencies", 24, "--json"))
    relevance = result["hyperparameters"]["spread_over_lengthscale"]
    assert max(relevance, key=relevance.get) == "a"
    assert relevance["fixed"] == 0
    assert result["scores"]["r2"] > 0.8


def test_large_tables_are_compared_on_a_stated_subsample(data, call, monkeypatch):
    monkeypatch.setattr("coupledgp.cli.evaluate.MAX_TEST_ROWS", 10)
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

    monkeypatch.setattr("coupledgp.cli.evaluate.compare", spy)
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
    monkeypatch.setattr(evaluate, "LONG_SECONDS", 0.0)
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
    evaluate.announce(5001, 128, "hint")
    assert capsys.readouterr() == ("", "")
    evaluate.announce(36_000, 128, "--compare subset is quicker")
    assert capsys.readouterr() == (
        "",
        "coupledgp: comparing with the exact GP of 36000 rows at 128 points by iterative solves: "
        "about 4 min of CPU time, some times that if the noise is small; "
        "--compare subset is quicker\n",
    )


def test_a_dense_exact_gp_that_does_not_fit_is_refused_before_the_fit(data, fails, monkeypatch):
    monkeypatch.setattr(cgp.SparseSpectrumGPRegressor, "fit", None)
    monkeypatch.setattr("coupledgp.memory.available_bytes", lambda: 1000.0)
    assert "X: 48 rows of the exact GP need about" in fails(
        "fit", data, "-t", "price", "--compare", "dense"
    )


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


def test_options_reach_the_model(data, call, tmp_path):
    call("fit", data, "-t", "price", "--kernel", "matern-3/2", "--coupling", "halton",
         "--frequencies", "fitted", "--objective", "posterior-kl",
         "--isotropic", "--dtype", "float32", "--seed", 5, "--n-frequencies", 9, "--max-iter", 2,
         "--drop", "flag", "--drop", "b b", "-o", tmp_path / "m")  # fmt: skip
    model = cgp.load_model(tmp_path / "m")
    parameters = model.get_params()
    expected = {"kernel": "matern-3/2", "coupling": "halton", "ard": False, "dtype": "float32",
                "random_state": 5, "n_frequencies": 9, "max_iter": 2,
                "frequencies": "fitted", "objective": "posterior-kl"}  # fmt: skip
    assert {name: parameters[name] for name in expected} == expected
    assert list(model.feature_names_in_) == ["a", "fixed"]


def test_same_seed_same_figures(data, call):
    arguments = ["fit", data, "-t", "price", *QUICK, "--json", "--seed"]
    first, again, other = (json.loads(call(*arguments, seed)) for seed in (1, 1, 2))
    assert first["scores"] == again["scores"]
    assert first["scores"] != other["scores"]


def test_without_test_rows_nothing_is_scored(data, call, tmp_path):
    empty = write_csv(tmp_path / "empty.csv", columns(n=0))
    for arguments in (["--holdout", 0], ["--test", empty]):
        out = call("fit", data, "-t", "price", *QUICK, *arguments)
        assert "60 training rows" in out
        assert "Scores on" not in out
        assert "at 60 training inputs" in out
        assert "KL(reference || model)" in out
        result = json.loads(call("fit", data, "-t", "price", *QUICK, *arguments, "--json"))
        assert result["scores"] is None
        assert result["comparison"]["rmse"] is None


@pytest.mark.parametrize("n", [1, 2, 3])
def test_tiny_tables(n, tmp_path, call):
    data = write_csv(tmp_path / "tiny.csv", columns(n=n))
    call("fit", data, "-t", "price", *QUICK, "--report", tmp_path / "r.html")
    json.loads(call("fit", data, "-t", "price", *QUICK, "--json"))


def test_constant_target_gives_json_without_nan(tmp_path, call):
    data = write_csv(tmp_path / "c.csv", columns(price=np.full(N, 2)))
    result = json.loads(call("fit", data, "-t", "price", *QUICK, "--json"))
    assert result["scores"]["r2"] is None


def test_number_types_give_the_same_fit(tmp_path, call, data):
    digits = decimal.Context(prec=20)
    table = pa.table(
        {
            "a": pa.array(A),
            "b b": pa.array(B, pa.uint8()),
            "flag": pa.array(B > 4),
            "fixed": pa.array(np.full(N, 3), pa.float32()),
            "price": pa.array([digits.create_decimal(str(p)) for p in PRICE], pa.decimal128(20, 4)),
        }
    )
    pa.parquet.write_table(table, tmp_path / "data.parquet")
    expected = json.loads(call("fit", data, "-t", "price", *QUICK, "--json"))
    result = json.loads(call("fit", tmp_path / "data.parquet", "-t", "price", *QUICK, "--json"))
    # A decimal may turn into the neighbour of the float64 that its text turns into.
    assert result["scores"]["rmse"] == pytest.approx(expected["scores"]["rmse"], rel=1e-5)
    lengthscales = [r["hyperparameters"]["lengthscale"] for r in (result, expected)]
    assert lengthscales[0] == pytest.approx(lengthscales[1], rel=1e-4)


@pytest.mark.parametrize(("name", "delimiter"), [("d.csv", ";"), ("d.tsv", "\t"), ("d.txt", ",")])
def test_delimiters(name, delimiter, tmp_path, call, data):
    other = write_csv(tmp_path / name, columns(), delimiter)
    arguments = ["-t", "price", *QUICK, "--json"]
    first, second = (json.loads(call("fit", path, *arguments)) for path in (data, other))
    assert first["scores"] == second["scores"]


def test_a_column_may_turn_from_whole_numbers_late(tmp_path, call):
    path = tmp_path / "late.csv"
    rows = "".join(f"{i % 7},{i % 5}\n" for i in range(300_000))  # more than pyarrow's first block
    path.write_text("x,y\n" + rows + "1.5,2\n")
    out = call("fit", path, "-t", "y", "--n-frequencies", 4, "--max-iter", 1, "--exact-rows", 50)
    assert "240001 training rows" in out


def test_html_report_is_one_page_with_everything(data, call, tmp_path):
    path = tmp_path / "report.html"
    call("fit", data, "-t", "price", *QUICK, "--report", path, "-o", tmp_path / "<m>")
    page = path.read_text()
    assert page.count("<svg") == 6
    for text in ("Gaussian process for price", "Hyperparameters", "Scores on 12 test rows",
                 "b b", "KL(reference || model)", "&lt;m&gt;"):  # fmt: skip
        assert text in page, text
    assert not re.search(r"""(\ssrc|\shref|url)\s*[=(]\s*["']?(https?:|//)""", page)


def test_long_tables_list_the_columns_that_matter(tmp_path, call):
    table = {f"c{k}": RNG.normal(size=N) for k in range(25)}
    table["y"] = np.sin(table["c24"])
    out = call("fit", write_csv(tmp_path / "wide.csv", table), "-t", "y", *QUICK)
    assert "and 5 that matter less" in out


def test_names_that_look_like_markup(tmp_path, call):
    data = write_csv(tmp_path / "m.csv", {"[red]x[/red]": A, "[/y]": PRICE})
    assert "[red]x[/red]" in call("fit", data, "-t", "[/y]", *QUICK)


# predict


def test_predict_adds_columns_and_keeps_the_others_as_they_stand(model_path, tmp_path, call):
    table = columns(price=None, id=[f"00{k}" for k in range(N)], note=['say "a", b'] * N)
    shuffled = {name: table[name] for name in ["note", "fixed", "id", "flag", "b b", "a"]}
    path = write_csv(tmp_path / "new.csv", shuffled)
    out = call("predict", model_path, path, "-o", tmp_path / "out.csv")
    assert out == f"60 rows with 'mean' and 'std' written to {tmp_path / 'out.csv'}\n"
    before, after = read_csv(path), read_csv(tmp_path / "out.csv")
    assert list(after) == [*before, "mean", "std"]
    assert all(after[name] == before[name] for name in before)
    X = pa.table({n: np.asarray(table[n], dtype=float) for n in ("a", "b b", "flag", "fixed")})
    mean, std = cgp.load_model(model_path).predict(X, return_std=True)
    assert np.array_equal(np.array(after["mean"], dtype=float), mean)
    assert np.array_equal(np.array(after["std"], dtype=float), std)


def test_predict_in_a_new_process(model_path, data, tmp_path, call):
    call("predict", model_path, data, "-o", tmp_path / "here.csv")
    code = "from coupledgp.cli import main; main()"
    arguments = ["predict", str(model_path), data, "-o", str(tmp_path / "there.csv"), "--json"]
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["added"] == ["mean", "std"]
    here, there = (read_csv(tmp_path / name) for name in ("here.csv", "there.csv"))
    for name in ("mean", "std"):  # the last bits depend on the number of threads
        a, b = (np.array(table.pop(name), dtype=float) for table in (here, there))
        np.testing.assert_allclose(a, b, rtol=1e-10)
    assert here == there


def test_predict_adds_intervals(model_path, data, tmp_path, call):
    out = call("predict", model_path, data, "-o", tmp_path / "out.csv", "--interval", "0.9")
    assert "'mean', 'std', 'lower_90' and 'upper_90'" in out
    table = read_csv(tmp_path / "out.csv")
    mean, std, low, high = (
        np.array(table[name], dtype=float) for name in ("mean", "std", "lower_90", "upper_90")
    )
    np.testing.assert_allclose((low + high) / 2, mean, rtol=1e-9)
    np.testing.assert_allclose(high - low, 2 * 1.6448536269514722 * std, rtol=1e-9)


def test_an_interval_of_no_probability(model_path, data, tmp_path, fails):
    line = fails("predict", model_path, data, "-o", tmp_path / "out.csv", "--interval", "95")
    assert "--interval: expected a probability in (0, 1), got 95.0" in line


def test_predict_formats_prefix_and_latent(model_path, data, tmp_path, call):
    call("predict", model_path, data, "-o", tmp_path / "p.parquet", "--prefix", "price_")
    call("predict", model_path, tmp_path / "p.parquet", "-o", tmp_path / "q.tsv", "--latent")
    table, text = pa.parquet.read_table(tmp_path / "p.parquet"), read_csv(tmp_path / "q.tsv", "\t")
    assert table.column_names == [*columns(), "price_mean", "price_std"]
    assert list(text) == [*table.column_names, "mean", "std"]
    assert np.array_equal(table["price_mean"].to_numpy(), np.array(text["mean"], dtype=float))
    gap = table["price_std"].to_numpy() ** 2 - np.array(text["std"], dtype=float) ** 2
    np.testing.assert_allclose(gap, cgp.load_model(model_path).noise_, rtol=1e-8)


def test_predict_no_rows(model_path, tmp_path, call):
    path = write_csv(tmp_path / "none.csv", columns(n=0))
    assert call("predict", model_path, path, "-o", tmp_path / "o.csv").startswith("0 rows")
    assert list(read_csv(tmp_path / "o.csv")) == [*columns(), "mean", "std"]


def test_predict_in_batches_is_predict(model_path, data, tmp_path, call, monkeypatch):
    call("predict", model_path, data, "-o", tmp_path / "whole.csv")
    monkeypatch.setattr("coupledgp.cli.evaluate.BATCH_ROWS", 7)
    call("predict", model_path, data, "-o", tmp_path / "parts.csv")
    whole, parts = read_csv(tmp_path / "whole.csv"), read_csv(tmp_path / "parts.csv")
    for name in ("mean", "std"):
        np.testing.assert_allclose(
            np.array(parts[name], dtype=float), np.array(whole[name], dtype=float), rtol=1e-10
        )


def test_predict_with_models_saved_from_python(tmp_path, call, fails):
    X = np.stack([A, B], axis=1)
    path = write_csv(tmp_path / "x.csv", {"p": A, "q": B})
    model = cgp.SparseSpectrumGPRegressor(n_frequencies=8, optimizer=None, random_state=0)
    model.fit(X, np.stack([PRICE, 2 * PRICE], axis=1)).save(tmp_path / "two.model")
    cgp.ExactGPRegressor(optimizer=None).fit(X, PRICE).save(tmp_path / "exact.model")
    call("predict", tmp_path / "two.model", path, "-o", tmp_path / "two.csv")
    assert list(read_csv(tmp_path / "two.csv"))[2:] == ["mean_0", "std_0", "mean_1", "std_1"]
    call("predict", tmp_path / "exact.model", path, "-o", tmp_path / "exact.csv")
    three = write_csv(tmp_path / "three.csv", {"p": A, "q": B, "r": B})
    message = fails("predict", tmp_path / "exact.model", three, "-o", tmp_path / "no.csv")
    assert "expected 2 columns, since the model was fitted without column names, got 3" in message


# demo


def test_demo_writes_both_reports(tmp_path, call, monkeypatch):
    monkeypatch.setattr(demo_study, "SIZES", (4, 40))
    folder = tmp_path / "new" / "folder"
    out = call("demo", "--output", folder, "--n-seeds", 4)
    result = json.loads((folder / "report.json").read_text())
    page = (folder / "report.html").read_text()
    kl = {}
    for row in result["rows"]:
        kl[row["coupling"], row["n_frequencies"]] = row["kl_per_point"]["mean"]
        assert row["kl_per_point"]["standard_error"] > 0
    assert set(kl) == {(c, m) for c in demo_study.COUPLINGS for m in (4, 40)}
    for coupling in demo_study.COUPLINGS:
        assert coupling in out
        assert coupling in page
        assert kl[coupling, 40] < kl[coupling, 4]
    assert page.count("<svg") == 8
    assert result["exact"]["rmse"] < 70
    for name, couplings in (
        ("posterior-table", demo_pages.COUPLINGS),
        ("posterior-mesh", demo_pages.WALKERS),
    ):
        assert f'href="{name}.html"' in page
        report = json.loads((folder / f"{name}.json").read_text())
        further = (folder / f"{name}.html").read_text()
        assert all(one["sentence"] in further for one in report["verdicts"])
        assert report["study"]["verdict"] in further
        assert 0 < report["kl_per_point"] < 0.1
        kl = {(r["coupling"], r["size"]): r["kl_per_point"]["mean"]
              for r in report["study"]["rows"]}  # fmt: skip
        assert {coupling for coupling, _ in kl} == set(couplings)
        largest = max(size for _, size in kl)
        assert kl[couplings[-1], largest] < kl["iid", largest]
    assert "target minus mean" in further
    names = [
        f"{name}.{ending}"
        for name in ("report", "posterior-table", "posterior-mesh", "field")
        for ending in ("html", "json")
    ]
    written = sorted(path.name for path in folder.iterdir())
    assert written == sorted([*names, "field-sensors.csv", "field.ply"])
    rows = json.loads((folder / "field.json").read_text())["baselines"]["rows"]
    errors = {row["name"]: row["rmse"] for row in rows}
    assert errors["model"] < 0.5 * errors["nearest"]


def test_demo_json(tmp_path, call, monkeypatch):
    monkeypatch.setattr(demo_study, "SIZES", (4,))
    monkeypatch.setattr(demo_study, "write_further", lambda *paths, seed: None)
    monkeypatch.setattr(demo_field, "write_field", lambda *paths: None)
    out = call("demo", "-o", tmp_path, "--n-seeds", 1, "--json")
    assert out == (tmp_path / "report.json").read_text()
    assert json.loads(out)["rows"][0]["kl_per_point"]["standard_error"] == 0


# Trouble


def test_help_and_version(call):
    assert call("--version").startswith("coupledgp 0.")
    assert "predict" in call("--help") == call()
    for command in ("fit", "predict", "demo"):
        assert f"coupledgp {command} " in call(command, "--help").split("Example")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-t", "prise"], r"--target: .*data.csv: expected column 'prise'.*mean 'price'"),
        (["-t", "PRICE"], r"did you mean 'price'"),
        ([], r"Missing option '--target'"),
        (["-t", "price", "--drop", "flagg"], r"--drop: .*'flagg'.*did you mean 'flag'"),
        (["-t", "price", "--drop", "price"], r"--drop: expected columns besides the target"),
        (["-t", "price", "--kernel", "gaus"], r"kernel: expected one of 'gaussian'.*got 'gaus'"),
        (["-t", "price", "--coupling", "ortogonal"], r"coupling: .*did you mean 'orthogonal'"),
        (["-t", "price", "--features", "sin"], r"features: expected one of 'fourier'"),
        (["-t", "price", "--dtype", "int8"], r"dtype: expected one of"),
        (["-t", "price", "--n-frequencies", "0"], r"n_frequencies: expected an int >= 1"),
        (["-t", "price", "--max-iter", "0"], r"max_iter: expected an int >= 1"),
        (["-t", "price", "--holdout", "1"], r"--holdout: expected a share from 0 to below 1"),
        (["-t", "price", "--holdout", "-0.1"], r"--holdout: expected a share"),
        (["-t", "price", "--holdout", "nan"], r"--holdout: expected a share"),
        (["-t", "price", "--holdout", "half"], r"'--holdout'"),
        (["-t", "price", "--holdout", "0.2", "--test", "x.csv"], r"at most one"),
        (["-t", "price", "--test", "absent.csv"], r"absent.csv: No such file"),
        (["-t", "price", "--exact-rows", "-1"], r"--exact-rows: expected an int >= 0"),
        (["-t", "price", "--seed", "-1"], r"--seed: expected an int >= 0"),
        (["-t", "price", "--exact-rows", "0", "--report", "r.html"], r"--report: expected"),
        (["-t", "price", "--compare", "none", "--report", "r.html"], r"--report: expected"),
        (["-t", "price", "--compare", "exact"], r"--compare: expected one of 'auto'"),
        (["-t", "price", "-o", "/absent/m"], r"/absent/m: No such file or directory"),
        (["-t", "price", "--report", "/absent/r.html"], r"/absent/r.html: No such file"),
        (["-t", "price", "--sorcery"], r"--sorcery"),
    ],
)
def test_wrong_options(arguments, message, data, fails):
    assert re.search(message, fails("fit", data, *arguments))


def one_bad(column, value, row):
    values = columns()[column]
    values[row] = value
    return {column: values}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (columns(**one_bad("price", "NA", 3)), "column 'price', data row 4"),
        (columns(**one_bad("a", "inf", 3)), "'a', data row 4: expected a finite number, got inf"),
        ({"": range(N)} | columns(), "column 1 has no name"),
        ({"price": PRICE}, "expected a column besides the target"),
        (columns(n=0), "expected rows below the header"),
        ("", "the first line is empty|its first line is empty"),
        ("a,a,price\n1,2,3\n", "column 'a' appears more than once"),
        ("a,price\n1,2\n1\n", "Row #3: Expected 2 columns"),
        (b"\xff\xfe\x00\x01", "expected a CSV file"),
        (b"a,price\n\xff,1\n", "column 'a', data row 1: expected a number"),
    ],
)
def test_wrong_tables(content, message, tmp_path, fails):
    path = tmp_path / "bad.csv"
    if isinstance(content, dict):
        write_csv(path, content)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    line = fails("fit", path, "-t", "price", *QUICK, "-o", tmp_path / "m")
    assert str(path) in line
    assert re.search(message, line)


def test_wrong_files(tmp_path, data, fails):
    (tmp_path / "fake.parquet").write_text("a,price\n1,2\n")
    assert "expected a Parquet file" in fails("fit", tmp_path / "fake.parquet", "-t", "price")
    assert "absent.csv: No such file" in fails("fit", tmp_path / "absent.csv", "-t", "price")
    assert "Is a directory" in fails("fit", tmp_path, "-t", "price")
    assert "expected a path of its own" in fails("fit", data, "-t", "price", "-o", data)


def test_a_parquet_file_leaves_no_threads_that_abort_the_process(tmp_path):
    pa.parquet.write_table(pa.table(columns()), tmp_path / "data.parquet")
    script = "import sys, pathlib; from coupledgp.cli.readers.tables import read_table; "
    script += "print(read_table(pathlib.Path(sys.argv[1])).num_rows)"
    command = [sys.executable, "-c", script, tmp_path / "data.parquet"]
    for _ in range(3):
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{N}\n", "")


def test_wrong_predictions(model_path, tmp_path, data, fails):
    out = ["-o", tmp_path / "out.csv"]
    lacking = write_csv(tmp_path / "lacking.csv", columns(a=None, flag=None))
    assert "lacking.csv: expected columns 'a', 'flag'" in fails(
        "predict", model_path, lacking, *out
    )
    near = write_csv(tmp_path / "near.csv", columns(flag=None, flags=B))
    assert "(did you mean 'flags'?)" in fails("predict", model_path, near, *out)
    text = write_csv(tmp_path / "text.csv", columns(**one_bad("a", "red", 2)))
    line = fails("predict", model_path, text, *out)
    assert "text.csv: column 'a', data row 3: expected a number, got 'red'" in line
    taken = write_csv(tmp_path / "taken.csv", columns(mean=A))
    assert "has a column 'mean' already" in fails("predict", model_path, taken, *out)
    assert "expected a file written by save_model" in fails("predict", data, data, *out)
    assert "absent: No such file" in fails("predict", tmp_path / "absent", data, *out)
    assert "ending in .csv" in fails("predict", model_path, data, "-o", tmp_path / "out.xlsx")
    assert "path of its own" in fails("predict", model_path, data, "-o", data)
    assert "No such file" in fails("predict", model_path, data, "-o", tmp_path / "no" / "o.csv")


def test_a_failure_late_keeps_the_old_files(data, tmp_path, fails, monkeypatch):
    model, page = tmp_path / "m", tmp_path / "r.html"
    model.write_text("old model")
    page.write_text("old page")

    def broken(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("coupledgp.cli.show.table.page", broken)
    line = fails("fit", data, "-t", "price", *QUICK, "-o", model, "--report", page)
    assert "No space left on device" in line
    assert (model.read_text(), page.read_text()) == ("old model", "old page")


def test_interrupt_is_quiet(data, tmp_path, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(cgp.GPRegressor, "fit", interrupted)
    before = set(tmp_path.iterdir())
    assert run(["fit", data, "-t", "price", "-o", str(tmp_path / "m")]) == 130
    out, err = capsys.readouterr()
    assert (out, err.strip()) == ("", "coupledgp: interrupted")
    assert set(tmp_path.iterdir()) == before


def test_warnings_are_one_line_on_stderr(data, capsys, monkeypatch):
    fit = cgp.SparseSpectrumGPRegressor.fit

    def warns(self, X, y):
        warnings.warn("something\nodd", RuntimeWarning, stacklevel=1)
        return fit(self, X, y)

    monkeypatch.setattr(cgp.SparseSpectrumGPRegressor, "fit", warns)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert run(["fit", data, "-t", "price", *QUICK, "--json"]) == 0
    out, err = capsys.readouterr()
    json.loads(out)
    lines = err.splitlines()
    assert lines[0] == "coupledgp: warning: something odd"
    assert all(line.startswith("coupledgp: warning: ") for line in lines)


FRONT = ("--exact-rows", "0")


def test_the_model_is_chosen_unless_an_option_names_one(data, tmp_path, call):
    """The front door by default; sparse-spectrum where one of its options is given."""
    chosen = json.loads(call("fit", data, "-t", "price", *FRONT, "--json", "-o", tmp_path / "m"))
    assert chosen["model"]["name"] == "auto"
    assert sum(member["weight"] for member in chosen["model"]["members"]) == pytest.approx(1)
    assert chosen["comparison"] is None
    assert chosen["converged"] is None
    named = json.loads(call("fit", data, "-t", "price", *QUICK, "--json"))
    assert named["model"]["name"] == "sparse-spectrum"
    call("predict", tmp_path / "m", data, "-o", tmp_path / "p.csv")
    model = cgp.load_model(tmp_path / "m")
    assert isinstance(model, cgp.GPRegressor)
    assert model.explain().count("exact") == 5


@pytest.mark.parametrize("name", ["exact", "local", "hybrid", "features"])
def test_every_model_of_the_front_door_can_be_named(name, data, call):
    out = call("fit", data, "-t", "price", "--model", name, *FRONT)
    assert "Models, scored on" in out
    assert "coverage of 95 % intervals" in out


@pytest.mark.parametrize(("arguments", "message"), [
    (["--model", "magic"], "--model: expected one of"),
    (["--model", "local", "--coupling", "iid"], "--coupling: expected --model sparse-spectrum"),
    (["--budget", "1e-6"], "budget: the cheapest model"),
])  # fmt: skip
def test_bad_choices_of_a_model_are_named(arguments, message, data, fails):
    assert re.search(message, fails("fit", data, "-t", "price", *arguments))
