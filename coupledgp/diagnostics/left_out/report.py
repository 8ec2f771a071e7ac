"""The report of a cross-validation: a table of rows, one of groups, JSON, a page and verdicts.

How much scores flatter a model whose hyperparameters saw the rows that are left out.

With p hyperparameters fitted to n rows the NLPD of rows left out is better than that of new data by
one to two times `p / n` nats per point where that is below a twentieth, by more where it is above:
`benchmarks/left_out_optimism.py` measures it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from coupledgp.core.process import GaussianProcess
from coupledgp.diagnostics.scoring.score_table import per_cent
from coupledgp.diagnostics.scoring.scores import group_means
from coupledgp.diagnostics.sections.posterior import PosteriorReport
from coupledgp.diagnostics.sections.section import ReportTable, Section, register_section
from coupledgp.diagnostics.verdicts.verdict import ADEQUACY, QUALITY, Verdict
from coupledgp.random import FloatArray, IntArray
from coupledgp.tables.local_process import LocalGP
from coupledgp.tables.weight_space import WeightSpaceGP

if TYPE_CHECKING:
    from coupledgp.diagnostics.pages.picture import Picture

# Hyperparameters per row above which a reader is warned.
MANY = 0.05


@dataclass(frozen=True)
class Optimism:
    """Numbers of hyperparameters and of targets.

    Attributes
    ----------
    n_hyperparameters, n_targets : int
    """

    n_hyperparameters: int
    n_targets: int

    @property
    def nats(self) -> float:
        """Least amount, nats per point, by which the NLPD is better than that of new data."""
        return self.n_hyperparameters / self.n_targets

    def remark(self) -> str:
        """What was kept, and what that is worth."""
        return (
            f"The {self.n_hyperparameters} hyperparameters are those of all {self.n_targets} "
            "targets. Where they were fitted to these, the NLPD is better than that of new data by "
            f"one to two times their ratio, {self.nats:.1g} nats per point."
        )

    def warning(self) -> str:
        """What a reader should doubt; empty where the hyperparameters are few."""
        if self.nats <= MANY:
            return ""
        return (
            f"{self.n_hyperparameters} hyperparameters of {self.n_targets} targets: if they were "
            f"fitted to these, what is left out flatters the model, by {self.nats:.1g} nats per "
            "point or more. Score it on new rows."
        )


def optimism(process: GaussianProcess) -> Optimism:
    """Numbers of the hyperparameters of a process, or its first member, and of its targets."""
    first = process.first
    count = _count(first.hyperparameters)
    if isinstance(first, LocalGP):
        count = first.local_prior.vector.size
    elif isinstance(first, WeightSpaceGP) and first.feature_prior.is_fitted:
        count += first.feature_map.n_frequencies * first.feature_map.dim
    return Optimism(count, process.data.targets.size)


def _count(value: Any) -> int:
    """Different numbers in an object and in its parts."""
    if is_dataclass(value):
        return sum(_count(getattr(value, item.name)) for item in fields(value))
    if isinstance(value, float | np.floating):
        return 1
    if isinstance(value, np.ndarray):
        return int(np.unique(value).size)
    own = getattr(value, "__dict__", None)
    return sum(_count(part) for part in own.values()) if own else 0


# Level of the intervals in the tables, and rows and groups that a page and JSON list.
LEVEL, LISTED = 0.95, 20
NOT_ADEQUACY = (
    "Not judged: what is left out says how well the model predicts, not how close it is to its "
    "exact process; compare() measures that."
)
NOT_VOUCHED = "Few rows chose many hyperparameters, so that new data may show less: on these rows"


def _none() -> NDArray[Any]:
    return np.empty(0)


@dataclass(frozen=True)
class CrossValidationReport(PosteriorReport):
    """A `PosteriorReport` of observations that are left out, its figures as attributes.

    Predictions are those of the scored observations given all groups but their own. Figures have
    standard errors over groups.

    Attributes
    ----------
    title : str
        Heading of the page.
    rows : IntArray (m,)
        Numbers of the scored observations among all.
    groups : NDArray (m,)
        Names of their groups, texts.
    kind : str
        What a group is, in the plural: `"rows"`, `"nodes"`, `"places"` or `"groups"`.
    left_out : str
        What was left out, in words.
    losses : FloatArray (m,)
        Negative log densities of the observations, nats, outputs jointly.
    is_joint : bool
        Whether calibration and misfit are judged by the joint law of the residuals.
    optimism : Optimism
        How much the scores flatter hyperparameters that were fitted to all rows.
    provenance : mapping of str to anything JSON holds
        Data, hyperparameters, seed, time and versions.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=40)
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.5, noise=0.02)
    >>> y[7] += 3.0
    >>> report = cgp.diagnostics.cross_validate(model.fit(X, y))
    >>> int(report.left_out_table()["row"][0])  # the largest residual
    7
    >>> report.left_out
    '40 rows, each from all others'
    """

    report_kinds: ClassVar[tuple[str, ...]] = ("comparison", "left-out")
    title: str = "Cross-validation"
    rows: IntArray = field(default_factory=_none, repr=False)
    groups: NDArray[Any] = field(default_factory=_none, repr=False)
    kind: str = "rows"
    left_out: str = ""
    losses: FloatArray = field(default_factory=_none, repr=False)
    is_joint: bool = True
    optimism: Optimism = field(default_factory=lambda: Optimism(0, 1))
    provenance: Mapping[str, Any] = field(default_factory=dict, repr=False)

    points_are: ClassVar[str] = "rows left out"
    alone_title: ClassVar[str] = "Scores of what is left out"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences that a reader should see before any figure."""
        caution = self.optimism.warning()
        return (*super().warnings, *([caution] if caution else []))

    @property
    def leaves_one(self) -> bool:
        """Whether every scored row has a group of its own."""
        return self.n_groups == len(self.rows)

    @property
    def n_groups(self) -> int:
        """Number of groups that are scored."""
        return int(np.unique(self.groups).size)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Answers to the three questions.

        How close the model is to an exact one is not judged. Of few rows for many hyperparameters
        no intervals are called honest, and no model good whose lead over the mean its own fit may
        explain.
        """
        return tuple(self._of_left_out(one) for one in super().verdicts)

    def _of_left_out(self, one: Verdict) -> Verdict:
        if one.question == ADEQUACY:
            return replace(one, colour="grey", sentence=NOT_ADEQUACY, reason="No reference.")
        caution = self.optimism.warning()
        leads = one.question == QUALITY and self._lead() > 2 * self.optimism.nats
        if caution and one.colour == "green" and not leads:
            on_these = f"{NOT_VOUCHED} {one.sentence[:1].lower()}{one.sentence[1:]}"
            return replace(one, colour="grey", sentence=on_these, reason=f"{caution} {one.reason}")
        return one

    def _lead(self) -> float:
        """Nats per point by which the model predicts better than the mean."""
        gaps = [one.differences["nlpd"]["mean"] for one in self.baselines if one.name == "mean"]
        return -(gaps[0] or 0.0) if gaps else 0.0

    def conclusions(self) -> list[str]:
        """Return the figures, the verdicts and what to do next, a sentence each."""
        return [self.scores_in_words(), *super().conclusions()]

    def scores_in_words(self) -> str:
        """Return what was left out and the main scores, in a sentence each."""
        f = self.figures
        errors = f.standard_errors or {}

        def cell(name: str) -> str:
            error = errors.get(name)
            return f"{f.get(name):.4g}" + ("" if error is None else f" ± {error:.2g}")

        return (
            f"Left out: {self.left_out}. RMSE {cell('rmse')}, NLPD {cell('nlpd')} nats per point, "
            f"CRPS {cell('crps')}."
        )

    def left_out_table(self) -> dict[str, NDArray[Any]]:
        """A row for each output of each scored observation, the largest residual first.

        Columns `row` (number of the observation), `group`, `output` (where there are several), `y`,
        `mean`, `std`, `residual` (`(y - mean) / std`), `nlpd`, `crps` and `inside`, whether y is in
        the central 95 % interval. Scores are those of the law itself, a mixture's where it is one,
        whose `nlpd` is that of all outputs jointly. `pandas.DataFrame` takes it as it is.
        """
        p = self.predictions
        assert p.y is not None
        k = p.y.shape[1]
        residual = ((p.y - p.mean) / p.std).ravel()
        columns = {"row": np.repeat(self.rows, k), "group": np.repeat(self.groups, k)}
        if k > 1:
            columns["output"] = np.tile(np.arange(k), len(p.y))
        nlpd = self.losses[:, None] if k == 1 else np.broadcast_to(-p.log_density, p.y.shape)
        columns |= {
            "y": p.y.ravel(), "mean": p.mean.ravel(), "std": p.std.ravel(), "residual": residual,
            "nlpd": nlpd.ravel(), "crps": p.crps.ravel(),
            "inside": self._inside().ravel(),
        }  # fmt: skip
        order = np.argsort(-np.abs(residual), kind="stable")
        return {name: values[order] for name, values in columns.items()}

    def _inside(self) -> NDArray[np.bool_]:
        """Whether each target (m, k) is in the central 95 % interval of its own law."""
        inside: NDArray[np.bool_] = np.abs(2 * self.predictions.transforms_of("") - 1) <= LEVEL
        return inside

    def group_table(self) -> dict[str, NDArray[Any]]:
        """A row for each group, the largest NLPD first.

        Columns `group`, `n` (its scored observations), `rmse`, `nlpd` (nats per observation and
        output), `coverage` (share inside the central 95 % interval) and `bias` (mean standardised
        residual).
        """
        p = self.predictions
        assert p.y is not None
        names, number = np.unique(self.groups, return_inverse=True)
        mean = partial(group_means, number=number.reshape(-1), n_groups=len(names))
        residual, counts = (p.y - p.mean) / p.std, np.bincount(number.reshape(-1))
        columns = {
            "group": names, "n": counts, "rmse": np.sqrt(mean(np.square(p.y - p.mean))),
            "nlpd": mean(self.losses) / p.y.shape[1],
            "coverage": mean(self._inside().astype(float)),
            "bias": mean(residual),
        }  # fmt: skip
        order = np.argsort(-columns["nlpd"], kind="stable")
        return {name: values[order] for name, values in columns.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the figures and the worst rows and groups as plain Python values."""
        return super().to_dict() | {
            "title": self.title,
            "left_out": self.left_out,
            "groups_are": self.kind,
            "n_groups": self.n_groups,
            "joint_law": self.is_joint,
            "optimism": asdict(self.optimism),
            "worst_rows": _plain(self.left_out_table()),
            "worst_groups": _plain(self.group_table()),
            "provenance": dict(self.provenance),
        }

    def lead(self) -> list[str]:
        """Main scores in words, and where the hyperparameters are from."""
        return [
            self.scores_in_words(),
            f"Hyperparameters: {self.provenance.get('hyperparameters', 'not stated')}; those of "
            "all rows.",
        ]


