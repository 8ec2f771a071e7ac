"""The command line on tables of categories, Booleans, dates and empty cells."""

import csv
import json

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp
from coupledgp.cli import run

N = 80
QUICK = ["--n-frequencies", "24", "--max-iter", "5", "--n-restarts", "0", "--compare", "none"]


@pytest.fixture
def table():
    rng = np.random.default_rng(3)
    days = pd.date_range("2021-03-01", periods=N, freq="D")[rng.permutation(N)]
    frame = pd.DataFrame({
        "size": rng.normal(size=N).round(4), "colour": rng.choice(["red", "green", "NA-1"], N),
        "sold": rng.choice(["yes", "no"], N), "zip": rng.choice([10115, 80331, 20095], N),
        "day": days.strftime("%Y-%m-%d"),
    })  # fmt: skip
    shift = frame["colour"].map({"red": 0.0, "green": 2.0, "NA-1": -1.0})
    frame["price"] = (np.sin(frame["size"]) + shift + (frame["zip"] == 10115)).round(4)
    return frame


def with_gaps(table, rows=((2, "size"), (5, "colour"), (7, "day"))):
    table = table.copy()
    for row, name in rows:
        table.loc[row, name] = None
    return table


@pytest.fixture
def cli(capsys, tmp_path):
    """Run a command with tables written to files first; return its code, stdout and stderr."""

    def cli(*arguments):
        words = []
        for k, argument in enumerate(arguments):
            if isinstance(argument, pd.DataFrame):
                path = tmp_path / f"table{k}.csv"
                argument.to_csv(path, index=False)
                argument = path
            words.append(str(argument))
        code = run(words)
        return code, *capsys.readouterr()

    return cli


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_fit_says_how_each_column_is_read_and_predict_reads_it_so(table, cli, tmp_path):
    table, model, out = with_gaps(table), tmp_path / "m", tmp_path / "out.csv"
    fitted = cli(
        "fit", table, "-t", "price", "--holdout", "0", "--categorical", "zip", *QUICK, "-o", model
    )
    assert (fitted[0], fitted[2]) == (0, "")
    for text in (
        "number; missing: the mean", "category, one-hot: ", "missing", "Boolean, 0 and 1",
        "20095", "date: days since 2021-03-01 and place in the week", "that matter less",
    ):  # fmt: skip
        assert text in fitted[1], text
    code, said, err = cli("predict", model, table, "-o", out)
    assert (code, err) == (0, "")
    assert "80 rows" in said
    loaded = cgp.load_model(model)
    typed = table[["size", "colour", "sold", "zip", "day"]].assign(
        sold=table["sold"] == "yes",
        zip=table["zip"].astype(str),
        day=pd.to_datetime(table["day"]),
    )
    expected = loaded.predict(typed)
    written = [float(row["mean"]) for row in rows_of(out)]
    np.testing.assert_allclose(written, expected, rtol=1e-12)
    refitted = cgp.SparseSpectrumGPRegressor(
        n_frequencies=24, max_iter=5, n_restarts=0, random_state=0, missing="indicator"
    ).fit(typed, table["price"])
    np.testing.assert_allclose(refitted.predict(typed), expected, rtol=1e-9)
    # Other cells stay as they stand, the empty ones too.
    assert rows_of(out)[2]["size"] == ""
    assert rows_of(out)[0]["sold"] == table["sold"][0]


def test_json_names_the_parts(table, cli):
    code, out, _ = cli("fit", table, "-t", "price", *QUICK, "--json")
    assert code == 0
    result = json.loads(out)
    parts = ["size", "colour", "sold", "zip", "day", "day (week)"]
    assert list(result["hyperparameters"]["lengthscale"]) == parts
    assert list(result["hyperparameters"]["spread_over_lengthscale"]) == parts
    assert result["data"]["n_columns"] == 5
    assert result["columns"]["zip"] == "number"
    assert result["columns"]["colour"].startswith("category, one-hot")


def test_columns_of_numbers_alone_have_no_table_of_columns(table, cli):
    _, out, _ = cli("fit", table[["size", "zip", "price"]], "-t", "price", *QUICK)
    assert "read as" not in out


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, ["--numeric", "colour"], "column 'colour', data row 1: expected a number, got "),
        ({}, ["--numeric", "day"], "column 'day', data row 1: expected a number, got 2021"),
        ({}, ["--date", "colour"], "column 'colour', data row 1: expected a date such as 2024"),
        ({}, ["--date", "size"], "column 'size', data row 1: expected a date such as"),
        ({}, ["--date", "nothing"], "--categorical, --numeric, --date: "),
        ({}, ["--date", "zip", "--numeric", "zip"], "expected one kind a column, got number and"),
        ({}, ["--categorical", "price"], "--target: expected numbers, got 'price' as category"),
        ({"size": ["inf"] + ["1"] * (N - 1)}, [], "'size', data row 1: expected a finite number"),
        ({"price": [""] + ["1"] * (N - 1)}, [], "'price', data row 1: expected a number, got a m"),
    ],
)
def test_columns_that_are_not_what_they_are_said_to_be(table, cli, change, options, message):
    code, out, err = cli("fit", table.assign(**change), "-t", "price", *QUICK, *options)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.fixture
def model(table, cli, tmp_path):
    path = tmp_path / "fitted"
    assert cli("fit", table, "-t", "price", "--holdout", "0", *QUICK, "-o", path)[0] == 0
    return path


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("size", "large", "column 'size', data row 4: expected a number, got 'large'"),
        ("sold", "perhaps", "column 'sold', data row 4: expected true or false, or yes or no"),
        ("day", "soon", "column 'day', data row 4: expected a date such as 2024-05-31"),
        ("day", "2021-03-01T10:00+01:00", "column 'day', data row 4: expected a date such as"),
    ],
)
def test_predict_names_column_and_row_of_another_kind(
    column, value, message, model, table, cli, tmp_path
):
    other = table.astype({column: object})
    other.loc[3, column] = value
    code, _, err = cli("predict", model, other, "-o", tmp_path / "o.csv")
    assert code == 2
    assert message in err


@pytest.mark.filterwarnings("default")
def test_predict_warns_once_of_what_the_fit_did_not_have(model, table, cli, tmp_path):
    other = pd.concat([with_gaps(table).assign(colour="blue")] * 120)  # two batches of rows
    code, _, err = cli("predict", model, other, "-o", tmp_path / "o.csv")
    assert code == 0
    warned = err.splitlines()
    assert len(warned) == 2, err
    assert "column 'colour': 'blue' did not occur in the fit" in warned[0]
    assert "'size', X: column 'day': missing values, of which the fit had none" in warned[1]


@pytest.mark.filterwarnings("default")
def test_an_identifier_is_warned_of(table, cli):
    named = table.assign(id=[f"no {k}" for k in range(N)])
    code, _, err = cli("fit", named, "-t", "price", "--holdout", "0", *QUICK)
    assert code == 0
    assert "column 'id': no value occurs twice" in err
    assert "id" not in cli("fit", named, "-t", "price", "--drop", "id", *QUICK)[2]


