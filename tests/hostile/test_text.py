"""Text tables: delimiters, null characters, archives that unfold, and what reading leaves alone."""

import csv
import gzip

import pytest

from coupledgp.cli.readers.text import read_text_table
from coupledgp.errors import InvalidInputError
from coupledgp.ground import memory


def read(path, content):
    path.write_bytes(content)
    return read_text_table(path, (), False)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_delimiters_within_quotes_do_not_count(delimiter, tmp_path):
    others = "".join(d for d in ",;\t" if d != delimiter) * 3
    header = f'"a{others}"{delimiter}b\n1{delimiter}2\n'
    table = read(tmp_path / "t.csv", header.encode())
    assert table.column_names == [f"a{others}", "b"]
    assert table.to_pylist() == [{f"a{others}": 1, "b": 2}]


def test_a_null_character_is_refused_with_its_place(tmp_path):
    with pytest.raises(InvalidInputError, match=r"got a null character at byte 10$"):
        read(tmp_path / "t.csv", b"a,b\n1,2\n3,\0\n")


def test_what_unfolds_into_far_more_than_its_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "FREE_BYTES", 1000)
    content = b"a,b\n" + b"1,2\n" * 200_000
    packed = gzip.compress(content)
    assert len(content) > memory.MOST_TIMES * len(packed)
    with pytest.raises(InvalidInputError, match=r"at most \d+ bytes, 200 times the file's size"):
        read(tmp_path / "t.csv.gz", packed)
    monkeypatch.setattr(memory, "FREE_BYTES", 10**6)  # which a small file may take
    assert read(tmp_path / "t.csv.gz", packed).num_rows == 200_000


def test_limits_of_the_csv_module_stay(tmp_path):
    before = csv.field_size_limit(1234)
    try:
        read(tmp_path / "t.csv", b"a,b\n" + b"1,2\n")
        assert csv.field_size_limit() == 1234
    finally:
        csv.field_size_limit(before)
