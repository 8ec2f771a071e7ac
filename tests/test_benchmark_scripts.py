"""Each script of the benchmarks has a smallest run; `make scripts` runs them all."""

import re
from pathlib import Path

import numpy as np

from benchmarks import recorder
from benchmarks.smallest import run, scripts, table

ROOT = Path(__file__).parents[1]


def test_every_script_has_a_smallest_run():
    assert sorted(table("arguments")) == scripts()
    assert set(table("needs")) <= set(scripts())


def test_a_script_that_fails_is_told():
    done = run("space_time.py", "--data neither")
    assert "neither" in done.fault


def test_tables_of_a_text_are_read_as_they_are_written():
    written = recorder.Table(["", "a | b"], [["x", "1.5"], ["y", ""]])
    text = f"Before.\n\n{written.markdown()}\n\nAfter | this."
    assert recorder.tables_of(text.replace("a | b", r"a \| b")) == [
        recorder.Table(["", r"a \| b"], written.rows)
    ]
    aligned = (
        "a note\n          rmse    CPU seconds\none two   1.5      3\nthree    12.5     40\nended"
    )
    assert recorder.tables_of(aligned) == [
        recorder.Table(
            ["", "rmse", "CPU seconds"], [["one two", "1.5", "3"], ["three", "12.5", "40"]]
        )
    ]
    named = "rows  time of it\n  15  0.3\n 150  0.4"
    assert recorder.tables_of(named) == [
        recorder.Table(["rows", "time of it"], [["15", "0.3"], ["150", "0.4"]])
    ]
    assert recorder.tables_of("no table") == []


def test_a_command_is_recorded_with_its_day_and_machine(tmp_path):
    name = tmp_path / "here"
    table = recorder.Table(["k", "v"], [["é", "1"]])
    record = recorder.Recorded(**recorder.stamp("python x"), tables=[table])
    recorder.write(str(name), record)
    assert recorder.read(str(name)) == record
    assert record.said().startswith(f"Measured by version {record.version} on {record.date}, ")
    assert f"numpy {np.__version__}" in record.machine


def test_figures_of_another_version_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "FOLDER", tmp_path / "benchmarks" / "recorded")
    made = recorder.stamp("python x")
    for name, version in (("now", made["version"]), ("then", "0.0.1")):
        record = recorder.Recorded(**made | {"version": version}, tables=[])
        recorder.write(name, record)
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("| a | b |\n|---|---|\n| words | more |\n")
    (tmp_path / "docs" / "page.md").write_text("| a | b |\n|---|---|\n| rows | .42 * |\n")
    older, typed = recorder.older()
    assert older.startswith("benchmarks/recorded/then.json: version 0.0.1; python x")
    assert typed.startswith("docs/page.md: 1 ")


def test_every_record_is_shown_has_a_script_and_rows_of_one_length():
    shown: dict[str, set[int]] = {}
    for page in [*ROOT.glob("benchmarks/*.md"), *ROOT.glob("docs/*.md")]:
        text = page.read_text("utf-8")
        for name, number in re.findall(r"```\{recorded\} (\S+)\n(?::table: (\d+)\n)?", text):
            shown.setdefault(name, set()).add(int(number or 1))
    files = {p.relative_to(recorder.FOLDER).with_suffix("").as_posix()
             for p in recorder.FOLDER.rglob("*.json")}  # fmt: skip
    assert set(shown) == files
    for name, numbers in shown.items():
        record = recorder.read(name)
        assert numbers == set(range(1, len(record.tables) + 1)), name
        assert all(len(row) == len(one.columns) for one in record.tables for row in one.rows), name
        script = re.search(r"python (?:-m )?(benchmarks[\w./]*)", record.command)
        path = ROOT / (script[1] if script[1].endswith(".py") else script[1].replace(".", "/"))
        assert path.exists() or path.with_suffix(".py").exists(), name
        assert re.fullmatch(r"2026-\d\d-\d\d", record.date), name


def test_pages_of_figures_have_no_tables_but_recorded_ones():
    for page in ROOT.glob("benchmarks/RESULTS*.md"):
        assert "|---" not in page.read_text("utf-8"), page.name
