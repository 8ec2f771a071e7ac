"""A study as tables: data frames, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from coupledgp.diagnostics.studies.pairs import FIGURES, MeanOverDraws, PairedComparison, StudyRow
from coupledgp.errors import MissingLibraryError

if TYPE_CHECKING:
    import pandas as pd

ESCAPES = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "[": "{[}", "]": "{]}", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip
Table = tuple[list[str], list[list[Any]]]


def escaped(text: str) -> str:
    """Return a text for LaTeX to print as it is."""
    return "".join(ESCAPES.get(letter, letter) for letter in text)


def draw_table(rows: Sequence[StudyRow], figures: Sequence[str]) -> Table:
    """Return names of columns and one row for each draw."""
    columns = ["coupling", "size", "seed", *figures]
    return columns, [
        [row.coupling, row.size, draw.seed, *(getattr(draw, name) for name in figures)]
        for row in rows
        for draw in row.draws
    ]


def summary_table(rows: Sequence[StudyRow], figures: Sequence[str]) -> Table:
    """Return names of columns and one row for each coupling and size: means, standard errors."""
    columns = ["coupling", "size", "n_draws"]
    columns += [name + ending for name in figures for ending in ("", "_standard_error")]
    found = []
    for row in rows:
        means = [row.mean_of(name) for name in figures]
        values = [value for one in means for value in (one.mean, one.standard_error)]
        found.append([row.coupling, row.size, row.n_draws, *values])
    return columns, found


def frame_of(
    table: tuple[list[str] | None, Any],
    index: Any = None,
    instead: str = "to_csv and to_dict do without",
) -> pd.DataFrame:
    """Return a table as a pandas data frame.

    Parameters
    ----------
    table
        Names of the columns, or None for their numbers, and rows.
    index
        Index of the rows; None: their numbers.
    instead
        What does without pandas, for the error.

    Raises
    ------
    MissingLibraryError
        pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingLibraryError(
            f"a data frame needs pandas, which is not installed: pip install pandas; {instead}"
        ) from error
    columns, rows = table
    return pd.DataFrame(rows, columns=columns, index=index)


def csv_of(table: Table) -> str:
    """Return a table as CSV with a header; numbers are written to full precision."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(table[0])
    writer.writerows(table[1])
    return buffer.getvalue()


def latex_of(
    by_size: Sequence[Sequence[StudyRow]],
    figures: Sequence[str],
    equal: dict[tuple[str, int], set[str]],
    reference: dict[str, float],
    size_name: str,
    caption: str,
    label: str,
) -> str:
    """Return a booktabs table: a row for each coupling, a column for each figure and size.

    Parameters
    ----------
    by_size
        Rows of each size, of the same couplings in the same order.
    figures
        Names of the figures.
    equal
        Couplings to set in bold, for each figure and size.
    reference
        Figures of the exact GP, for a last row; those that are missing stay empty.
    size_name, caption, label
        Texts; an empty label is left out.
    """
    sizes = [rows[0].size for rows in by_size]
    n = len(sizes)
    spans = " & ".join(
        rf"\multicolumn{{{n}}}{{c}}{{{escaped(FIGURES.get(name, name))}}}" for name in figures
    )
    rules = " ".join(
        rf"\cmidrule(lr){{{2 + k * n}-{1 + (k + 1) * n}}}" for k in range(len(figures))
    )
    heads = [f"${size}$" for _ in figures for size in sizes]
    lines = [
        r"\begin{table}", r"  \centering", rf"  \caption{{{caption}}}",
        *([rf"  \label{{{label}}}"] if label else []),
        rf"  \begin{{tabular}}{{l{'c' * (n * len(figures))}}}", r"    \toprule",
        rf"    & {spans} \\", f"    {rules}",
        rf"    {escaped(size_name)} & {' & '.join(heads)} \\", r"    \midrule",
    ]  # fmt: skip
    for at, first in enumerate(by_size[0]):
        cells = [
            _cell(rows[at].mean_of(name), first.coupling in equal[name, rows[at].size])
            for name in figures
            for rows in by_size
        ]
        lines.append(rf"    {escaped(first.coupling)} & {' & '.join(cells)} \\")
    if reference:
        cells = [
            f"${reference[name]:.4g}$" if name in reference else ""
            for name in figures
            for _ in sizes
        ]
        lines += [r"    \midrule", rf"    exact GP & {' & '.join(cells)} \\"]
    lines += [r"    \bottomrule", r"  \end{tabular}", r"\end{table}", ""]
    return "\n".join(lines)


def best_of(rows: Sequence[StudyRow], figure: str, pairs: Sequence[PairedComparison]) -> set[str]:
    """Return the coupling of the least mean, and those that paired tests do not tell from it."""
    best = min(rows, key=lambda row: row.mean_of(figure).mean).coupling
    clear = {one.a if one.b == best else one.b for one in pairs
             if best in (one.a, one.b) and one.is_clear}  # fmt: skip
    return {row.coupling for row in rows} - clear


def _cell(value: MeanOverDraws, bold: bool) -> str:
    """A mean and its standard error in mathematical type."""
    digits = [_power(text) for text in value.digits()]
    if bold:
        digits[0] = rf"\mathbf{{{digits[0]}}}"
    text = r" \pm ".join(digits)
    return f"${text}$"


def _power(text: str) -> str:
    """A number whose exponent, if it has one, is written as a power of ten."""
    mantissa, _, exponent = text.partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa
