"""Couplings side by side: distances from the exact process and scores, over sizes and draws."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from coupledgp.core.fitted import seed_from_random_state
from coupledgp.core.plotted import Plotted
from coupledgp.core.process import GaussianProcess, Points
from coupledgp.couplings.frequencies.base import FrequencyCoupling
from coupledgp.couplings.walkers.registry import WalkerCoupling
from coupledgp.diagnostics.distance.divergences import joint_of, kl_per_point
from coupledgp.diagnostics.distance.solved import StochasticOptions, solved_law
from coupledgp.diagnostics.laws.mixtures import law_of_process
from coupledgp.diagnostics.laws.normal import Normal
from coupledgp.diagnostics.scores import nlpd, rmse
from coupledgp.diagnostics.sources import source_of
from coupledgp.errors import InvalidInputError
from coupledgp.ground.notebook import ExplainedChoice, Notebook, NotebookTable
from coupledgp.ground.output import text_written
from coupledgp.ground.progress import reporter, tell
from coupledgp.ground.threads import suited_threads
from coupledgp.ground.validation import check_choice, check_positive_int, wrong
from coupledgp.random import FloatArray
from coupledgp.tables.gains import cannot_gain
from coupledgp.tables.members import check_selectable, named_couplings
from coupledgp.testing import CouplingContract, LengthsContract, StepsContract

if TYPE_CHECKING:
    from coupledgp.diagnostics.render.figures import Picture

# Figures of a draw, and how tables and axes name them.
FIGURES = {"kl_per_point": "KL, nats per point", "rmse": "RMSE", "nlpd": "NLPD"}
# Couplings differ where the paired t-test, corrected for all pairs of a size, is below this.
LEVEL = 0.05
# KL, nats per point, below which posteriors differ by rounding alone.
ROUNDING = 1e-10
# Training rows up to which the exact process is dense by default.
DENSE_ROWS = 5000
# Letters that LaTeX does not print as they are, and digits of exponents.
ESCAPES = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "[": "{[}", "]": "{]}", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip
PLAIN = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")


@dataclass(frozen=True, eq=False)
class Study(ExplainedChoice, Plotted):
    """Draws of couplings at several sizes, at the hyperparameters and rows of one model.

    Draws of one seed are compared with the same exact process at the same test points, so that
    couplings are compared in pairs of draws.

    Attributes
    ----------
    size_name : str
        Name of the estimator's parameter that the sizes are values of.
    draws : DataFrame
        A row for each draw: `coupling`, `size`, `seed`, `kl_per_point` and, with targets, `rmse`
        and `nlpd`.
    n_train, n_test : int
        Numbers of training rows and of test points.
    exact : dict of str to float
        `rmse` and `nlpd` of the exact process; empty without targets.
    cannot_gain : str
        Which couplings change the posterior by less than these draws can tell, in words.
    warnings : tuple of str
        Couplings whose marginals are not those of the kernel.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> model = cgp.SparseSpectrumGPRegressor(
    ...     n_frequencies=8, optimizer=None, lengthscale=1.5, noise=0.02, random_state=0
    ... )
    >>> model = model.fit(X, np.sin(X[:, 0]))
    >>> study = cgp.coupling_study(model, X[:9], couplings=["iid"], sizes=[4], n_draws=2)
    >>> len(study.draws)
    2
    """

    size_name: str
    draws: pd.DataFrame
    n_train: int
    n_test: int
    exact: dict[str, float]
    cannot_gain: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def figures(self) -> list[str]:
        """Names of the figures that every draw has."""
        return [name for name in self.draws if name not in ("coupling", "size", "seed")]

    @property
    def couplings(self) -> list[str]:
        """Names of the couplings in the order in which they were given."""
        return list(dict.fromkeys(self.draws.coupling))

    @property
    def sizes(self) -> list[int]:
        """Sizes in ascending order."""
        return sorted(set(self.draws["size"]))

    def summary(self) -> pd.DataFrame:
        """Means over draws, and their standard errors as `..._error`, by coupling and size."""
        groups = self.draws.groupby(["coupling", "size"], sort=False)
        found = {"n_draws": groups.size()}
        for name in self.figures:
            found[name], found[f"{name}_error"] = groups[name].mean(), groups[name].sem()
        return pd.DataFrame(found).reset_index()

    def paired(self, figure: str = "kl_per_point", size: int | None = None) -> pd.DataFrame:
        """Paired tests of all pairs of couplings at one size, draw by draw of the same seed.

        Parameters
        ----------
        figure
            `"kl_per_point"`, `"rmse"` or `"nlpd"`.
        size
            One of the sizes; None: the largest.

        Returns
        -------
        DataFrame
            For each pair `a`, `b` the mean `difference` of a minus b with its standard `error`, the
            `ratio` of the means with the `ratio_error` of the delta method, the `correlation` over
            draws, two-sided p-values `p_t` of the paired t-test and `p_wilcoxon` of the signed-rank
            test, and both after Holm's correction for these pairs, `p_t_holm`, `p_wilcoxon_holm`.

        Raises
        ------
        InvalidInputError
            There is no such figure or size.
        """
        values = self._values(check_choice(figure, self.figures, "figure"), size)
        rows = [
            {"a": a, "b": b, **_paired(values[a].to_numpy(), values[b].to_numpy())}
            for a, b in combinations(values.columns, 2)
        ]
        found = pd.DataFrame(rows)
        for name in ("p_t", "p_wilcoxon") if rows else ():
            found[f"{name}_holm"] = holm(found[name])
        return found

    def _values(self, figure: str, size: int | None) -> pd.DataFrame:
        """A figure of one size, a row a seed and a column a coupling."""
        size = self.sizes[-1] if size is None else size
        if size not in self.sizes:
            raise wrong("size", f"one of {self.sizes}", size)
        at = self.draws[self.draws["size"] == size]
        return at.pivot_table(figure, "seed", "coupling")[self.couplings]

    def separated(self, figure: str = "kl_per_point", size: int | None = None) -> dict[str, bool]:
        """Whether each coupling is told from the one of the least mean, by the paired t-test."""
        means = self._values(figure, size).mean()
        apart = dict.fromkeys(means.index, False)
        if figure == "kl_per_point" and means.abs().max() < ROUNDING:
            return apart
        for row in self.paired(figure, size).itertuples():
            if means.idxmin() in (row.a, row.b) and row.p_t_holm < LEVEL:
                apart[row.a if row.b == means.idxmin() else row.b] = True
        return apart

    def verdict(self) -> str:
        """Which coupling is closest at each size, in words.

        Couplings are told from the closest by the paired t-test, corrected for all pairs of the
        size. Differences of rounding are not ranked.
        """
        lines = [*self.warnings, *self.verdict_by_size(), self.cannot_gain]
        return "\n".join(filter(None, lines))

    def verdict_by_size(self) -> list[str]:
        """A sentence for each size, in ascending order."""
        return [self._verdict_at(size) for size in self.sizes]

    def _verdict_at(self, size: int) -> str:
        from coupledgp.diagnostics.render.tables import number, with_error

        values = self._values("kl_per_point", size)
        means, errors = values.mean().sort_values(kind="stable"), values.sem()
        head = f"With {self.size_name}={size}"
        if means.abs().max() < ROUNDING:
            text = (
                f"{head} all are the exact process to rounding, within "
                f"{number(float(means.abs().max()), 1)} nats per point: there is nothing to rank."
            )
            exact = " The walks carry nothing, the exact hops all: take fewer exact_hops."
            return text + exact * (self.size_name == "n_walks")
        best, apart = means.index[0], self.separated("kl_per_point", size)
        distance = f"{with_error(means.iloc[0], errors[best])} nats per point"
        if len(means) > 1 and not any(apart.values()):
            return f"{head} the tests separate no two couplings: {best} has {distance}."
        text = f"{head} {best} is closest to the exact process, {distance}"
        equal = [name for name in means.index[1:] if not apart[name]]
        text += f", not separated from {', '.join(equal)}" if equal else ""
        if len(means) > 1:
            ratio = means.iloc[-1] / max(means.iloc[0], 1e-300)
            text += f"; {means.index[-1]} is {number(ratio, 2)} times as far"
        return f"{text}."

    def explain(self) -> str:
        """The verdict."""
        return self.verdict()

    def picture(self, figure: str = "kl_per_point") -> Picture:
        """A figure against the size: means over draws with two standard errors.

        Raises
        ------
        InvalidInputError
            There is no such figure.
        """
        from coupledgp.diagnostics.render.pictures import against_size

        check_choice(figure, self.figures, "figure")
        title, exact = FIGURES.get(figure, figure), self.exact.get(figure)
        return against_size(self.summary(), figure, title, self.size_name, exact)

    def to_latex(
        self,
        path: str | PathLike[str] | None = None,
        *,
        figures: Sequence[str] = ("kl_per_point",),
        caption: str | None = None,
        label: str = "",
    ) -> str:
        """A table for a paper, in LaTeX with the package booktabs.

        A row for each coupling and a column for each figure and size, means with standard errors.
        Where the tests separate any coupling from the best, the best and those that they do not
        separate from it stand in bold.

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
            n_draws = int(self.summary().n_draws.iloc[0])
            caption = (
                f"Couplings beside the exact process at {self.n_test} test points, given "
                f"{self.n_train} rows: means over {n_draws} draws $\\pm$ standard errors. In bold: "
                "the least, and those that paired $t$-tests (5\\,\\%, Holm) do not separate from "
                "it, where they separate any."
            )
        titles = [FIGURES.get(name, _escaped(name)) for name in chosen]
        columns = pd.MultiIndex.from_product(
            [titles, [f"${size}$" for size in self.sizes]], names=["", _escaped(self.size_name)]
        )
        rows: dict[str, list[str]] = {_escaped(name): [] for name in self.couplings}
        for name in chosen:
            for size in self.sizes:
                values, apart = self._values(name, size), self.separated(name, size)
                for coupling, cells in zip(self.couplings, rows.values(), strict=True):
                    bold = any(apart.values()) and not apart[coupling]
                    column = values[coupling]
                    cells.append(_mathematical(column.mean(), column.sem(), bold))
        if set(chosen) & set(self.exact):
            rows["exact process"] = [
                _mathematical(self.exact[name], np.nan) if name in self.exact else ""
                for name in chosen for _ in self.sizes
            ]  # fmt: skip
        frame = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
        text = frame.style.to_latex(
            hrules=True, multicol_align="c", column_format="l" + "c" * len(columns),
            position_float="centering", caption=caption, label=label or None,
        )  # fmt: skip
        return text_written(text, path)

    def to_html(self, path: str | PathLike[str]) -> str | PathLike[str]:
        """Write the study as one page, and return the path."""
        from coupledgp.diagnostics.render.page import study_page

        text_written(study_page(self), path)
        return path

    def section(self, report: Any = None) -> tuple[str, pd.DataFrame, Any]:
        """The study as a section of a report: `report(..., sections=SECTIONS | {"study": ...})`."""
        from coupledgp.diagnostics.render.tables import study_table

        shown = study_table(self)
        frame = pd.DataFrame(shown.rows, columns=shown.heads)
        return f"Couplings: {self.verdict_by_size()[-1]}", frame, self.picture

    def to_frame(self) -> pd.DataFrame:
        """A row for each draw: its coupling, size, seed and figures."""
        return self.draws.copy()

    def to_dict(self) -> dict[str, Any]:
        """All draws, the scores of the exact process and the verdict as plain values."""
        return {
            "size_name": self.size_name, "n_train": self.n_train, "n_test": self.n_test,
            "exact": dict(self.exact), "draws": self.draws.to_dict("records"),
            "warnings": list(self.warnings), "verdict": self.verdict(),
        }  # fmt: skip

    def notebook(self) -> Notebook:
        """Its verdict, and a table of the means over draws with their standard errors."""
        from coupledgp.diagnostics.render.tables import study_table

        shown = study_table(self)
        table = NotebookTable(shown.title, shown.heads, shown.rows)
        return Notebook("Couplings side by side", sentences=self.verdict().splitlines(),
                        tables=[table])  # fmt: skip


