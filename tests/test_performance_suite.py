"""The command that compares with peers: measuring, summaries, and a quick run of all of it."""

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.performance.__main__ import main
from benchmarks.performance.suite.catalogue import COMPARISONS
from benchmarks.performance.suite.comparison import Comparison, Method, Target
from benchmarks.performance.suite.measuring import ChildError, in_child, measured
from benchmarks.performance.suite.summary import cells, judged, section, slope, slopes

MEGABYTE = 1_000_000


def allocated(size):
    """A call that holds `size` megabytes for a moment."""

    def call():
        held = np.ones(size * MEGABYTE, np.uint8)
        return {"sum": float(held[::MEGABYTE].sum())}

    return call


MEMORY = Comparison(
    "memory", "Arrays of bytes", "megabytes", (40, 80), (1,), lambda size: size,
    (Method("once", "ours", allocated),
     Method("twice", "peer", lambda size: allocated(2 * size), largest=40)),
)  # fmt: skip


def made(sizes, seconds, name="ours", peak=None):
    return [
        {"comparison": "made", "method": name, "role": "ours", "size": size, "round": number,
         "processor_seconds": value, "figures": {}, "peak_bytes": peak}
        for size, values in zip(sizes, seconds, strict=True)
        for number, value in enumerate(values)
    ]  # fmt: skip


def test_peaks_are_those_of_the_call_and_figures_come_back():
    records = [r for size in MEMORY.sizes for r in measured(MEMORY, size, 2, lambda line: None)]
    assert [(r["size"], r["method"], r["round"]) for r in records] == [
        (40, "once", 0), (40, "twice", 0), (40, "once", 1), (40, "twice", 1),
        (80, "once", 0), (80, "once", 1),
    ]  # fmt: skip
    for record in records:
        wanted = record["size"] * (2 if record["method"] == "twice" else 1)
        assert record["figures"] == {"sum": wanted}
        assert record["peak_bytes"] == pytest.approx(wanted * MEGABYTE, rel=0.1)
    rate, error = slopes(MEMORY, cells(MEMORY, records))["once"]["memory"]
    assert rate == pytest.approx(1.0, abs=0.15)
    assert error is None


def test_what_goes_wrong_in_a_process_is_told():
    with pytest.raises(ChildError, match="ZeroDivisionError"):
        in_child(lambda: 1 // 0)
    with pytest.raises(ChildError, match="ended with code 3"):
        in_child(lambda: __import__("os")._exit(3))


def test_the_slope_and_its_error_are_those_of_least_squares():
    x = np.array([10.0, 100.0, 1000.0, 4000.0])
    y = 3e-4 * x**1.7
    assert slope(x, y) == pytest.approx((1.7, 0.0), abs=1e-9)
    noisy = y * np.array([1.1, 0.8, 1.3, 0.9])
    design = np.stack([np.log(x), np.ones(4)], axis=1)
    (rate, _), rest, *_ = np.linalg.lstsq(design, np.log(noisy))
    error = np.sqrt(rest[0] / 2 * np.linalg.inv(design.T @ design)[0, 0])
    assert slope(x, noisy) == pytest.approx((rate, error))


def test_ratios_are_taken_within_rounds_and_targets_judged_at_the_largest_size():
    methods = (Method("ours", "ours", allocated), Method("peer", "peer", allocated))
    target = Target("peer", 0.6)
    comparison = Comparison("made", "Made", "rows", (1, 2), (1,), int, methods, (target,))
    # Every second round runs on a machine that is ten times slower.
    ours = made([1, 2], [[1.0, 10.0, 1.0], [2.0, 20.0, 2.0]])
    peer = made([1, 2], [[1.0, 10.0, 1.0], [4.0, 40.0, 5.0]], "peer")
    found = cells(comparison, ours + peer)
    assert found[2, "peer"].ratio == 2.0
    assert found[2, "peer"].seconds == 5.0
    result = judged(comparison, target, found)
    assert result is not None
    assert (result["size"], result["ratio"], result["met"]) == (2, 0.5, True)
    strict = judged(comparison, Target("peer", 0.4), found)
    assert strict is not None
    assert not strict["met"]
    assert judged(comparison, Target("peer", 1.0), cells(comparison, ours)) is None
    assert "0.5 at 2, met." in section(comparison, ours + peer, quick=False)[-2]
    assert "Target" not in "\n".join(section(comparison, ours + peer, quick=True))


def test_a_quick_run_of_some_comparisons(tmp_path, capsys, monkeypatch):
    """At their smallest sizes, but for one of them; `make scripts` has a quick run of them all."""
    comparisons = tuple(
        c if c.name == "attention" else replace(c, quick=c.quick[:1])
        for c in COMPARISONS
        if c.name in ("attention", "pass")
    )
    monkeypatch.setattr("benchmarks.performance.__main__.COMPARISONS", comparisons)
    main(["--quick", "--output", str(tmp_path)])
    written = json.loads((tmp_path / "performance.json").read_text())
    for comparison in comparisons:
        own = [r for r in written["records"] if r["comparison"] == comparison.name]
        assert {r["size"] for r in own} == set(comparison.quick)
        assert {r["method"] for r in own} == {method.name for method in comparison.methods}
        assert all(r["seconds"] > 0 for r in own)
        assert (tmp_path / f"{comparison.name}.svg").read_text().lstrip().startswith("<?xml")
    page = (tmp_path / "performance.md").read_text()
    assert page.strip() == capsys.readouterr().out.strip()
    # A second run goes on from the first, which has everything.
    main(["--quick", "--only", "attention", "--output", str(tmp_path)])
    assert json.loads((tmp_path / "performance.json").read_text()) == written
    with pytest.raises(SystemExit, match="choose another folder"):
        main(["--only", "attention", "--output", str(tmp_path)])
