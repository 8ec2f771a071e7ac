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
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.csv

from coupledgp.couplings import parse_coupling, parse_walker_coupling
from coupledgp.diagnostics.study import Study

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


@dataclass
class Results:
    """Figures of every draw, in studies of couplings by sizes.

    Parameters
    ----------
    size_name
        Name of the sizes.
    figures
        Names of the figures of a draw; the first is compared in pairs.
    """

    size_name: str
    figures: Sequence[str]
    draws: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, table: str, coupling: str, size: int, seed: int, *values: float) -> None:
        """Add a draw of a coupling; draws of one seed belong together across couplings."""
        found = dict(zip(self.figures, map(float, values), strict=True))
        row = {"coupling": coupling, "size": size, "seed": seed, **found}
        self.draws.setdefault(table, []).append(row)

    def study(self, table: str) -> Study:
        """The draws of a table."""
        return Study(self.size_name, pd.DataFrame(self.draws[table]), 0, 0, {})

    def print_comparisons(self) -> None:
        """Print the ratios of all pairs with standard errors and corrected p-values."""
        print(f"\n{self.figures[0]}: ratios in pairs of draws, p of t and Wilcoxon after Holm")
        for table in self.draws:
            study = self.study(table)
            for size in study.sizes:
                for one in study.paired(self.figures[0], size).itertuples():
                    print(
                        f"{table}, {self.size_name}={size}: {one.a} / {one.b} {one.ratio:.3f} "
                        f"({one.ratio_error:.3f}), p {one.p_t_holm:.2g}, {one.p_wilcoxon_holm:.2g}"
                    )

    def write(self, paths: Iterable[Path]) -> None:
        """Write every path by its ending; a picture a table and figure, with their names."""
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
        frames = [pd.DataFrame(rows).assign(table=name) for name, rows in self.draws.items()]
        every = pd.concat(frames).rename(columns={"size": self.size_name})
        return every[["table", "coupling", self.size_name, "seed", *self.figures]].to_csv(
            index=False
        )

    def latex(self, table: str) -> str:
        """A booktabs table of means, in bold where tests separate the least from others."""
        n = pd.DataFrame(self.draws[table]).seed.nunique()
        caption = f"{table}: means over {n} draws $\\pm$ standard errors."
        return self.study(table).to_latex(figures=self.figures, caption=caption)

    def _draw(self, path: Path) -> None:
        several = len(self.draws) > 1 or len(self.figures) > 1
        for table in self.draws:
            for figure in self.figures:
                letters = "".join(c if c.isalnum() else "-" for c in f"{table}-{figure}")
                target = path.with_stem(f"{path.stem}-{letters}") if several else path
                self.study(table).picture(figure).save(target)
