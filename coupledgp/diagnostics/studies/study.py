"""Couplings side by side: divergences and scores at several sizes, over several draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coupledgp.diagnostics.plotted import Plotted
from coupledgp.diagnostics.studies.pairs import FIGURES, Draw, PairedComparison, all_pairs
from coupledgp.diagnostics.studies.pairs import MeanOverDraws as MeanOverDraws
from coupledgp.diagnostics.studies.pairs import StudyRow as StudyRow
from coupledgp.diagnostics.studies.tables import (
    best_of,
    csv_of,
    draw_table,
    escaped,
    frame_of,
    latex_of,
    summary_table,
)
from coupledgp.errors import InvalidInputError
from coupledgp.ground.notebook import ExplainedChoice, Notebook, NotebookTable
from coupledgp.ground.output import text_written
from coupledgp.ground.validation import check_choice, wrong

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from coupledgp.diagnostics.pages.picture import Picture

# Without draws, two couplings differ if their means are this many standard errors of the
# difference apart: about one pair in twenty that are equal is told apart.
CLEAR = 2.0
# KL, nats per point, below which posteriors differ by rounding alone.
ROUNDING = 1e-10


@dataclass(frozen=True)
class CouplingStudy(ExplainedChoice, Plotted):
    """Rows of all couplings and sizes, at the hyperparameters of one model.

    Draws of one seed are compared with the same exact law at the same test points, whatever their
    coupling and size, so that couplings can be compared in pairs of draws.

    Attributes
    ----------
    size_name : str
        Name of the estimator's parameter that the sizes are values of.
    rows : tuple of StudyRow
    n_train, n_test : int
        Numbers of training rows and of test points.
    reference_rmse, reference_nlpd : float or None
        Scores of the exact GP; None without targets.
    cannot_gain : str
        Which couplings change the posterior by less than these draws can tell, in words.
    """

    size_name: str
    rows: tuple[StudyRow, ...]
    n_train: int
    n_test: int
    reference_rmse: float | None
    reference_nlpd: float | None
    cannot_gain: str = ""

    @property
    def couplings(self) -> list[str]:
        """Texts of the couplings in the order in which they were given."""
        return list(dict.fromkeys(row.coupling for row in self.rows))

    @property
    def sizes(self) -> list[int]:
        """Sizes in ascending order."""
        return sorted({row.size for row in self.rows})

    @property
    def figures(self) -> list[str]:
        """Names of the figures that every draw has."""
        return ["kl_per_point"] if self.rows[0].rmse is None else list(FIGURES)

    def of(self, coupling: str) -> list[StudyRow]:
        """Return the rows of a coupling, by ascending size."""
        return sorted((r for r in self.rows if r.coupling == coupling), key=lambda r: r.size)

    def at(self, size: int | None = None) -> list[StudyRow]:
        """Return the rows of a size, the largest if none is given, in the order of couplings."""
        size = self.sizes[-1] if size is None else size
        if size not in self.sizes:
            raise wrong("size", f"one of {self.sizes}", size)
        return [row for row in self.rows if row.size == size]

    def comparisons(
        self, figure: str = "kl_per_point", size: int | None = None
    ) -> tuple[PairedComparison, ...]:
        """Compare all pairs of couplings at one size, draw by draw of the same seed.

        Parameters
        ----------
        figure
            `"kl_per_point"`, `"rmse"` or `"nlpd"`.
        size
            One of the sizes; None: the largest.

        Returns
        -------
        tuple of PairedComparison
            Mean differences with standard errors, ratios, and p-values of the paired t-test and of
            Wilcoxon's signed-rank test, also with Holm's correction for all these pairs.

        Raises
        ------
        InvalidInputError
            There is no such figure or size, or the study was read from a file without draws.
        """
        return all_pairs(self.at(size), check_choice(figure, self.figures, "figure"))

    def paired(
        self, a: str, b: str, figure: str = "kl_per_point", size: int | None = None
    ) -> PairedComparison:
        """Compare coupling a with coupling b; arguments and errors are those of `comparisons`.

        The correction of the p-values is for all pairs of the study at that size.
        """
        for name, text in (("a", a), ("b", b)):
            check_choice(text, self.couplings, name)
        if a == b:
            raise InvalidInputError(f"b: expected another coupling than a, got {b!r} twice")
        ordered = [a, b, *(text for text in self.couplings if text not in (a, b))]
        rows = sorted(self.at(size), key=lambda row: ordered.index(row.coupling))
        return all_pairs(rows, check_choice(figure, self.figures, "figure"))[0]

    def verdict(self) -> str:
        """Return in words which coupling is closest at the largest size, and by which factor.

        Couplings are told from the closest by the paired t-test, corrected for all pairs. What
        theory says cannot be gained stands at the end. Rounding is not ranked.
        """
        rows = sorted(self.at(), key=lambda row: row.kl_per_point.mean)
        best, rest = rows[0], rows[1:]
        if self._is_rounding(rows):
            largest = max(abs(row.kl_per_point.mean) for row in rows)
            text = (
                f"With {self.size_name}={best.size} all are the exact GP to rounding, within "
                f"{largest:.0e} nats per point: there is nothing to rank."
            )
            exact = " The walks carry nothing, the exact hops all: take fewer exact_hops."
            return text + exact * (self.size_name == "n_walks")
        text = (
            f"With {self.size_name}={best.size}, {best.coupling} is closest to the exact GP: "
            f"{best.kl_per_point} nats per point."
        )
        equal = [row.coupling for row in rest if row.coupling in self._best("kl_per_point", rows)]
        if equal:
            text += f" Not distinguishable from it: {', '.join(equal)}."
        if rest and rest[-1].coupling not in equal:
            ratio = rest[-1].kl_per_point.mean / max(best.kl_per_point.mean, 1e-300)
            text += f" {rest[-1].coupling} is {ratio:.2g} times as far."
        return f"{text} {self.cannot_gain}".rstrip()

    def explain(self) -> str:
        """The verdict."""
        return self.verdict()

    def notebook(self) -> Notebook:
        """Its verdict, and a table of the means over draws with their standard errors."""
        rows = [
            (row.coupling, f"{row.size}", *(f"{row.mean_of(name)}" for name in self.figures))
            for row in self.rows
        ]
        heads = ("coupling", self.size_name, *(FIGURES[name] for name in self.figures))
        table = NotebookTable(f"Means over {self.rows[0].n_draws} draws", heads, rows)
        title, picture = "Couplings side by side", self.picture().in_notebook()
        return replace(super().notebook(), title=title, tables=[table], picture=picture)

    def _best(self, figure: str, rows: Sequence[StudyRow]) -> set[str]:
        """Couplings at one size that are not told from the one of the least mean."""
        if self._is_rounding(rows):
            return {row.coupling for row in rows}
        if all(row.draws for row in rows):
            return best_of(rows, figure, all_pairs(rows, figure))
        best = min(rows, key=lambda row: row.mean_of(figure).mean)
        return {row.coupling for row in rows if not _clear(best, row, figure)}

    @staticmethod
    def _is_rounding(rows: Sequence[StudyRow]) -> bool:
        return all(abs(row.kl_per_point.mean) < ROUNDING for row in rows)

    def picture(self) -> Picture:
        """The KL of every coupling against the size, or side by side at a single size."""
        from coupledgp.diagnostics.studies.study_pictures import against_size, side_by_side

        one = len(self.sizes) == 1
        return side_by_side(self) if one else against_size(self, "kl_per_point")

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas data frame of one row for each draw.

        Its columns are `coupling`, `size`, `seed`, `kl_per_point` and, with targets, `rmse` and
        `nlpd`.

        Raises
        ------
        MissingLibraryError
            pandas is not installed.
        """
        return frame_of(draw_table(self.rows, self.figures))

    def summary(self) -> pd.DataFrame:
        """Return a pandas data frame of the means over draws, and `..._standard_error` of each.

        Raises
        ------
        MissingLibraryError
            pandas is not installed.
        """
        return frame_of(summary_table(self.rows, self.figures))

    def to_csv(self, path: str | Path | None = None, *, summary: bool = False) -> str:
        """Return the draws, or their means, as CSV, and write it to a path if one is given."""
        table = summary_table if summary else draw_table
        return text_written(csv_of(table(self.rows, self.figures)), path)

    def to_latex(
        self,
        path: str | Path | None = None,
        *,
        figures: Sequence[str] = ("kl_per_point",),
        caption: str | None = None,
        label: str = "",
    ) -> str:
        """Return a table for a paper, in LaTeX with the package booktabs.

        There is a row for each coupling and a column for each size, means with standard errors. In
        bold stand the least mean and those that paired t-tests, corrected for all pairs, do not
        tell from it.

        Parameters
        ----------
        path
            File to write the table to as well.
        figures
            Figures side by side, of `"kl_per_point"`, `"rmse"` and `"nlpd"`.
        caption
            LaTeX of the caption; None says what the table shows.
        label
            Label to refer to; left out if empty.
        """
        chosen = [check_choice(name, self.figures, "figures") for name in figures]
        if caption is None:
            caption = (
                f"Couplings beside the exact GP at {self.n_test} test points, given {self.n_train} "
                f"rows: means over {self.rows[0].n_draws} draws $\\pm$ standard errors. In bold: "
                "the least, and those not distinguishable from it (5\\,\\%, paired "
                "$t$-tests, Holm)."
            )
        by_size = [self.at(size) for size in self.sizes]
        bold = {(name, rows[0].size): self._best(name, rows) for name in chosen for rows in by_size}
        reference = {name: value for name, value in self._reference().items() if name in chosen}
        text = latex_of(by_size, chosen, bold, reference, self.size_name, caption, escaped(label))
        return text_written(text, path)

    def figure(self, figures: Sequence[str] | None = None) -> Figure:
        """Draw figures against the size: means with two standard errors, single draws behind.

        Parameters
        ----------
        figures
            Panels, of `"kl_per_point"`, `"rmse"` and `"nlpd"`; None: all that there are.

        Returns
        -------
        matplotlib.figure.Figure
            Each panel is 2.5 inches wide, letters have 8 points.
        """
        from coupledgp.diagnostics.studies.study_pictures import study_figure  # matplotlib is slow

        names = self.figures if figures is None else figures
        chosen = [check_choice(name, self.figures, "figures") for name in names]
        by_coupling = [self.of(text) for text in self.couplings]
        return study_figure(by_coupling, chosen, self._reference(), self.size_name)

    def save_figure(self, path: str | Path, figures: Sequence[str] | None = None) -> None:
        """Write `figure(figures)` as PDF, PNG (600 dots an inch) or SVG, by the path's ending."""
        from coupledgp.diagnostics.pages.print_figure import save_figure

        save_figure(self.figure(figures), path)

    def _reference(self) -> dict[str, float]:
        """Scores of the exact GP, by name."""
        found = {"rmse": self.reference_rmse, "nlpd": self.reference_nlpd}
        return {name: value for name, value in found.items() if value is not None}

    def to_dict(self) -> dict[str, Any]:
        """Return all rows with their draws, and the verdict, as plain Python values."""
        return asdict(self) | {"verdict": self.verdict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> CouplingStudy:
        """Return the study that `to_dict` made the values of; files may lack draws and remarks."""
        given = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        return cls(**given | {"rows": tuple(_row_of(row) for row in values["rows"])})


def _row_of(values: Mapping[str, Any]) -> StudyRow:
    """Return a row from plain values."""
    means = {
        name: None if values[name] is None else MeanOverDraws(**values[name]) for name in FIGURES
    }
    draws = tuple(Draw(**draw) for draw in values.get("draws", ()))
    return StudyRow(**dict(values) | means | {"draws": draws})


def _clear(a: StudyRow, b: StudyRow, figure: str) -> bool:
    """Return whether the means of two rows differ by more than chance, without their draws."""
    first, second = a.mean_of(figure), b.mean_of(figure)
    error = np.hypot(first.standard_error, second.standard_error)
    return bool(abs(first.mean - second.mean) > CLEAR * error)
