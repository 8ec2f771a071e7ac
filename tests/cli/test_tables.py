"""Tables: what is read, guessed, fitted, predicted and refused."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp
from coupledgp.cli import run
from coupledgp.cli.shared import pipes_kept
from coupledgp.cli.tables import read_table
from tests.cli.conftest import houses

EXACT = ("--kernel", "gaussian", "--compare", "none")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model of the houses, with its rows."""
    path = tmp_path_factory.mktemp("models") / "price.model"
    rows = houses().assign(new=lambda table: table["new"] == "yes")
    model = cgp.GPRegressor(kernel="gaussian", random_state=0).fit(
        rows.drop(columns="price"), rows["price"]
    )
    model.save(path, include_data=True)
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b\n1,x\n2,y\n", {"a": [1, 2], "b": ["x", "y"]}),
        ("a;b\n1,5;x\n2,5;y\n", {"a": [1.5, 2.5], "b": ["x", "y"]}),
        ("a\tb\n1.5\t1,5\n2\tz\n", {"a": [1.5, 2.0], "b": ["1,5", "z"]}),
        ("\n\na,b\n1,yes\n2,no\n", {"a": [1, 2], "b": [True, False]}),
        ('[{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]', {"a": [1, 2], "b": ["x", "y"]}),
        ('{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}\n', {"a": [1, 2], "b": ["x", "y"]}),
    ],
)
def test_forms_of_text(text, expected, folder, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    with pipes_kept():
        found = read_table(Path("-"))
    assert {name: found[name].tolist() for name in found} == expected


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_encodings_compression_and_missing_cells(encoding, folder):
    path = folder / "t.csv"
    path.write_bytes("größe,b\n1,NA\n,x\n".encode(encoding))
    found = read_table(path)
    assert list(found) == ["größe", "b"]
    assert found.isna().to_numpy().tolist() == [[False, True], [True, False]]
    houses().to_csv(folder / "h.csv.gz", index=False)
    pd.testing.assert_series_equal(read_table(folder / "h.csv.gz")["price"], houses()["price"])


def test_parquet_keeps_types(folder):
    houses().to_parquet("h.parquet")
    pd.testing.assert_frame_equal(read_table(folder / "h.parquet"), houses())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,a\n1,2\n", "column 'a' appears more than once"),
        (b"", "it is empty"),
        (b"a,b\n1,2,3\n4,5,6\n", "expected a table"),
        (b"a,b\n\xff\xfe\xfd,1\n", "expected a table"),
        (b'{"a": [1]', "expected a table"),
    ],
)
def test_what_is_no_table_is_an_error_of_its_file(content, message, folder, fails):
    name = "t.json" if content.startswith(b"{") else "t.csv"
    (folder / name).write_bytes(content)
    line = fails("fit", name, "-t", "a")
    assert name in line
    assert message in line


def test_a_fit_says_what_it_found_and_predict_reads_in_the_same_way(shell, table, folder):
    out, err = shell("fit", table, "-t", "price", *EXACT, "-o", "m.model", "--json")
    found = json.loads(out)
    assert err == ""
    assert found["data"] | {"path": 0} == {
        "path": 0, "target": "price", "inputs": ["area", "town", "new", "built"], "n_train": 32,
        "n_test": 8,
    }  # fmt: skip
    kinds = [text.split(",")[0].split(":")[0] for text in found["columns"].values()]
    assert kinds == ["number", "category", "Boolean", "date"]
    assert found["scores"]["R2"] > 0.9
    new = houses().drop(columns="price").assign(note=["007"] * 40)
    new[["note", "built", "town", "new", "area"]].to_csv("new.csv", index=False)
    shell("predict", "m.model", "new.csv", "-o", "p.csv", "--level", "0.9", "--prefix", "price_")
    written = pd.read_csv("p.csv", dtype={"note": str})
    assert list(written)[:6] == ["note", "built", "town", "new", "area", "price_mean"]
    assert set(written["note"]) == {"007"}
    assert np.corrcoef(written["price_mean"], houses()["price"])[0, 1] > 0.95
    width = (written["price_upper"] - written["price_lower"]) / written["price_std"]
    np.testing.assert_allclose(width[1:], 2 * 1.6449, rtol=0.2)


def test_predictions_are_those_of_python(shell, table, saved):
    shell("predict", saved, table, "-o", "p.parquet", "--level", "0.8")
    found, model = pd.read_parquet("p.parquet"), cgp.load_model(saved)
    rows = houses().drop(columns="price").assign(new=lambda one: one["new"] == "yes")
    law = model.predict_frame(rows, 0.8)
    for name in ("mean", "std", "lower", "upper"):
        np.testing.assert_allclose(found[name], law[name], rtol=1e-9)
    shell("predict", saved, table, "-o", "f.csv", "--latent")
    _, std = model.predict(rows, return_std=True, latent=True)
    np.testing.assert_allclose(pd.read_csv("f.csv")["std"], std, rtol=1e-9)


