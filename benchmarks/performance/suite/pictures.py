"""Seconds and memory against size, one figure for each comparison."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

from benchmarks.performance.suite.comparison import Comparison
from benchmarks.performance.suite.measuring import Record
from benchmarks.performance.suite.summary import LEAST_PEAK, cells

COLOURS = {
    "ours": ("#0072b2", "#56b4e9"),
    "peer": ("#d55e00", "#009e73", "#cc79a7", "#e69f00"),
}
LINES = {"ours": ("-", 2.0), "peer": ("--", 1.5)}


def write_figure(comparison: Comparison, records: list[Record], path: Path) -> None:
    """Write a figure with a panel of seconds and one of the peak memory, in megabytes."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    found = cells(comparison, records)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.9), layout="constrained")
    colours = {role: cycle(values) for role, values in COLOURS.items()}
    for method in comparison.methods:
        own = [(size, cell) for (size, name), cell in found.items() if name == method.name]
        if not own:
            continue
        colour, (style, width) = next(colours[method.role]), LINES[method.role]
        sizes = [size for size, _ in own]
        shown = {"color": colour, "linestyle": style, "linewidth": width, "marker": "o",
                 "markersize": 4, "label": method.name}  # fmt: skip
        left.plot(sizes, [cell.seconds for _, cell in own], **shown)
        left.fill_between(
            sizes, [c.low for _, c in own], [c.high for _, c in own], color=colour, alpha=0.15
        )
        peaks = [(s, c.peak_bytes / 1e6) for s, c in own if (c.peak_bytes or 0) > LEAST_PEAK]
        if peaks:
            right.plot(*zip(*peaks, strict=True), **shown)
    for axes, name in ((left, "CPU seconds"), (right, "peak memory, MB")):
        axes.set(xscale="log", yscale="log", xlabel=comparison.unit, ylabel=name)
        axes.grid(alpha=0.3, which="both", linewidth=0.5)
    handles, names = left.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.suptitle(comparison.title, fontsize=10)
    figure.savefig(path)
    plt.close(figure)
