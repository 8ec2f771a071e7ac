"""The UCI loader: names, local files, and their errors."""

import os

import numpy as np
import pytest

from coupledgp.datasets import RegressionData
from coupledgp.errors import InvalidInputError
from data_loaders import uci
from tests.datasets.uci_cases import SHAPES, numbers, write

pytestmark = pytest.mark.usefixtures("isolated")
REAL_FOLDER = os.environ.get("COUPLEDGP_DATA")
needs_files = pytest.mark.skipif(
    not REAL_FOLDER, reason="COUPLEDGP_DATA is not set: it names the folder that holds uci/*.csv"
)


def replace_cell(path, row, column, text):
    """Put `text` into a cell; the header is row 1, and columns count from 0."""
    lines = path.read_text().splitlines()
    cells = lines[row - 1].split(",")
    cells[column] = text
    lines[row - 1] = ",".join(cells)
    path.write_text("\n".join(lines) + "\n")


def test_available_lists_the_embedded_and_the_nine_sets():
    assert uci.available() == ("diabetes", "friedman2", *SHAPES)


def test_default_is_diabetes_whatever_the_folders_say(monkeypatch, tmp_path):
    monkeypatch.setenv("COUPLEDGP_DATA", str(tmp_path / "absent"))
    data = uci.load()
    assert isinstance(data, RegressionData)
    assert (data.name, data.X.shape, data.y.shape) == ("diabetes", (442, 10), (442,))
    assert data.X.dtype == data.y.dtype == np.float64
    assert data.feature_names[:3] == ("age", "sex", "bmi")
    assert "load_diabetes" in data.source
    assert "load_diabetes" in repr(data)
    with pytest.raises(AttributeError):
        data.name = "other"


def test_circuits_are_drawn_with_their_noise():
    data = uci.load("friedman2", data_dir="")
    resistance, frequency, inductance, capacitance = data.X.T
    reactance = frequency * inductance - 1 / (frequency * capacitance)
    noise = data.y - np.hypot(resistance, reactance)
    assert (data.target_name, len(data.feature_names)) == ("impedance", 4)
    assert abs(noise.mean()) < 5 * 20 / np.sqrt(500)
    assert abs(noise.std() / 20 - 1) < 5 / np.sqrt(1000)


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(InvalidInputError, match=r"name: .*'abalone'.*got 'concret' .*'concrete'\?"):
        uci.load("concret")


@needs_files
@pytest.mark.parametrize("name", SHAPES)
def test_real_file(name):
    data = uci.load(name, data_dir=REAL_FOLDER)
    n, d = SHAPES[name]
    assert (data.X.shape, data.y.shape, len(data.feature_names)) == ((n, d), (n,), d)
    assert data.X.dtype == data.y.dtype == np.float64
    assert data.X.flags.c_contiguous
    assert np.isfinite(data.X).all()
    assert np.isfinite(data.y).all()
    assert (data.X.std(axis=0) > 0).all()
    assert data.y.std() > 0
    assert str(REAL_FOLDER) in data.source


@needs_files
def test_real_values_show_the_codings_that_downloads_follow(monkeypatch):
    monkeypatch.setenv("COUPLEDGP_DATA", REAL_FOLDER)
    # UCI's first abalone is male with 15 rings, its third female, its fifth an infant.
    abalone = uci.load("abalone")
    np.testing.assert_array_equal(abalone.X[[0, 2, 4], 0], [0.0, 1.0, 2.0])
    assert abalone.y[0] == 15.0
    # Values of RAD, not places in a list of categories.
    np.testing.assert_array_equal(
        np.unique(uci.load("boston").X[:, 8]), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 24.0]
    )
    # RMSD runs from 0 to 20.999 with mean 7.7485; the file holds its log(1 + RMSD), centred.
    y = uci.load("protein").y
    rmsd = np.expm1(y - y.min())
    assert rmsd.max() == pytest.approx(20.999, abs=1e-3)
    assert rmsd.mean() == pytest.approx(7.7485, abs=1e-3)
    # Published performance runs from 6 to 1150; the file holds its log, centred.
    y = uci.load("cpu").y
    assert np.exp(y.max() - y.min()) == pytest.approx(1150 / 6, rel=1e-4)


def test_file_is_read_exactly_with_its_own_header(folder):
    values = numbers("boston")
    header = [f"input {i}" for i in range(13)] + ["price"]
    path = write(folder, "boston", values, header)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))  # as Excel does
    data = uci.load("boston", data_dir=folder)
    np.testing.assert_array_equal(data.X, values[:, :-1])
    np.testing.assert_array_equal(data.y, values[:, -1])
    assert (data.feature_names, data.target_name) == (tuple(header[:-1]), "price")
    assert data.source == f"file {path}"


