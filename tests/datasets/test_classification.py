"""Classification sets: shapes, coding and errors."""

from pathlib import Path

import numpy as np
import pytest

from coupledgp.errors import DataNotFoundError, InvalidInputError
from data_loaders import classification
from data_loaders.files import data_folder

HAVE_FILES = data_folder(None, "classification") is not None
# Rows, columns after coding, classes.
SHAPES = {
    "digits": (1797, 64, 10),
    "abalone": (4177, 10, 28),
    "banknote": (1372, 4, 2),
    "car": (1728, 21, 4),
    "yeast": (1484, 8, 10),
    "cmc": (1473, 9, 3),
    "nursery": (12960, 27, 5),
    "wifi": (2000, 7, 4),
    "chess": (28056, 23, 18),
}


@pytest.mark.parametrize("name", classification.available())
def test_shapes(name: str) -> None:
    if name != "digits" and not HAVE_FILES:
        pytest.skip("no local files")
    data = classification.load(name)
    n, d, classes = SHAPES[name]
    assert data.X.shape == (n, d) == (n, len(data.feature_names))
    assert data.X.dtype == np.float64
    assert np.isfinite(data.X).all()
    assert data.y.shape == (n,)
    assert len(np.unique(data.y)) == classes


def write(folder: Path, text: str) -> None:
    (folder / "classification").mkdir()
    (folder / "classification" / "banknote.txt").write_text(text)


def test_coding(tmp_path: Path) -> None:
    rows = [f"{i / 2},{'ab'[i % 2]},1e-3,{i % 3 or 'five'},{i % 2}" for i in range(1372)]
    write(tmp_path, "\n".join(rows) + "\n\n")
    data = classification.load("banknote", tmp_path)
    assert data.feature_names == ("x0", "x1=a", "x1=b", "x2", "x3=1", "x3=2", "x3=five")
    np.testing.assert_array_equal(data.X[3], [1.5, 0, 1, 1e-3, 0, 0, 1])
    np.testing.assert_array_equal(data.y, np.arange(1372) % 2)
    assert data.source == f"file {tmp_path / 'classification' / 'banknote.txt'}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2,3,4,0\n" * 5, r"expected 1372 rows of 5 columns without a header, got 5 rows of \[5"),
        ("1,2,3,4,0\n" * 1371 + "1,2\n", r"got 1372 rows of \[2, 5\] columns"),
        ("1,2,3,4,0\n" * 1371 + "1,?,3,4,0\n", "row 1372, column 2 is missing"),
        ("", "got 0 rows"),
    ],
)
def test_wrong_files(text: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, text)
    with pytest.raises(InvalidInputError, match=message):
        classification.load("banknote", tmp_path)


def test_no_file_and_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COUPLEDGP_DATA", raising=False)
    with pytest.raises(DataNotFoundError, match=r"wifi: no local file; put UCI's wifi\.txt into"):
        classification.load("wifi")
    with pytest.raises(DataNotFoundError, match="classification under data_dir"):
        classification.load("wifi", tmp_path)
    with pytest.raises(InvalidInputError, match=r"name: expected one of .*\(did you mean 'wifi'"):
        classification.load("wify")
