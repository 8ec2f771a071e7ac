"""`coupledgp fit`: tables in, figures out."""

import decimal
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from scipy.stats import norm

import coupledgp as cgp
from coupledgp import diagnostics
from coupledgp.cli.readers.text import decimal_mark
from tests.cli.tables import PRICE, QUICK, RNG, A, B, N, columns, read_csv, write_csv
from tests.models.few_steps import take_few_steps
from tests.pretend_device import pretend_device


def test_fit_prints_a_table_that_names_the_columns(data, call):
    out = call("fit", data, "--target", "price", *QUICK)
    lines = out.splitlines()
    assert "data.csv: target 'price', 4 columns, 48 training rows, 12 test rows" in lines[1]
    listed = {line.split("  ")[0]: line for line in lines if "  " in line}
    for name in ("a", "b b", "flag", "outputscale (variance)", "noise (variance)"):
        float(listed[name].removeprefix(name).split()[0])
    assert "fixed" not in listed  # it never varies
    assert any(line.startswith("and 1 that matter less") for line in lines)
    for text in ("RMSE", "NLPD", "coverage of 50 %", "coverage of 95 %", "KL(reference || model)"):
        assert text in out, text
    assert "Without effect on predictions: fixed" in out
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
    call("predict", tmp_path / "m", data, "-o", tmp_path / "out.csv", "--level", "0.95")
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
        assert "--weight-column, --noise-column, --exposure: " in missing
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


def test_options_reach_the_model(data, call, tmp_path, monkeypatch):
    take_few_steps(monkeypatch)
    call("fit", data, "-t", "price", "--kernel", "matern-3/2", "--coupling", "halton",
         "--frequencies", "fitted",
         "--isotropic", "--dtype", "float32", "--seed", 5, "--n-frequencies", 9, "--max-iter", 2,
         "--drop", "flag", "--drop", "b b", "-o", tmp_path / "m")  # fmt: skip
    model = cgp.load_model(tmp_path / "m")
    parameters = model.get_params()
    expected = {"kernel": "matern-3/2", "coupling": "halton", "ard": False, "dtype": "float32",
                "random_state": 5, "n_frequencies": 9, "max_iter": 2,
                "frequencies": "fitted"}  # fmt: skip
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


@pytest.mark.parametrize("n", [1, 3])
def test_tiny_tables(n, tmp_path, call):
    data = write_csv(tmp_path / "tiny.csv", columns(n=n))
    call("fit", data, "-t", "price", *QUICK, "--report", tmp_path / "r.html")
    json.loads(call("fit", data, "-t", "price", *QUICK, "--json"))


@pytest.mark.filterwarnings("ignore:y. expected targets that differ")
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


def with_commas():
    return {name: [str(x).replace(".", ",") for x in column] for name, column in columns().items()}


def test_decimals_behind_a_comma(tmp_path, call, data):
    other = write_csv(tmp_path / "d.csv", with_commas(), ";")
    arguments = ["-t", "price", *QUICK, "--json"]
    first, second = (json.loads(call("fit", path, *arguments)) for path in (data, other))
    assert first["scores"] == second["scores"]


def test_predictions_of_such_a_table_have_points(tmp_path, call, data):
    call("fit", data, "-t", "price", *QUICK, "-o", tmp_path / "m.model")
    for name, source in (("a.csv", data), ("b.csv", write_csv(tmp_path / "d", with_commas(), ";"))):
        call("predict", tmp_path / "m.model", source, "-o", tmp_path / name)
    assert read_csv(tmp_path / "b.csv") == read_csv(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("text", "delimiter", "mark"),
    [
        (b"a;b\n1;-2,5e-3\n", ";", ","),
        (b'a\tb\n"1,5"\t2\n', "\t", ","),
        (b"a;b\n1,5;x\n2;3.5\n", ";", "."),  # 1,5 is a text beside numbers with points
        (b"a,b\n1,5\n", ",", "."),
        (b"a;b\n1;03,04,2024\n", ";", "."),
    ],
)
def test_the_mark_of_decimals(text, delimiter, mark):
    assert decimal_mark(text, delimiter) == mark


def test_a_column_may_turn_from_whole_numbers_late(tmp_path, call):
    path = tmp_path / "late.csv"
    rows = "".join(f"{i % 7},{i % 5}\n" for i in range(120_000))  # more than pyarrow's first block
    path.write_text("x,y\n" + rows + "1.5,2\n")
    out = call("fit", path, "-t", "y", "--n-frequencies", 4, "--max-iter", 1, "--exact-rows", 50)
    assert "96001 training rows" in out


def test_html_report_is_one_page_with_everything(data, call, tmp_path):
    path = tmp_path / "report.html"
    call("fit", data, "-t", "price", *QUICK, "--report", path, "-o", tmp_path / "<m>")
    page = path.read_text()
    assert page.count("<svg") == 8
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


def test_the_device_of_a_fit(data, call, fails):
    quick = ["fit", data, "-t", "price", "--compare", "none", *QUICK]
    found = [json.loads(call(*quick, *how, "--json")) for how in ([], ["--device", "cpu"])]
    assert found[0]["scores"] == found[1]["scores"]
    assert "--device: expected None or 'cpu', 'cuda'" in fails(*quick, "--device", "gpu")
    assert "--device: expected a device that torch finds" in fails(*quick, "--device", "cuda:99")
    with pretend_device():
        call(*quick, "--device", "cuda")