def test_column_that_turns_from_integers_to_fractions_late_is_read(folder):
    values = np.ones((40000, 9))
    values[-1] = 0.5
    write(folder, "kin40k", values)
    path = folder / "uci" / "kin40k.csv"
    path.write_text(path.read_text().replace("1.0", "1000000000"))
    assert path.stat().st_size > 2 * 2**20  # pyarrow infers types from the first 2^20 bytes
    data = uci.load("kin40k", data_dir=folder)
    assert (data.X[0, 0], data.X[-1, 0], data.y[-1]) == (1e9, 0.5, 0.5)


def test_data_dir_precedes_the_environment_which_precedes_the_download(
    folder, tmp_path, monkeypatch, openml
):
    other = tmp_path / "other"
    (other / "uci").mkdir(parents=True)
    mine, environment, download = (numbers("boston", seed) for seed in (1, 2, 3))
    path = write(folder, "boston", mine)
    write(other, "boston", environment)
    openml.serve_numbers(531, download)
    monkeypatch.setenv("COUPLEDGP_DATA", str(other))
    np.testing.assert_array_equal(uci.load("boston", data_dir=str(folder)).y, mine[:, -1])
    np.testing.assert_array_equal(uci.load("boston").y, environment[:, -1])
    assert openml.requests == []
    path.unlink()  # a folder that is given replaces the environment's, file or not
    np.testing.assert_array_equal(uci.load("boston", data_dir=folder).y, download[:, -1])
    monkeypatch.setenv("COUPLEDGP_DATA", "")  # as good as unset: not the current folder
    monkeypatch.chdir(other)
    np.testing.assert_array_equal(uci.load("boston").y, download[:, -1])


def test_tilde_is_the_home_folder(folder, monkeypatch):
    write(folder, "cpu", numbers("cpu"))
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.setenv("USERPROFILE", str(folder.parent))
    assert uci.load("cpu", data_dir="~/data").X.shape == (209, 7)


@pytest.mark.parametrize("label", ["data_dir", "COUPLEDGP_DATA"])
def test_absent_folder_is_an_error_and_no_reason_to_download(label, tmp_path, monkeypatch, openml):
    openml.serve_numbers(531, numbers("boston"))
    absent = str(tmp_path / "absent")
    monkeypatch.setenv("COUPLEDGP_DATA", absent)
    with pytest.raises(InvalidInputError, match=rf"^{label}: expected an existing folder.*absent"):
        uci.load("boston", data_dir=absent if label == "data_dir" else None)
    assert openml.requests == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("abc", r"column 'x2': Row #5: .*'abc'"),
        ("1;5", r"column 'x2': Row #5: .*'1;5'"),
        ("", r"column 'x2', row 5: expected a finite number, got a missing value"),
        ("NA", r"column 'x2', row 5: expected a finite number, got a missing value"),
        ("nan", r"column 'x2', row 5: expected a finite number, got a missing value"),
        ("-inf", r"column 'x2', row 5: expected a finite number, got -inf"),
        ("1,2", r"Row #5: Expected 8 columns, got 9"),
    ],
)
def test_bad_cell_is_named_with_file_column_and_row(folder, text, message):
    path = write(folder, "cpu", numbers("cpu"))
    replace_cell(path, row=5, column=2, text=text)
    with pytest.raises(InvalidInputError, match=message) as caught:
        uci.load("cpu", data_dir=folder)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("content", [b"", b"\n", b"\n1,2\n", b"\xff\xfe\x00x\n1\n"])
def test_empty_or_undecodable_file(folder, content):
    path = folder / "uci" / "cpu.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match="expected a header line") as caught:
        uci.load("cpu", data_dir=folder)
    assert str(caught.value).startswith(f"{path}: ")


def test_wrong_shape_says_what_was_expected(folder):
    values = numbers("cpu")
    expected = r"cpu\.csv: expected CSV with one header line, 209 rows, 8 numeric columns"
    for wrong, got in [
        (values[:-1], r"208 rows .* of 8 columns"),
        (values[:0], r"0 rows .* of 8 columns"),
        (values[:, 1:], r"209 rows .* of 7 columns"),
    ]:
        write(folder, "cpu", wrong)
        with pytest.raises(InvalidInputError, match=expected + r".*; got " + got):
            uci.load("cpu", data_dir=folder)
    path = write(folder, "cpu", values)
    path.write_text(path.read_text().split("\n", 1)[1])  # without a header
    with pytest.raises(
        InvalidInputError, match=expected + r".*; got 208 rows below the header '\d"
    ):
        uci.load("cpu", data_dir=folder)