def worst_section(report: CrossValidationReport) -> Section:
    """The groups and the observations that are predicted worst."""
    tables = [rows_table(report)]
    if not report.leaves_one:
        tables.insert(0, groups_table(report))
    y = report.predictions.y
    single = y is not None and y.shape[1] == 1

    def draw() -> Picture:
        from coupledgp.diagnostics.pages.dependence import residuals

        table = report.left_out_table()
        names = table["row" if report.kind == "rows" and report.leaves_one else "group"]
        y, mean, std = (table[name][:LISTED] for name in ("y", "mean", "std"))
        shown = [str(name) for name in names[:LISTED]]
        return residuals(y, mean, std, shown, report.kind)

    return Section("worst", tables=tables, pictures=[draw] if single else [])


def groups_table(report: CrossValidationReport) -> ReportTable:
    """Table of the groups that are predicted worst."""
    table = report.group_table()
    rows = [
        [str(name), str(n), f"{rmse:.4g}", f"{nlpd:.3g}", per_cent(share), f"{bias:+.2f}"]
        for name, n, rmse, nlpd, share, bias in list(zip(*table.values(), strict=True))[:LISTED]
    ]
    columns = (report.kind.removesuffix("s"), "rows", "RMSE", "NLPD", "in 95 % intervals",
               "mean residual")  # fmt: skip
    shown = f"{len(rows)} of {report.n_groups} {report.kind}" if len(rows) < report.n_groups else (
        f"All {report.n_groups} {report.kind}"
    )  # fmt: skip
    return ReportTable(f"{shown}, the worst first", columns, rows)


def rows_table(report: CrossValidationReport) -> ReportTable:
    """Table of the observations that are predicted worst."""
    table = report.left_out_table()
    names = ["row", "group", *(["output"] if "output" in table else [])]
    rows = [
        [*(str(table[name][j]) for name in names),
         *(f"{table[name][j]:.4g}" for name in ("y", "mean", "std")),
         f"{table['residual'][j]:+.2f}"]
        for j in range(min(LISTED, len(table["y"])))
    ]  # fmt: skip
    columns = [*names, "y", "mean", "std", "residual / std"]
    title = f"The {len(rows)} largest of {len(table['y'])} residuals"
    if report.leaves_one and report.kind == "rows":
        columns, rows = [c for c in columns if c != "group"], [[r[0], *r[2:]] for r in rows]
    return ReportTable(title, columns, rows)


def _plain(table: dict[str, NDArray[Any]]) -> list[dict[str, Any]]:
    """The first rows of a table as plain values."""
    columns = {name: values[:LISTED].tolist() for name, values in table.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


register_section("worst", worst_section, "left-out")
