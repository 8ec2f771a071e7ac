"""The UCI loader's downloads, from a server that imitates OpenML."""

import socket
import sys
from urllib.error import HTTPError, URLError

import numpy as np
import pytest

from coupledgp.errors import DataNotFoundError
from data_loaders import uci
from tests.datasets.uci_cases import SHAPES, numbers

pytestmark = pytest.mark.usefixtures("isolated")
LOCAL_ONLY = ("power", "cpu", "kin40k")


@pytest.mark.parametrize(
    ("name", "data_id"),
    [("boston", 531), ("concrete", 44959), ("airfoil", 44957), ("wine", 44972)],
)
def test_download_without_pandas_and_again_from_the_cache(name, data_id, openml, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)  # importing it raises ImportError
    values = numbers(name)
    openml.serve_numbers(data_id, values)
    data = uci.load(name)
    np.testing.assert_array_equal(data.X, values[:, :-1])
    np.testing.assert_array_equal(data.y, values[:, -1])
    assert data.X.dtype == data.y.dtype == np.float64
    assert data.X.flags.c_contiguous
    assert data.feature_names == tuple(f"c{i}" for i in range(SHAPES[name][1]))
    assert (data.target_name, data.source) == (f"c{SHAPES[name][1]}", f"OpenML data set {data_id}")
    seen = len(openml.requests)
    np.testing.assert_array_equal(uci.load(name).X, values[:, :-1])
    assert len(openml.requests) == seen


@pytest.mark.long
def test_download_of_protein_has_the_target_of_the_files(openml):
    values = numbers("protein")
    openml.serve_numbers(44963, values)
    data = uci.load("protein")
    np.testing.assert_array_equal(data.X, values[:, :-1])
    np.testing.assert_allclose(data.y, np.log(1.0 + values[:, -1]), rtol=1e-14)
    assert data.target_name == "log(1 + c9)"


def test_download_codes_sex_in_its_own_order_whatever_the_listing(openml):
    rows = numbers("abalone").tolist()
    for i, row in enumerate(rows):
        row[0] = "MFI"[i % 3]
    columns = {"sex": ["F", "I", "M"]} | dict.fromkeys([f"c{i}" for i in range(1, 9)])
    openml.serve(44956, columns, rows, "c8")
    sex = uci.load("abalone").X[:, 0]
    np.testing.assert_array_equal(sex, np.arange(4177) % 3)


def test_download_takes_numeric_categories_by_value_and_the_target_from_any_place(openml):
    values = numbers("boston")
    radial = np.resize([24, 1, 8], 506)
    rows = [["0.5", *row[1:13], r] for row, r in zip(values.tolist(), radial, strict=True)]
    columns = {"MEDV": ["7", "0.5"]} | dict.fromkeys([f"c{i}" for i in range(1, 13)])
    openml.serve(531, columns | {"RAD": ["1", "8", "24"]}, rows, "MEDV")
    data = uci.load("boston")
    np.testing.assert_array_equal(data.X[:, -1], radial)
    np.testing.assert_array_equal(data.X[:, :-1], values[:, 1:13])
    np.testing.assert_array_equal(data.y, 0.5)
    assert (data.feature_names[-1], data.target_name) == ("RAD", "MEDV")


@pytest.mark.parametrize(
    ("cell", "labels", "cause"),
    [
        ("?", None, "has missing values"),
        ("?", ["1", "2"], "column 'c1' has missing values"),
        ("A", ["1", "A"], r"column 'c1' has unknown categories \['1', 'A'\]"),
    ],
)
def test_download_with_missing_values_or_unknown_categories_is_refused(openml, cell, labels, cause):
    rows = numbers("boston").tolist()
    for row in rows:
        row[1] = cell
    columns = dict.fromkeys([f"c{i}" for i in range(14)])
    openml.serve(531, columns | {"c1": labels}, rows, "c13")
    with pytest.raises(DataNotFoundError, match=f"OpenML data set 531 .*{cause}.* Put the data at"):
        uci.load("boston")


@pytest.mark.parametrize("cut", [np.s_[:-1], np.s_[:, 1:]])
def test_download_of_another_shape_is_refused(openml, cut):
    openml.serve_numbers(531, numbers("boston")[cut])
    expected = r"531 has changed: expected X \(506, 13\) and y \(506,\), got \(50[56], 1[32]\)"
    with pytest.raises(DataNotFoundError, match=expected):
        uci.load("boston")


@pytest.mark.filterwarnings("ignore:A network error occurred while downloading:UserWarning")
@pytest.mark.filterwarnings("ignore:Invalid cache, redownloading:RuntimeWarning")
@pytest.mark.parametrize(
    ("failure", "cause", "message"),
    [
        ("error 500", HTTPError, "HTTPError: HTTP Error 500"),
        ("unknown set", ValueError, "OpenMLError: Dataset with data_id 531 not found"),
        ("no server", URLError, "URLError: "),
        ("corrupt", ValueError, "ValueError: The md5 checksum of the file"),
    ],
)
def test_failing_download_gives_its_cause_and_where_to_put_the_file(
    openml, folder, failure, cause, message
):
    if failure == "error 500":
        openml.status = 500
    elif failure == "no server":
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            openml.url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    elif failure == "corrupt":
        openml.serve_numbers(531, numbers("boston"))
        openml.pages["/data/v1/download/531"] += b"% changed\n"
    with pytest.raises(DataNotFoundError) as caught:
        uci.load("boston", data_dir=folder)
    assert isinstance(caught.value.__cause__, cause)
    text = str(caught.value)
    assert text.startswith(f"boston: no local file, and OpenML data set 531 failed ({message}")
    assert f"Put the data at {folder / 'uci' / 'boston.csv'}" in text
    assert "one header line, 506 rows, 14 numeric columns, the target last" in text
    assert "COUPLEDGP_DATA" in text
    assert isinstance(caught.value, FileNotFoundError)


@pytest.mark.parametrize("name", LOCAL_ONLY)
def test_set_without_a_known_download_asks_for_the_file_and_no_server(name, openml):
    with pytest.raises(
        DataNotFoundError,
        match=rf"^{name}: no local file, and it cannot be downloaded: OpenML.* Put the data at "
        rf"<data_dir>.uci.{name}\.csv .*{SHAPES[name][0]} rows, {SHAPES[name][1] + 1} numeric",
    ):
        uci.load(name)
    assert openml.requests == []
