"""Compressed files and folders as datasets: the rows, their order and their one schema."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from coupledgp.batches import as_source
from coupledgp.batches.datasets import COMPRESSIONS, format_of
from coupledgp.errors import InvalidInputError
from tests.batches.test_sources import TABLE, rows_of


def compressed(path, text, codec):
    with pa.CompressedOutputStream(str(path), codec) as stream:
        stream.write(text.encode())
    return path


@pytest.mark.parametrize("ending", COMPRESSIONS)
def test_compressed_text_is_read_in_batches(ending, tmp_path):
    text = "a;y\n" + "".join(f"{k};{2 * k}\n" for k in range(60_000))
    path = compressed(tmp_path / f"t.csv{ending}", text, COMPRESSIONS[ending])
    source = as_source(path, "y", batch_rows=9000)
    for _ in range(2):
        found, y, _, n_batches = rows_of(source)
        assert n_batches >= 60_000 // 9000
        np.testing.assert_array_equal(y, 2.0 * np.arange(60_000))
        assert found.column("a")[59_999].as_py() == 59_999.0


def test_damaged_compressed_text_is_refused(tmp_path):
    whole = gzip.compress(b"a,y\n" + b"1,2\n3,4\n" * 200_000)
    for damaged in (whole[: len(whole) // 2], b"a,y\n1,2\n", b""):
        (tmp_path / "t.csv.gz").write_bytes(damaged)
        with pytest.raises(InvalidInputError, match="batches: expected a table in files"):
            list(as_source(tmp_path / "t.csv.gz", "y"))


def test_only_text_is_read_compressed():
    assert format_of(Path("a.CSV.GZ")) == format_of(Path("a.tsv.bz2")) == "csv"
    assert format_of(Path("a.parquet.gz")) is format_of(Path("a.gz")) is None


def test_a_folder_is_read_in_the_order_of_paths_without_hidden_files(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / ".ipynb").mkdir()
    for name, start in (("c.csv", 6), ("a.csv", 0), ("b/z.csv", 4), ("b/y.csv", 2)):
        (tmp_path / name).write_text(f"a,y\n1,{start}\n2,{start + 1}\n")
    for name in ("_SUCCESS.csv", ".hidden.csv", ".ipynb/copy.csv"):
        (tmp_path / name).write_text("other\n1\n")
    assert rows_of(as_source(tmp_path, "y"))[1].tolist() == list(range(8))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_of_a_folder_have_one_schema(ending, tmp_path):
    write = {"csv": pa.csv.write_csv, "parquet": pa.parquet.write_table}[ending]

    def folder(second):
        write(TABLE, str(tmp_path / f"one.{ending}"))
        write(second, str(tmp_path / f"two.{ending}"))
        return as_source(tmp_path, "y")

    turned = folder(TABLE.select(["y", "s", "w", "a"]))
    assert rows_of(turned)[0].column("a").to_pylist() == [*range(10)] * 2
    for second, message in (
        (TABLE.drop_columns("w"), "two.*no column 'w'"),
        (TABLE.append_column("z", TABLE["a"]), "two.*also a column 'z'"),
        (TABLE.set_column(0, "a", TABLE["s"]), "two.*types in files before it"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            folder(second)


def test_types_of_files_are_widened(tmp_path):
    whole, halves = pa.table({"a": [1, 2], "y": [1, 2]}), pa.table({"a": [0.5, 1.5], "y": [3, 4]})
    empty = pa.table({"a": pa.nulls(1), "y": [5]})
    for k, part in enumerate((whole, halves, empty)):
        pa.parquet.write_table(part, tmp_path / f"{k}.parquet")
    found, y, _, _ = rows_of(as_source(tmp_path, "y"))
    assert found.column("a").to_pylist() == [1.0, 2.0, 0.5, 1.5, None]
    assert y.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    (tmp_path / "c").mkdir()
    (tmp_path / "c/0.csv").write_text("late,y\n,1\n")
    (tmp_path / "c/1.csv").write_text("late,y\ntext,1\n")
    late = rows_of(as_source(tmp_path / "c", "y"))[0].column("late")
    assert late.to_pylist() == [None, "text"]


def test_names_of_folders_are_columns(tmp_path):
    for year in (2020, 2021):
        (tmp_path / f"year={year}").mkdir()
        pa.parquet.write_table(TABLE.slice(0, 2), tmp_path / f"year={year}" / "t.parquet")
    source = as_source(tmp_path, "y", columns=["a", "year"])
    assert rows_of(source)[0].column("year").to_pylist() == [2020, 2020, 2021, 2021]


def test_a_folder_without_tables_is_refused(tmp_path):
    (tmp_path / "t.txt").write_text("a,y\n")
    with pytest.raises(InvalidInputError, match=r"got no file ending in \.parquet"):
        as_source(tmp_path, "y")
    pa.parquet.write_table(TABLE, tmp_path / "t.parquet")
    pa.csv.write_csv(TABLE, str(tmp_path / "t.csv"))
    with pytest.raises(InvalidInputError, match="files of one format, got csv, parquet"):
        as_source(tmp_path, "y")
