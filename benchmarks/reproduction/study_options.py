"""Options that the comparisons of couplings share, and the files that they write.

    --couplings NAME ...          couplings to compare, in place of the script's own
    --register MODULE:FUNCTION    call a function of yours that registers couplings by name; entry
                                  points of installed packages need no such option
    --data NAME|FILE.csv ...      data sets by name, or tables with a header
    --target COLUMN               target of the tables; the last column if left out
    --output FILE ...             .csv: every draw; .tex: booktabs tables of means; .pdf, .png, .svg:
                                  figures
    --quick                       the smallest run, for a first look

Results are compared by paired tests over common seeds, with Holm's correction.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.csv

from coupledgp.couplings import parse_coupling, parse_walker_coupling
from coupledgp.diagnostics.pages.print_figure import save_figure
from coupledgp.diagnostics.studies.pairs import (
    MeanOverDraws,
    PairedComparison,
    all_pairs,
    values_of,
)
from coupledgp.diagnostics.studies.study_pictures import study_figure
from coupledgp.diagnostics.studies.tables import best_of, csv_of, latex_of

PICTURES = (".pdf", ".png", ".svg")


def add_options(
    parser: argparse.ArgumentParser, couplings: Iterable[str], *, walkers: bool = False,
    data: Sequence[str] = (),
) -> None:  # fmt: skip
    """Add the options; `couplings` and `data` are the script's own."""
    parser.set_defaults(parse=parse_walker_coupling if walkers else parse_coupling)
    kind = "walkers" if walkers else "frequencies"
    own = " ".join(couplings)
    parser.add_argument("--couplings", nargs="+", help=f"couplings of {kind}; default: {own}")
    parser.add_argument("--register", nargs="+", default=[], metavar="MODULE:FUNCTION",
                        help="functions that register couplings of yours")  # fmt: skip
    if data:
        parser.add_argument("--data", nargs="+", default=list(data), metavar="NAME|FILE.csv",
                            help=f"default: {' '.join(data)}")  # fmt: skip
        parser.add_argument("--target", help="target of the tables; the last column if left out")
    parser.add_argument("--output", nargs="+", type=Path, default=[], metavar="FILE",
                        help=".csv, .tex, .pdf, .png or .svg")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="the smallest run")