def coupling_study(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    couplings: Sequence[Any] | None = None,
    sizes: Sequence[int] | None = None,
    n_draws: int = 8,
    random_state: Any = 0,
    exact: Any = "auto",
    progress: bool | None = None,
) -> Study:
    """Compare couplings and sizes at a fitted model's hyperparameters and training data.

    Parameters
    ----------
    model
        Fitted `SparseSpectrumGPRegressor` or `GraphGPRegressor`; its coupling and size do not
        matter.
    X, y
        Test inputs (p, d), or labels of p nodes, and, if there are any, targets (p,) or (p, k).
    couplings
        Couplings to compare, texts or objects; of frequencies also `"posterior"`, the draw for
        the posterior. None: the candidates of the model's own search.
    sizes
        Numbers of frequencies or walkers; None: a quarter of the model's, its own, and four times.
    n_draws
        Number of draws of each coupling at each size, 2 or more.
    random_state
        Seed of the draws, the same for every coupling and size.
    exact
        How the exact process is computed, as in `report`; once for all draws.
    progress
        Show progress on stderr; None does so on a terminal.

    Raises
    ------
    InvalidInputError
        An argument is invalid; nothing is computed then.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = cgp.SparseSpectrumGPRegressor(n_frequencies=8, random_state=0).fit(X[::2], y[::2])
    >>> study = cgp.coupling_study(
    ...     model, X[1::2], couplings=["iid", "orthogonal"], sizes=[4], n_draws=4
    ... )
    >>> study.summary()["coupling"].tolist()
    ['iid', 'orthogonal']
    """
    candidates = check_selectable(model).candidate_couplings if couplings is None else couplings
    named = named_couplings(model, candidates)
    own = getattr(model, f"{model.size_parameter}_")
    asked = (max(own // 4, 1), own, 4 * own) if sizes is None else sizes
    counts = sorted({check_positive_int(size, "sizes") for size in asked})
    if not counts:
        raise InvalidInputError("sizes: expected at least one number, got none")
    check_positive_int(n_draws, "n_draws", minimum=2)
    seed = seed_from_random_state(random_state)
    source, options = source_of(model, X), StochasticOptions()
    if isinstance(exact, StochasticOptions):
        options = exact
    else:
        check_choice(exact, ("auto", "dense"), "exact")
    process = source.process
    assert process is not None
    targets = None if y is None else source.targets(y)
    is_solved = exact is options or (exact == "auto" and len(process.data) > DENSE_ROWS)
    if is_solved and len(source) > options.n_columns and process.own_problem() is None:
        # A random subset of the points, each of which costs a solve.
        rng = np.random.default_rng(options.seed)
        chosen = np.sort(rng.choice(len(source), options.n_columns, replace=False))
        source, targets = source.take(chosen), None if targets is None else targets[chosen]
    rows = []
    with suited_threads(), reporter("study", progress):
        tell("exact process")
        law = _exact_law(process, source.points, options if is_solved else None)
        for size in counts:
            for name, coupling in named.items():
                tell(f"{name}, {model.size_parameter}={size}")
                for own_seed in range(seed, seed + n_draws):
                    drawn = process.redrawn(coupling, size, own_seed)
                    found = _law(drawn, source.points, options if is_solved else None)
                    row = {"coupling": name, "size": size, "seed": own_seed}
                    row["kl_per_point"] = kl_per_point(law, found)
                    rows.append(row | _scores(found, targets))
        draws = pd.DataFrame(rows)
        values = draws[draws["size"] == counts[-1]].groupby("coupling").kl_per_point
        errors = (values.sem() / values.mean().clip(lower=1e-300)).to_dict()
        return Study(
            model.size_parameter, draws, len(process.data), len(source), _scores(law, targets),
            cannot_gain(model, process, named, errors, counts[-1]),
            tuple(filter(None, (_wrong_marginals(model, name, one, source.points)
                                for name, one in named.items()))),
        )  # fmt: skip


def _exact_law(
    process: GaussianProcess, points: Points, options: StochasticOptions | None
) -> Normal:
    """The law of the exact process of the same hyperparameters, by solves if options say how."""
    if options is None:
        return joint_of(law_of_process(process.exact(), points))
    return solved_law(process.exact_problem(), points, options)[0]


def _law(process: GaussianProcess, points: Points, options: StochasticOptions | None) -> Normal:
    """The law of a process, by solves where the exact one is and its own needs some."""
    problem = None if options is None else process.own_problem()
    if options is None or problem is None:
        return joint_of(law_of_process(process, points))
    return solved_law(problem, points, options)[0]


def _scores(law: Normal, targets: FloatArray | None) -> dict[str, float]:
    if targets is None:
        return {}
    return {"rmse": rmse(targets, law.mean), "nlpd": nlpd(targets, law.mean, law.std)}


def _wrong_marginals(model: Any, name: str, candidate: Any, points: Points) -> str:
    """A warning where single frequencies or walkers do not have the law that they need.

    Contracts of `coupledgp.testing` draw ensembles of their own; empty where they find nothing.
    """
    coupling = model.parse_coupling(candidate, "couplings")
    try:
        if isinstance(coupling, FrequencyCoupling):
            dim = int(np.shape(points)[1])
            _contract(CouplingContract, coupling=coupling, law_sizes=((2, dim),)).test_marginals()
        elif isinstance(coupling, WalkerCoupling):
            _contract(LengthsContract, lengths=coupling.lengths).test_each_walker_keeps_the_law()
            _contract(StepsContract, steps=coupling.steps).test_each_walker_moves_as_one_alone()
    except InvalidInputError:  # a law of the data, which has no frequencies without rows
        return ""
    except AssertionError as error:
        return f"{name} is no coupling: its marginals are not those of independent draws ({error})."
    return ""


def _contract(kind: type[Any], **attributes: Any) -> Any:
    """A contract on one object."""
    return type(kind.__name__, (kind,), attributes)()


def holm(p_values: ArrayLike) -> FloatArray:
    """Correct p-values (n,) of n tests for their number.

    The k-th smallest is multiplied by `n - k + 1`, made at least that before it and at most one:
    the chance of any false rejection at a level is at most the level, whatever the dependence.
    S. Holm, "A simple sequentially rejective multiple test procedure" (1979).
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    corrected = np.empty_like(p)
    corrected[order] = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)).clip(max=1.0)
    return corrected


def _paired(first: FloatArray, second: FloatArray) -> dict[str, float]:
    """Figures of a pair (n,), before p-values are corrected."""
    difference, n = first - second, first.size
    mean, error = difference.mean(), difference.std(ddof=1) / np.sqrt(n)
    ratio = first.mean() / second.mean() if second.mean() else np.nan
    of_ratio = (first - ratio * second).std(ddof=1) / np.sqrt(n) / abs(second.mean() or np.nan)
    varying = first.std() > 0 and second.std() > 0
    return {
        "difference": float(mean), "error": float(error), "ratio": float(ratio),
        "ratio_error": float(of_ratio),
        "correlation": float(np.corrcoef(first, second)[0, 1]) if varying else np.nan,
        "p_t": float(2 * stats.t.sf(abs(mean) / error, n - 1)) if error > 0 else float(mean == 0),
        "p_wilcoxon": float(stats.wilcoxon(difference).pvalue) if difference.any() else 1.0,
    }  # fmt: skip


def _mathematical(mean: float, error: float, bold: bool = False) -> str:
    """A mean and its standard error in mathematical type."""
    from coupledgp.diagnostics.render.tables import with_error

    text = with_error(mean, error).replace("\N{MINUS SIGN}", "-")
    text = re.sub(r"[\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}]", " ", text)
    text = re.sub(
        "·10([⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)",
        lambda found: rf" \cdot 10^{{{found[1].translate(PLAIN)}}}", text,
    )  # fmt: skip
    digits, mark, rest = text.partition(" ± ")
    digits = rf"\mathbf{{{digits}}}" if bold else digits
    return f"${digits}{mark.replace('±', chr(92) + 'pm')}{rest}$"


def _escaped(text: str) -> str:
    """A text for LaTeX to print as it is."""
    return "".join(ESCAPES.get(letter, letter) for letter in text)
