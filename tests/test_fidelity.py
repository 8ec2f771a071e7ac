"""The page of fidelity is what the record makes, and the record refuses what it cannot hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.reproduction import fidelity, record
from benchmarks.reproduction.record import Claim, Figure, Finding, Item, Record

PAPER = "variance-reducing-couplings"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A record of one invented paper with a script, a test and something out of reach."""
    lists, found = tmp_path / "items", tmp_path / "record"
    lists.mkdir()
    found.mkdir()
    (lists / "invented.toml").write_text(
        '[paper]\ntitle = "Invented"\nauthors = "Nobody"\nyear = "1900"\naddress = "nowhere"\n'
        '[[item]]\nname = "Table 1"\nclaim = "Less."\nscript = "uci_couplings.py"\n'
        '[[item]]\nname = "Lemma 2"\nclaim = "So."\n'
        'test = "tests/test_fidelity.py::test_a_distance_is_in_standard_errors_of_both"\n'
        '[[item]]\nname = "Figure 3"\nclaim = "Seen."\nout_of_reach = "A drawing."\n'
    )
    monkeypatch.setattr(record, "ITEMS", lists)
    monkeypatch.setattr(record, "FINDINGS", found)
    monkeypatch.setattr(record.findings, "__defaults__", (found,))
    monkeypatch.setattr(fidelity, "DEVIATIONS", tmp_path / "none.md")
    return found


def write(folder: Path, *holds: bool, script: str = "uci_couplings") -> None:
    kept = Record(script, f"python benchmarks/reproduction/{script}.py --record")
    table = kept.item("invented", "Table 1")
    table.figure("first", 0.59, 0.01, 0.627, 0.019, median=0.6)
    for number, one in enumerate(holds):
        table.claim(f"claim {number}", one)
    kept.write(folder)


def test_the_page_is_what_the_record_makes():
    assert fidelity.PAGE.read_text("utf-8") == fidelity.page()


@pytest.mark.parametrize(
    ("holds", "verdict"),
    [
        ((True, True), "reproduced"),
        ((True, False), "in part"),
        ((False,), "not reproduced"),
    ],
)
def test_the_verdict_follows_from_the_claims(folder, holds, verdict):
    write(folder, *holds)
    page = fidelity.page()
    assert f"### Table 1: {verdict}\n" in page
    assert "### Lemma 2: by a test" in page
    assert "### Figure 3: out of reach" in page
    assert "| first | 0.59 (0.01) | 0.6 | 0.627 (0.019) | -1.7 |" in page
    assert page.count("**does not hold**") == holds.count(False)


def test_a_distance_is_in_standard_errors_of_both():
    assert Figure("", 5.0, 3.0, 0.0, 4.0).distance == pytest.approx(1.0)
    assert Figure("", 5.0, None, 3.0, 2.0).distance == pytest.approx(1.0)
    assert Figure("", 5.0, 0.1).distance is None
    assert Figure("", 5.0, 0.0, 4.0).distance is None


def test_items_that_no_list_has_are_refused():
    with pytest.raises(ValueError, match=r"has no item 'Table 17'"):
        Record("script", "").item(PAPER, "Table 17")


def test_a_finding_without_a_claim_is_not_written(folder):
    with pytest.raises(ValueError, match="needs a claim"):
        write(folder)
    assert not list(folder.glob("*.json"))


def test_an_item_is_checked_in_one_way():
    with pytest.raises(ValueError, match="exactly one"):
        Item(PAPER, "Table 1", "", script="a.py", test="b.py")
    with pytest.raises(ValueError, match="exactly one"):
        Item(PAPER, "Table 1", "")


def test_a_script_that_recorded_nothing_is_named(folder):
    with pytest.raises(ValueError, match=r"uci_couplings\.py has recorded nothing"):
        fidelity.page()


def test_a_finding_of_another_script_is_refused(folder):
    write(folder, True, script="walk_errors")
    with pytest.raises(ValueError, match=r"not uci_couplings\.py"):
        fidelity.page()


def test_two_scripts_on_one_item_are_refused(folder):
    write(folder, True)
    write(folder, True, script="walk_errors")
    with pytest.raises(ValueError, match="by two scripts"):
        fidelity.page()


def test_a_finding_whose_item_is_gone_is_refused(folder):
    write(folder, True)
    path = folder / "uci_couplings.json"
    path.write_text(path.read_text().replace("Table 1", "Table 2"))
    with pytest.raises(ValueError, match="recorded nothing"):
        fidelity.page()


def test_a_test_that_is_not_there_is_refused(folder):
    write(folder, True)
    path = record.ITEMS / "invented.toml"
    path.write_text(path.read_text().replace("in_standard_errors_of_both", "of_nothing"))
    with pytest.raises(ValueError, match="there is no tests/test_fidelity"):
        fidelity.page()


def test_a_record_is_read_as_it_was_written(folder):
    write(folder, True, False)
    [(command, found)] = record.findings(folder)
    assert command.endswith("uci_couplings.py --record")
    figure = Figure("first", 0.59, 0.01, 0.627, 0.019, 0.6)
    claims = [Claim("claim 0", True), Claim("claim 1", False)]
    assert found == Finding("invented", "Table 1", [figure], claims)
    assert json.loads((folder / "uci_couplings.json").read_text())["script"] == "uci_couplings"


@pytest.mark.parametrize("paper", record.papers())
def test_every_script_and_test_of_a_list_exists(paper):
    for item in record.items(paper):
        assert not item.script or (record.FOLDER / item.script).exists(), item
        assert not item.test or fidelity.is_there(item.test), item


def test_tests_are_named_by_file_class_and_function():
    assert fidelity.is_there("tests/features/test_hybrid.py::TestAngular::test_error")
    assert fidelity.is_there("tests/test_fidelity.py")
    assert not fidelity.is_there("tests/features/test_hybrid.py::TestAngular::test_err")
    assert not fidelity.is_there("tests/features/test_hybrid.py::Angular::test_error")
    assert not fidelity.is_there("tests/features/test_hybrids.py")