def parse_options(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the command line, register couplings, and refuse what cannot be used, at once."""
    arguments = parser.parse_args()
    for text in arguments.register:
        registered(text, parser)
    for text in arguments.couplings or []:
        arguments.parse(text, "--couplings")
    for path in arguments.output:
        if path.suffix not in (".csv", ".tex", *PICTURES):
            parser.error(f"--output: expected .csv, .tex, {', '.join(PICTURES)}, got {path}")
    return arguments


def registered(text: str, parser: argparse.ArgumentParser) -> None:
    """Call the function that `MODULE:FUNCTION` names; modules of this folder are found too."""
    module, _, function = text.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        getattr(import_module(module), function)()
    except (ImportError, AttributeError, ValueError) as error:
        parser.error(f"--register: expected MODULE:FUNCTION, got {text!r}: {error}")


def chosen(arguments: argparse.Namespace, own: Mapping[str, Any]) -> dict[str, Any]:
    """Couplings by their labels: the script's own, or those of --couplings.

    A name of the script's own, label or coupling, keeps its label.
    """
    if arguments.couplings is None:
        return dict(own)
    labels = {str(coupling): label for label, coupling in own.items()}
    return {labels.get(text, text): own.get(text, text) for text in arguments.couplings}


def read_table(path: str | Path, target: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (n, d) and targets (n,) of a CSV file with a header.

    A column that is not of numbers becomes one column of zeros and ones for each of its values.
    """
    table = pyarrow.csv.read_csv(path)
    name = table.column_names[-1] if target is None else target
    if name not in table.column_names:
        raise SystemExit(f"--target: expected one of {table.column_names}, got {target!r}")
    columns = []
    for other in table.column_names:
        if other != name:
            columns += indicators(table[other].to_numpy())
    return np.stack(columns, axis=1), table[name].to_numpy()


def indicators(values: np.ndarray) -> list[np.ndarray]:
    """A column of numbers, or columns of zeros and ones."""
    if np.issubdtype(values.dtype, np.number):
        return [values.astype(np.float64)]
    return [(values == one).astype(np.float64) for one in np.unique(values)]


@dataclass(frozen=True)
class Row:
    """Draws of one coupling at one size, as the tables of a study take them."""

    coupling: str
    size: int
    draws: tuple[Any, ...]

    def mean_of(self, figure: str) -> MeanOverDraws:
        """Mean of a figure over draws."""
        return MeanOverDraws.of(values_of(self.draws, figure))


@dataclass
class Results:
    """Figures of every draw, in tables of couplings by sizes.

    Parameters
    ----------
    size_name
        Name of the sizes.
    figures
        Names of the figures of a draw; the first is compared in pairs.
    """

    size_name: str
    figures: Sequence[str]
    draws: dict[str, dict[tuple[str, int], list[Any]]] = field(default_factory=dict)

    def add(self, table: str, coupling: str, size: int, seed: int, *values: float) -> None:
        """Add a draw of a coupling; draws of one seed belong together across couplings."""
        found = dict(zip(self.figures, map(float, values), strict=True))
        draw = SimpleNamespace(seed=seed, **found)
        self.draws.setdefault(table, {}).setdefault((coupling, size), []).append(draw)

    def rows(self, table: str) -> list[Row]:
        """Rows of a table."""
        return [Row(*key, tuple(draws)) for key, draws in self.draws[table].items()]

    def at(self, table: str) -> list[list[Row]]:
        """Rows of each size, ascending, of the same couplings in the same order."""
        rows = self.rows(table)
        sizes = sorted({row.size for row in rows})
        return [[row for row in rows if row.size == size] for size in sizes]

    def comparisons(self, table: str) -> list[PairedComparison]:
        """All pairs at every size, by the first figure."""
        return [one for rows in self.at(table) for one in all_pairs(rows, self.figures[0])]

    def print_comparisons(self) -> None:
        """Print the ratios of all pairs with standard errors and corrected p-values."""
        print(f"\n{self.figures[0]}: ratios in pairs of draws, p of t and Wilcoxon after Holm")
        for table in self.draws:
            for one in self.comparisons(table):
                print(
                    f"{table}, {self.size_name}={one.size}: {one.a} / {one.b} {one.ratio:.3f} "
                    f"({one.ratio_standard_error:.3f}), p {one.p_t_holm:.2g}, "
                    f"{one.p_wilcoxon_holm:.2g}"
                )

    def write(self, paths: Iterable[Path]) -> None:
        """Write every path by its ending; pictures of several tables have their names appended."""
        for path in paths:
            if path.suffix == ".csv":
                path.write_text(self.csv(), encoding="utf-8")
            elif path.suffix == ".tex":
                text = "\n".join(self.latex(table) for table in self.draws)
                path.write_text(text, encoding="utf-8")
            else:
                self._draw(path)

    def csv(self) -> str:
        """Every draw as CSV."""
        header = ["table", "coupling", self.size_name, "seed", *self.figures]
        lines = [
            [table, coupling, size, draw.seed, *(getattr(draw, name) for name in self.figures)]
            for table, cells in self.draws.items()
            for (coupling, size), draws in cells.items()
            for draw in draws
        ]
        return csv_of((header, lines))

    def latex(self, table: str) -> str:
        """A booktabs table of means, those that cannot be told from the least in bold."""
        by_size = self.at(table)
        bold = {
            (name, rows[0].size): best_of(rows, name, all_pairs(rows, name))
            for name in self.figures
            for rows in by_size
        }
        n = len(by_size[0][0].draws)
        caption = f"{table}: means over {n} draws $\\pm$ standard errors."
        return latex_of(by_size, list(self.figures), bold, {}, self.size_name, caption, "")

    def _draw(self, path: Path) -> None:
        for table in self.draws:
            rows = self.rows(table)
            names = dict.fromkeys(row.coupling for row in rows)
            by_coupling = [[row for row in rows if row.coupling == name] for name in names]
            figure = study_figure(by_coupling, list(self.figures), {}, self.size_name)
            letters = "".join(c if c.isalnum() else "-" for c in table)
            target = path if len(self.draws) == 1 else path.with_stem(f"{path.stem}-{letters}")
            save_figure(figure, target)
