"""Sources of batches: files, arrays and iterables give the same rows in every pass."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet
import pytest

from coupledgp.batches import ArrayBatches, IterableBatches, as_source
from coupledgp.batches.sources import rows_of_batch
from coupledgp.errors import InvalidInputError

TABLE = pa.table(
    {"a": np.arange(10.0), "y": np.arange(10) * 2, "w": np.ones(10), "s": list("abcdefghij")}
)
WRITERS = {
    "parquet": pa.parquet.write_table,
    "csv": pa.csv.write_csv,
    "arrow": pa.feather.write_feather,
}


def rows_of(source):
    """Columns a and s, targets and weights of one pass."""
    batches = list(source)
    tables = pa.concat_tables([batch.X for batch in batches])
    weights = [batch.sample_weight for batch in batches]
    y = np.concatenate([batch.y for batch in batches])
    return tables, y, None if weights[0] is None else np.concatenate(weights), len(batches)


@pytest.mark.parametrize("ending", WRITERS)
def test_files_give_their_rows_in_every_pass(ending, tmp_path):
    path = tmp_path / f"t.{ending}"
    WRITERS[ending](TABLE, str(path))
    source = as_source(path, "y", sample_weight="w", batch_rows=4)
    assert source.n_rows == (None if ending == "csv" else 10)
    for _ in range(2):
        found, y, weights, n_batches = rows_of(source)
        assert found.column_names == ["a", "s"]
        assert n_batches >= 1
        assert found.column("s").to_pylist() == list("abcdefghij")
        np.testing.assert_array_equal(y, np.arange(10) * 2.0)
        np.testing.assert_array_equal(weights, np.ones(10))


def test_a_folder_is_its_files_by_name_and_a_dataset_itself(tmp_path):
    for k, part in enumerate((TABLE.slice(0, 3), TABLE.slice(3))):
        pa.parquet.write_table(part, tmp_path / f"part-{k}.parquet")
    for given in (tmp_path, str(tmp_path), sorted(tmp_path.iterdir()),
                  pa.dataset.dataset(tmp_path)):  # fmt: skip
        assert rows_of(as_source(given, "y", columns=["s"]))[0].column_names == ["s"]
        np.testing.assert_array_equal(rows_of(as_source(given, "y"))[1], np.arange(10) * 2.0)
    several = next(iter(as_source(tmp_path, ["y", "a"])))
    assert several.y.shape == (3, 2)


def test_whole_numbers_of_a_csv_may_end(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "1,2\n" * 200_000 + "1.5,2.5\n")
    _, y, _, _ = rows_of(as_source(path, "y"))
    assert y.size == 200_001
    assert y[-1] == 2.5


def test_texts_of_csv_may_have_lines_and_first_blocks_may_be_empty(tmp_path):
    path = tmp_path / "t.csv"
    rows = ['"two\nlines";;1'] + ["one;;2"] * 200_000 + ["one;7;3"]
    path.write_text("\n".join(["s;late;y", *rows]) + "\n")
    found, y, _, _ = rows_of(as_source(path, "y"))
    assert found.column("s")[0].as_py() == "two\nlines"
    assert found.column("late").null_count == 200_001
    assert found.column("late")[-1].as_py() == 7.0
    assert y.tolist()[-1] == 3.0


def test_batches_of_wide_tables_have_fewer_rows():
    assert rows_of_batch(8) == 65536
    assert rows_of_batch(4096) == 1024
    assert rows_of_batch(10**7) == 256
    wide = np.broadcast_to(0.0, (3000, 4096))
    assert [len(batch.y) for batch in as_source((wide, wide[:, 0]))] == [1024, 1024, 952]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"target": None}, "target: expected the name"),
        ({"target": "z"}, "no column 'z'"),
        ({"target": "y", "columns": ["y"]}, "columns: expected no 'y'"),
        ({"target": "s"}, "y: column 's': expected numbers"),
        ({"target": "y", "columns": []}, "columns of inputs"),
        ({"target": "y", "columns": "a"}, "columns: expected a list of names, got 'a'"),
    ],
)
def test_names_are_checked(names, message, tmp_path):
    pa.parquet.write_table(TABLE, tmp_path / "t.parquet")
    with pytest.raises(InvalidInputError, match=message):
        list(as_source(tmp_path / "t.parquet", **names))


def test_what_is_no_table_is_refused(tmp_path, monkeypatch):
    pa.parquet.write_table(TABLE, tmp_path / "t.parquet")
    monkeypatch.chdir(tmp_path)
    for empty in ("", [""], ["t.parquet", ""]):
        with pytest.raises(InvalidInputError, match=r"batches: .* got an empty text"):
            as_source(empty, "y")
    for other in (3, None):
        for names in ({}, {"target": "y"}):
            with pytest.raises(InvalidInputError, match=r"batches: expected files, .* got "):
                as_source(other, **names)


def test_a_function_has_to_return_batches():
    with pytest.raises(InvalidInputError, match=r"batches: .* got one that returns NoneType"):
        list(as_source(lambda: None))


def test_files_that_are_no_tables_are_refused(tmp_path):
    (tmp_path / "t.parquet").write_bytes(b"no table")
    with pytest.raises(InvalidInputError, match="batches: expected a table in files"):
        as_source(tmp_path / "t.parquet", "y")
    with pytest.raises(InvalidInputError, match=r"ending in \.parquet"):
        as_source(__file__, "y")
    with pytest.raises(FileNotFoundError):
        as_source(tmp_path / "none.parquet", "y")
    (tmp_path / "u.csv").write_text("a,y\n" + "1,2\n" * 400_000 + "x,2\n")
    with pytest.raises(InvalidInputError, match="expected a table in files"):
        list(as_source(tmp_path / "u.csv", "y"))


def test_arrays_and_memory_maps_are_cut(tmp_path):
    X = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float64, (10, 2))
    X[:] = np.arange(20).reshape(10, 2)
    source = as_source((X, X[:, 0], np.ones(10)), batch_rows=4)
    assert isinstance(source, ArrayBatches)
    assert source.n_rows == 10
    assert [len(batch.y) for batch in source] == [4, 4, 2]
    np.testing.assert_array_equal(np.concatenate([batch.X for batch in source]), X)
    assert next(iter(source)).sample_noise is None
    with pytest.raises(InvalidInputError, match="y: expected 10 rows"):
        as_source((X, X[:9, 0]))


def test_what_ends_after_one_pass_is_refused():
    pair = np.zeros((2, 1)), np.zeros(2)
    for once in ((pair for _ in range(3)), iter([pair]), map(tuple, [pair])):
        with pytest.raises(InvalidInputError, match="can be started again"):
            as_source(once)
    for again in ([pair], lambda: (pair for _ in range(1)), lambda: [pair]):
        source = as_source(again)
        assert isinstance(source, IterableBatches)
        assert len(list(source)) == len(list(source)) == 1
    for wrong in (3, None):
        with pytest.raises(InvalidInputError, match="batches: expected files"):
            as_source(wrong)
    with pytest.raises(InvalidInputError, match="batch 2: expected a tuple"):
        list(as_source([pair, pair[0]]))
    with pytest.raises(InvalidInputError, match="target: expected None"):
        as_source([pair], "y")
