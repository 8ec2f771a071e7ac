"""Medians, ratios within rounds, and slopes with errors, as a table of Markdown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.performance.suite.comparison import Comparison
from benchmarks.performance.suite.measuring import Record

# Peaks below this are pages of the interpreter as much as the method's: they have no slope.
LEAST_PEAK = 2e6
Slope = tuple[float, float | None]


@dataclass(frozen=True)
class Cell:
    """A method at a size.

    Attributes
    ----------
    seconds, low, high : float
        Median of the processor seconds, and their quartiles.
    ratio : float
        Median over rounds of its seconds over those of the first method.
    peak_bytes : int or None
        Peak of the memory.
    figures : dict
        Figures of quality, medians over rounds.
    """

    seconds: float
    low: float
    high: float
    ratio: float
    peak_bytes: int | None
    figures: dict[str, float]


def cells(comparison: Comparison, records: list[Record]) -> dict[tuple[int, str], Cell]:
    """Cells by size and name of the method, in the order of the comparison."""
    own = [record for record in records if record["comparison"] == comparison.name]
    found = {}
    for size in sorted({record["size"] for record in own}):
        first = _seconds(own, size, comparison.methods[0].name)
        for method in comparison.methods:
            seconds = _seconds(own, size, method.name)
            if not seconds.size:
                continue
            rows = [r for r in own if (r["size"], r["method"]) == (size, method.name)]
            low, middle, high = np.quantile(seconds, [0.25, 0.5, 0.75])
            names = rows[0]["figures"]
            figures = {name: float(np.median([r["figures"][name] for r in rows])) for name in names}
            ratio = float(np.median(seconds / first))
            found[size, method.name] = Cell(
                float(middle), float(low), float(high), ratio, rows[0]["peak_bytes"], figures
            )
    return found


def _seconds(records: list[Record], size: int, method: str) -> np.ndarray:
    rows = [r for r in records if (r["size"], r["method"]) == (size, method)]
    return np.array([r["processor_seconds"] for r in sorted(rows, key=lambda row: row["round"])])


def slope(sizes: np.ndarray, values: np.ndarray) -> Slope:
    """Least-squares slope of `log values` in `log sizes`, and its standard error.

    Two points have no error: None.
    """
    x, y = np.log(sizes) - np.log(sizes).mean(), np.log(values)
    rate = float(x @ y / (x @ x))
    if x.size < 3:
        return rate, None
    rest = y - y.mean() - rate * x
    return rate, float(np.sqrt(rest @ rest / (x.size - 2) / (x @ x)))


def slopes(
    comparison: Comparison, found: dict[tuple[int, str], Cell]
) -> dict[str, dict[str, Slope]]:
    """Of each method the slopes of its seconds and of its memory in the size."""
    out = {}
    for method in comparison.methods:
        own = [(size, cell) for (size, name), cell in found.items() if name == method.name]
        if len(own) < 2:
            continue
        sizes = np.array([size for size, _ in own], float)
        seconds = np.array([cell.seconds for _, cell in own])
        out[method.name] = {"seconds": slope(sizes, seconds)}
        peaks = np.array([cell.peak_bytes or 0 for _, cell in own], float)
        if peaks.min() > LEAST_PEAK:
            out[method.name]["memory"] = slope(sizes, peaks)
    return out


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1e5 else f"{value:.2e}"


def _with_error(found: Slope) -> str:
    rate, error = found
    return f"{rate:.2f}" + ("" if error is None else f" ± {error:.2f}")


def section(comparison: Comparison, records: list[Record]) -> list[str]:
    """Lines of Markdown about a comparison."""
    found = cells(comparison, records)
    names = list(dict.fromkeys(name for cell in found.values() for name in cell.figures))
    head = [comparison.unit, "method", "CPU seconds (quartiles)", "times ours", "peak MB", *names]
    lines = [f"## {comparison.name}", "", comparison.title, "", "| " + " | ".join(head) + " |",
             "|" + "---|" * len(head)]  # fmt: skip
    roles = {method.name: method.role for method in comparison.methods}
    shown = {"ours": "{} (ours)", "peer": "{}"}
    for (size, name), cell in found.items():
        peak = "" if cell.peak_bytes is None else _number(cell.peak_bytes / 1e6)
        row = [
            f"{size:,}".replace(",", " "),
            shown[roles[name]].format(name),
            f"{_number(cell.seconds)} ({_number(cell.low)} to {_number(cell.high)})",
            _number(cell.ratio),
            peak,
            *(_number(cell.figures[k]) if k in cell.figures else "" for k in names),
        ]
        lines.append("| " + " | ".join(row) + " |")
    parts = [
        f"{name}: " + ", ".join(f"{what} {_with_error(pair)}" for what, pair in pairs.items())
        for name, pairs in slopes(comparison, found).items()
    ]
    if parts:
        lines += ["", f"Slopes in the number of {comparison.unit}, both as logarithms: "
                  + "; ".join(parts) + "."]  # fmt: skip
    return [*lines, ""]