def test_a_test_file_is_read_as_the_training_file(table, cli, tmp_path):
    """Numbers alone in its column of categories stay categories."""
    table["colour"] = table["colour"].replace({"red": "7"})
    test = table[table["colour"] == "7"]
    code, out, err = cli("fit", table, "-t", "price", "--test", test, *QUICK, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["scores"]["n_test"] == len(test)
    parquet = tmp_path / "t.parquet"
    test.to_parquet(parquet)
    code, out, err = cli("fit", table, "-t", "price", "--test", parquet, *QUICK, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["scores"]["n_test"] == len(test)


def test_parquet_keeps_its_types(table, cli, tmp_path):
    typed = table.assign(
        colour=table["colour"].astype("category"),
        day=pd.to_datetime(table["day"]).dt.tz_localize("Europe/Berlin"),
        sold=table["sold"] == "yes",
    )
    path, model, out = tmp_path / "t.parquet", tmp_path / "m", tmp_path / "o.csv"
    typed.to_parquet(path)
    assert cli("fit", path, "-t", "price", "--holdout", "0", *QUICK, "-o", model)[0] == 0
    code, _, err = cli("predict", model, path, "-o", out)
    assert (code, err) == (0, "")
    expected = cgp.load_model(model).predict(typed.drop(columns="price"))
    np.testing.assert_allclose([float(r["mean"]) for r in rows_of(out)], expected, rtol=1e-12)
    text = typed.assign(day=typed["day"].astype(str))  # as in CSV, with its offset
    code, _, err = cli("predict", model, text, "-o", tmp_path / "p.csv")
    assert (code, err) == (0, "")
    again = [float(r["mean"]) for r in rows_of(tmp_path / "p.csv")]
    np.testing.assert_allclose(again, expected, rtol=1e-9)


def test_a_table_without_rows_is_predicted(model, table, cli, tmp_path):
    code, out, err = cli("predict", model, table[:0], "-o", tmp_path / "o.csv")
    assert (code, err) == (0, "")
    assert "0 rows" in out


def test_report_reads_columns_as_the_fit_did(table, cli, tmp_path):
    table, model, page = with_gaps(table), tmp_path / "m", tmp_path / "r.html"
    fit = ["fit", table, "-t", "price", "--holdout", "0", *QUICK, "-o", model, "--include-data"]
    assert cli(*fit)[0] == 0
    code, _, err = cli("report", model, table, "-o", page)
    assert (code, err) == (0, "")
    assert page.exists()


def test_the_page_of_a_fit_says_how_columns_are_read(table, cli, tmp_path):
    page = tmp_path / "r.html"
    options = [*QUICK[:-1], "dense", "--report", page]
    assert cli("fit", table, "-t", "price", *options)[0] == 0
    assert "category, one-hot" in page.read_text()


def test_a_model_without_names_takes_columns_by_their_places(table, cli, tmp_path):
    X = table[["size", "zip"]].to_numpy()
    X[0, 0] = np.nan
    gp = cgp.SparseSpectrumGPRegressor(
        n_frequencies=12, random_state=0, max_iter=3, missing="indicator"
    ).fit(X, table["price"])
    gp.save(tmp_path / "m")
    frame = pd.DataFrame(X, columns=["u", "v"])
    assert cli("predict", tmp_path / "m", frame, "-o", tmp_path / "o.csv")[0] == 0
    written = [float(row["mean"]) for row in rows_of(tmp_path / "o.csv")]
    np.testing.assert_allclose(written, gp.predict(X), rtol=1e-12)


@pytest.mark.filterwarnings("default")
def test_twenty_thousand_columns_are_read_in_linear_time(cli):
    """Checks of names take no time that grows with the square of their number."""
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.normal(size=(12, 20_000)).round(2))
    wide.columns = [f"x{j}" for j in range(20_000)]
    wide["price"] = wide["x0"]
    code, out, _ = cli(
        "fit", wide, "-t", "price", "--holdout", "0", "--isotropic", "--n-frequencies", "4",
        "--max-iter", "1", "--n-restarts", "0", "--compare", "none",
    )  # fmt: skip
    assert code == 0
    assert "20000 columns" in out
    assert "that matter less" in out


@pytest.mark.parametrize("kind", ["numbers", "gaps", "mixed"])
def test_a_wide_table_is_read_as_a_narrow_one_is(kind, table, tmp_path, monkeypatch):
    from coupledgp.cli.readers import kinds, text

    frame = table if kind == "mixed" else table[["size", "zip", "price"]]
    frame = with_gaps(frame, [(2, "size")]) if kind == "gaps" else frame
    frame.to_csv(tmp_path / "table.csv", index=False)
    names = list(frame.columns)

    def read():
        found = kinds.read_inputs(tmp_path / "table.csv", {})
        return kinds.typed(found, names, {}, "table.csv", missing=True)

    narrow = read()
    monkeypatch.setattr(text, "WIDE", 2)
    monkeypatch.setattr(kinds, "numbers", None if kind == "numbers" else kinds.numbers)
    assert read().equals(narrow)


def test_scores_are_those_of_the_models_own_methods():
    from coupledgp.cli.shared.evaluate import scores

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_t(2, size=60)
    model = cgp.GPRegressor(random_state=0, progress=False, model="local").fit(X[:30], y[:30])
    found = scores(model.process_, model.points(X[30:]), y[30:])
    assert found["density"] == "mixture"
    mean, std = model.predict(X[30:], return_std=True)
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((mean - y[30:]) ** 2)))
    assert found["nlpd"] == pytest.approx(-model.log_density(X[30:], y[30:]).mean())
    gaussian = 0.0
    for level, share in found["coverage"].items():
        low, high = model.predict_interval(X[30:], level)
        assert share == pytest.approx(np.mean((low <= y[30:]) & (y[30:] <= high)))
        half = (high - low) / 2 / std
        gaussian += np.ptp(half)
    assert gaussian > 0.01  # intervals of a mixture, which are not so many standard deviations
    assert scores(model.process_, X[:0], y[:0]) is None


def test_scores_of_hidden_nodes_are_those_of_a_mixture():
    from coupledgp.cli.shared.evaluate import scores

    graph = cgp.Graph.from_networkx(nx.grid_2d_graph(6, 6))
    rng = np.random.default_rng(1)
    nodes = list(nx.grid_2d_graph(6, 6))
    y = np.array([np.sin(a / 2) + b / 4 for a, b in nodes]) + 0.2 * rng.normal(size=36)
    model = cgp.GraphGPRegressor(graph, random_state=0).fit(nodes[::2], y[::2])
    found = scores(model.process_, model.points(nodes[1::2]), y[1::2], "hidden")
    assert (found["n_hidden"], found["density"]) == (18, "mixture")
    density = model.log_density(nodes[1::2], y[1::2])
    assert found["nlpd"] == pytest.approx(-density.mean(), rel=1e-10)
    mean, std = model.predict(nodes[1::2], return_std=True)
    normal = np.mean(0.5 * np.log(2 * np.pi * std**2) + (y[1::2] - mean) ** 2 / (2 * std**2))
    assert abs(found["nlpd"] - normal) > 1e-6
