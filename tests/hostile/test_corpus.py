"""Any file and any option: exit 0, or 2 and one line that names it. A corpus of several hundred."""

import csv

import pytest

from tests.hostile import graphs, meshes, options, roads, series, tables
from tests.hostile.cases import BrokenError, Case, called, check, check_error, within

# The tests run one case in so many, and those of faults that there once were; `make fuzz` all.
EVERY = 5
KNOWN = (
    "predict-cr", "blank-start", "field-of-10mb", "escape-in-name", "int64", "beyond-int128",
    "long-digits",
    "1e400", "exact-hops", "weight-all-tiny", "degenerate.obj", "huge.obj", "micro.obj",
    "fit--kl-target",
    "report--target", "good.dae", "good.3mf", "predict-nodes-m", "predict-places", "p-halt",
    "bomb", "billion", "positions-huge", "nul-name", "null",
    "zero-as-model", "audit--mean", "one-point",
)  # fmt: skip
PARTS = {"tables": tables, "graphs": graphs, "meshes": meshes, "options": options, "roads": roads,
         "series": series}  # fmt: skip


def chosen():
    for part, module in PARTS.items():
        for k, case in enumerate(module.cases()):
            if k % EVERY == 0 or any(name in case.name for name in KNOWN):
                yield pytest.param(case, id=f"{part}-{k}")


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("case", list(chosen()))
def test_a_call_ends_in_0_or_in_2_and_one_line(case, shared, tmp_path):
    before = {path: path.read_bytes() for path in shared.iterdir()}
    check(case, tmp_path, shared)
    assert {path: path.read_bytes() for path in shared.iterdir()} == before


def test_the_corpus_is_large():
    assert sum(1 for _ in chosen()) >= 300
    names = [case.name for module in PARTS.values() for case in module.cases()]
    assert len(names) == len(set(names))


def test_the_check_sees_what_it_looks_for(shared, tmp_path):
    right = ("predict", "{shared}/t.model", "{shared}/t.csv", "-o", "out.csv")
    for k, case in enumerate(
        [
            Case("exit 2", right, code=2),
            Case("no such output", (*right, "--report", "none.html")),
            Case("unnamed", ("fit", "missing.csv", "-t", "y"), names=("other.csv",)),
        ]
    ):
        folder = tmp_path / str(k)
        folder.mkdir()
        if case.name == "no such output":
            assert check(case, folder, shared) == 2  # predict has no such option
            continue
        with pytest.raises(BrokenError):
            check(case, folder, shared)
    for err in ("", "Traceback\n", "coupledgp: error: a\ncoupledgp: error: b\n"):
        with pytest.raises(BrokenError):
            check_error(err, ())


def predicted(arguments, folder):
    with within(folder):
        code, _, err = called(arguments)
    assert (code, err) == (0, "")
    return (folder / "out.csv").read_text()


@pytest.mark.parametrize(
    "name",
    [n for n in tables.READ if n not in ("one-row", "two-rows", "other-order", "exponents",
                                         "large-int", "beyond-int64")],
)  # fmt: skip
def test_texts_are_read_as_the_plain_table_is(name, shared, tmp_path):
    content = tables.READ[name]
    (tmp_path / "t.csv").write_bytes(content() if callable(content) else content)
    (tmp_path / "plain.csv").write_bytes(tables.PLAIN)

    def law(file):
        words = ["predict", f"{shared}/t.model", file, "-o", "out.csv"]
        with_law = predicted(words, tmp_path)
        return [row[-2:] for row in csv.reader(with_law.splitlines())]

    assert law("t.csv")[1:][-16:] == law("plain.csv")[1:]


def test_pandas_reads_the_same_tables(tmp_path):
    pd = pytest.importorskip("pandas")
    from coupledgp.cli.readers.tables import read_table

    for name in ("cr", "crlf", "bom", "blank-start", "blank-start-cr", "blank-inside", "quoted",
                 "field-of-10mb", "quoted-newline", "name-of-1mb"):  # fmt: skip
        content = tables.READ[name]
        path = tmp_path / "t.csv"
        path.write_bytes(content() if callable(content) else content)
        frame, table = pd.read_csv(path), read_table(path)
        assert list(frame.columns) == table.column_names
        for column in "aby":
            assert frame[column].tolist() == table.column(column).to_pylist(), name