def test_pipes_of_tables_and_models(shell, table, saved, folder, monkeypatch):
    made = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((folder / table).read_bytes())))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(made))
    assert run(["predict", str(saved), "-", "-o", "-", "--format", "json"]) == 0
    sys.stdout.flush()
    rows = json.loads(made.getvalue())
    assert len(rows) == 40
    assert {"area", "mean", "std"} <= rows[0].keys()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", "none.csv", "-t", "y"), "DATA: none.csv: No such file or directory"),
        (("fit", "houses.csv"), "Missing option '--target'"),
        (("fit", "houses.csv", "-t", "prize"), "did you mean 'price'?"),
        (("fit", "houses.csv", "-t", "price", "--kernel", "x"), "--kernel: "),
        (("fit", "houses.csv", "-t", "price", "--model", "x"), "--model: "),
        (("fit", "houses.csv", "-t", "price", "--set", "x=1"), "--set: GPRegressor takes"),
        (("fit", "houses.csv", "-t", "price", "--set", "trend=up"), "--set trend: "),
        (("fit", "houses.csv", "-t", "price", "--holdout", "1"), "--holdout: "),
        (("fit", "houses.csv", "-t", "price", "--numeric", "town"), "column 'town', data row 1"),
        (("fit", "houses.csv", "-t", "price", "--date", "area"), "--drop leaves it out"),
        (("fit", "houses.csv", "-t", "price", "-o", "houses.csv"), "--output: houses.csv: "),
        (("fit", "houses.csv", "-t", "price", "-o", "no/m.model"), "m.model: no folder no"),
        (("fit", "houses.csv", "-t", "price", "--report", "a.pdf"), "--report: expected a path"),
        (("fit", "houses.csv", "-t", "price", "-o", "-", "--json"), "standard output once"),
        (("predict", "houses.csv", "houses.csv", "-o", "p.csv"), "houses.csv"),
        (("nothing",), "No such command"),
    ],
)  # fmt: skip
def test_errors_name_the_file_the_column_or_the_option(arguments, message, fails, table):
    assert message in fails(*arguments)


def test_a_missing_target_is_named_by_its_row(fails, table):
    rows = houses()
    rows.loc[6, "price"] = None
    rows.to_csv("gap.csv", index=False)
    assert "gap.csv: column 'price', data row 7: expected a number, got a missing value" in fails(
        "fit", "gap.csv", "-t", "price"
    )


def test_weights_test_rows_and_dropped_columns(shell, table):
    rows = houses().assign(w=1.0, row=range(40))
    rows[:30].to_csv("train.csv", index=False)
    rows[30:].to_csv("test.csv", index=False)
    out, _ = shell("fit", "train.csv", "-t", "price", "--test", "test.csv", "--weight-column", "w",
                   "--drop", "row", *EXACT, "--json")  # fmt: skip
    found = json.loads(out)["data"]
    assert (found["n_train"], found["n_test"], found["inputs"][-1]) == (30, 10, "built")


def test_a_target_of_text_is_classes(shell, folder):
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, 40)
    pd.DataFrame({"x": x, "side": np.where(x > 0, "right", "left")}).to_csv("s.csv", index=False)
    out, _ = shell("fit", "s.csv", "-t", "side", "-o", "s.model", "--compare", "none", "--json")
    assert json.loads(out)["model"]["kind"] == "GPClassifier"
    assert json.loads(out)["scores"]["accuracy"] > 0.7
    shell("predict", "s.model", "s.csv", "-o", "p.csv")
    found = pd.read_csv("p.csv")
    np.testing.assert_allclose(found["chance_left"] + found["chance_right"], 1.0)
    assert (found["class"] == found["side"]).mean() > 0.9


def test_counts_have_exposures_in_fits_scores_and_predictions(shell, folder):
    rng = np.random.default_rng(6)
    x, hours = rng.uniform(0, 1, 60), rng.uniform(1, 50, 60)
    n = rng.poisson(hours * np.exp(x))
    pd.DataFrame({"x": x, "hours": hours, "n": n}).to_csv("n.csv", index=False)
    out, _ = shell("fit", "n.csv", "-t", "n", "--likelihood", "poisson", "--exposure", "hours",
                   "--kernel", "gaussian", "-o", "n.model", "--json")  # fmt: skip
    assert json.loads(out)["scores"]["R2"] > 0.8
    shell("predict", "n.model", "n.csv", "--exposure", "hours", "-o", "p.csv", "--level", "0.9")
    found = pd.read_csv("p.csv")
    assert np.corrcoef(found["mean"], hours * np.exp(x))[0, 1] > 0.95
    assert ((found["lower"] <= n) & (n <= found["upper"])).mean() > 0.75


def test_intervals_of_counts_do_not_go_below_zero(shell, folder):
    x = np.linspace(0, 1, 30)
    counts = np.random.default_rng(2).poisson(0.5 + x)
    pd.DataFrame({"x": x, "n": counts}).to_csv("c.csv", index=False)
    shell("fit", "c.csv", "-t", "n", "--holdout", "0", "-o", "c.model", *EXACT)
    shell("predict", "c.model", "c.csv", "-o", "p.csv", "--level", "0.99")
    found = pd.read_csv("p.csv")
    assert (found["lower"] == 0).any()
    assert (found["lower"] >= 0).all()
    assert (found["mean"] - 2.5 * found["std"] < 0).any()


def test_a_report_is_a_page_and_its_answers_are_printed(shell, table):
    out, _ = shell("fit", table, "-t", "price", "--kernel", "gaussian", "--report", "page.html")
    assert "Could it predict better?" in out
    assert "Written: page.html." in out
    with open("page.html", encoding="utf-8") as file:
        page = file.read()
    assert "<svg" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_quiet_prints_nothing(shell, table, saved):
    assert shell("predict", saved, table, "-o", "p.csv", "--quiet") == ("", "")


def test_audit_of_any_program(shell, fails, folder):
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 1, 90)
    rows = pd.DataFrame({"row": range(90), "x": x, "y": np.sin(6 * x) + 0.1 * rng.normal(size=90)})
    rows[:60].to_csv("train.csv", index=False)
    rows[60:].to_csv("test.csv", index=False)
    law = pd.DataFrame({"row": rows["row"][60:], "mean": np.sin(6 * x[60:]), "std": 0.1})
    law.sample(frac=1, random_state=0).to_csv("law.csv", index=False)
    asked = ("audit", "--train", "train.csv", "--test", "test.csv", "-t", "y", "--predictions",
             "law.csv")  # fmt: skip
    assert "--id names the column" in fails(*asked)
    out, _ = shell(*asked, "--id", "row", "--json", "-o", "page.html")
    figures = json.dumps(json.loads(out)["report"])
    error = np.sqrt(np.mean((rows["y"][60:] - np.sin(6 * x[60:])) ** 2))
    assert f"{error:.10f}"[:9] in figures
    line = fails(*asked, "--id", "row", "--kernel", "gaussian")
    assert "--kernel: expected --lengthscale, --outputscale, --noise beside it" in line
    exact = ("--kernel", "gaussian", "--lengthscale", "0.3", "--outputscale", "0.5", "--noise",
             "0.01")  # fmt: skip
    out, _ = shell(*asked, "--id", "row", *exact)
    assert "Is the approximation close enough?" in out


def test_audit_of_a_saved_model(shell, table, saved):
    out, _ = shell("audit", "--from-model", saved, "--json")
    assert json.loads(out)["report"]
    out, _ = shell("audit", "--from-model", saved, "--test", table, "-t", "price")
    assert "Are its intervals right?" in out


def test_draws_and_quantiles(shell, folder):
    rng = np.random.default_rng(4)
    y = rng.normal(size=40)
    pd.DataFrame({"y": y}).to_csv("test.csv", index=False)
    pd.DataFrame(rng.normal(size=(40, 20)), columns=[f"d{k}" for k in range(20)]).to_csv(
        "draws.csv", index=False
    )
    levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    ends = np.tile([-1.645, -0.674, 0.0, 0.674, 1.645], (40, 1))
    pd.DataFrame(ends, columns=[f"q{level}" for level in levels]).to_csv("q.csv", index=False)
    for name, option in (("draws.csv", "--samples"), ("q.csv", "--quantiles")):
        out, _ = shell("audit", "--test", "test.csv", "-t", "y", "--predictions", name, option)
        assert "Are its intervals right?" in out


def test_kriging_on_a_grid(shell, fails, folder):
    rng = np.random.default_rng(5)
    wells = pd.DataFrame(rng.uniform(0, 10, (60, 2)), columns=["X_m", "Y_m"])
    wells = wells.assign(depth=3 + np.sin(wells["X_m"]) + 0.01 * rng.normal(size=60), id=range(60))
    wells.to_csv("wells.csv", index=False)
    assert "--grid: expected 2 numbers" in fails("krige", "wells.csv", "--places", "X_m,Y_m",
                                                  "--grid", "5", "-o", "m.csv")  # fmt: skip
    out, err = shell("krige", "wells.csv", "--grid", "4x3", "-o", "m.csv", "--kernel", "gaussian",
                     "--save-model", "w.model", "--level", "0.95")  # fmt: skip
    assert "wells.csv: places are 'X_m', 'Y_m' (--places names others)" in err
    assert "wells.csv: values are 'depth' (--target names another)" in err
    assert "the function, noise left out" in out
    found = pd.read_csv("m.csv")
    assert found.shape == (12, 6)
    assert found["X_m"].min() == wells["X_m"].min()
    np.testing.assert_allclose(found["mean"], 3 + np.sin(found["X_m"]), atol=0.3)
    law = cgp.load_model("w.model").predict(found[["X_m", "Y_m"]])
    np.testing.assert_allclose(found["mean"], law, atol=1e-6)
    shell(
        "krige", "wells.csv", "-t", "depth", "--grid", "4x3", "-o", "m.nc", "--kernel", "gaussian"
    )
    import xarray

    with xarray.open_dataset("m.nc") as data:
        np.testing.assert_allclose(data["mean"].values.ravel(), found["mean"], atol=1e-6)
