"""Reports: predictions to tables to verdicts, for a model, a stated law, and rows left out."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from coupledgp.core.latent import LatentGP
from coupledgp.core.plotted import Plotted
from coupledgp.diagnostics import rivals as rivals_module
from coupledgp.diagnostics.calibration.classes import bins_table, label_draws, reliability_of
from coupledgp.diagnostics.calibration.coverage import (
    MIN_GROUP,
    Calibration,
    calibration_of,
    thirds,
    usual_groups,
)
from coupledgp.diagnostics.calibration.whitened import Whitened
from coupledgp.diagnostics.checks.data import overlap_of
from coupledgp.diagnostics.checks.residuals import LOOKS, Look
from coupledgp.diagnostics.distance.divergences import (
    correlations,
    joint_of,
    kl_bounds_per_point,
    kl_of_draws,
    kl_per_point,
    prior_figures,
)
from coupledgp.diagnostics.distance.latent import DENSE_ROWS, exact_functions, latent_distance
from coupledgp.diagnostics.distance.probes import distance_by_probes
from coupledgp.diagnostics.distance.solved import StochasticOptions, own_law, solved_law
from coupledgp.diagnostics.laws import Chances, Draws, Normal, Observed
from coupledgp.diagnostics.laws.mixtures import law_of_process
from coupledgp.diagnostics.laws.stated import remarks_of
from coupledgp.diagnostics.predictions import Law, Predictions, as_frame
from coupledgp.diagnostics.remedies import RULES as REMEDIES
from coupledgp.diagnostics.render.page import SECTIONS
from coupledgp.diagnostics.rules import RULES, advice_of, judged_points, verdicts_of
from coupledgp.diagnostics.scores import (
    CLASS_SCORES,
    SCORES,
    bounds_of,
    gains_table,
    scores_table,
    widths_of,
)
from coupledgp.diagnostics.sources import (
    Source,
    exact_points,
    exact_process,
    in_units_of,
    left_out_source,
    name_of,
    source_of,
)
from coupledgp.diagnostics.sources import exact_functions as exact_functions_of
from coupledgp.diagnostics.sources.own import LeftOutRows, some_rows
from coupledgp.diagnostics.tables import (
    Check,
    Overlap,
    Rival,
    Rule,
    Score,
    Tables,
    Verdict,
    frame_of_checks,
    table_of,
)
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.ground.memory import check_memory
from coupledgp.ground.output import write_text
from coupledgp.ground.progress import reporter, tell
from coupledgp.ground.threads import suited_threads
from coupledgp.ground.validation import check_choice, check_positive_int
from coupledgp.ground.visible import name_of_targets, warn
from coupledgp.random import IntArray

# Most test points whose joint law is compared, of more a random part; matrices (p, p) alive at
# once.
MOST_POINTS, MATRICES_AT_ONCE = 5000, 11
# Most inputs by which groups are made, and most groups of rows left out.
MOST_INPUTS, MAX_GROUPS = 4, 200
DEPTHS = ("scores", "checks", "full")
EXACT = "exact process"
# Units of distances that are none in nats.
UNITS = {"kernel_rmse": "units of y squared", "kernel_relative_error": "", "largest_change": ""}
MEMBER = "which is the exact process of the mixture's heaviest member only"
# Packages whose code changes figures in their last digits.
PACKAGES = ("coupledgp", "numpy", "scipy", "torch", "gpytorch", "numba", "scikit-learn")

Section = Callable[["Report"], Any]


@dataclass(frozen=True, eq=False, repr=False)
class Report(Plotted):
    """Tables of predictions, what of them is a fault, and what to do next.

    Attributes
    ----------
    tables : Tables
    title : str
    checks : tuple of Check
        What each rule found, fired or not.
    verdicts : tuple of Verdict
        Answers to the three questions.
    advice : tuple of Check
        Fired checks whose remedies are known to gain what matters, the greatest gain first.
    warnings : tuple of str
        What a reader should see before any figure.
    provenance : dict
        Data, model, time and versions.
    sections : mapping of str to callable
        Further parts of the page, functions of the report.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.5, noise=0.02)
    >>> found = cgp.report(model.fit(X[::2], y[::2]), X[1::2], y[1::2], depth="checks")
    >>> found.score("rmse") < 0.15, found.score("rmse", model="linear") > 0.3
    (True, True)
    >>> [one.colour for one in found.verdicts]
    ['green', 'green', 'green']
    """

    tables: Tables
    title: str
    checks: tuple[Check, ...]
    verdicts: tuple[Verdict, ...]
    advice: tuple[Check, ...]
    warnings: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    sections: Mapping[str, Section] = field(default_factory=dict)
    asked: Mapping[str, Any] = field(default_factory=dict)

    def score(self, metric: str, model: str | None = None, part: str = "") -> float:
        """A score of the model, or of `"exact process"` or a rival by its name, or a distance.

        Distances from the exact process are `"kl"`, `"reverse_kl"` and the other metrics of the
        table `"distance"`.

        Raises
        ------
        InvalidInputError
            There is none of that name.
        """
        distance = self.tables.figure("distance", metric=metric)
        if model is None and not part and distance is not None and metric not in SCORES:
            return float(distance.value)
        name = self.tables.predictions.name if model is None else model
        found = self.tables.figure("scores", model=name, part=part, group="", metric=metric)
        if found is None:
            known = sorted({*self.tables.scores.metric, *self.tables.distance.metric})
            raise InvalidInputError(
                f"metric, model, part: expected a row of the table of scores, which has {known} of "
                f"{sorted(set(self.tables.scores.model))}, got {metric!r} of {name!r} at {part!r}"
            )
        return float(found.value)

    def to_frame(self, table: str = "scores") -> pd.DataFrame:
        """A table: `"scores"`, `"gains"`, `"coverage"`, `"pit"`, `"distance"` or `"checks"`."""
        check_choice(table, ("scores", "gains", "coverage", "pit", "distance", "checks"), "table")
        found: pd.DataFrame = getattr(self.tables, table).copy()
        return found

    def to_html(self, path: Any = None) -> Any:
        """Write the page to a path, which is returned; without one the page itself."""
        from coupledgp.diagnostics.render.page import html_of

        page = html_of(self)
        if path is None:
            return page
        write_text(path, page)
        return path

    def picture(self, name: str = "opening") -> Any:
        """The picture that opens the page, `"calibration"`, or that of a section by its name."""
        from coupledgp.diagnostics.render.page import picture_of

        return picture_of(self, name)

    def to_dict(self) -> dict[str, Any]:
        """All tables and verdicts as plain values."""
        from coupledgp.diagnostics.render.tables import dict_of

        return dict_of(self)

    def to_json(self, path: Any = None) -> Any:
        """Write `to_dict` as JSON to a path, which is returned; without one the text itself."""
        text = json.dumps(self.to_dict(), indent=1) + "\n"
        if path is None:
            return text
        write_text(path, text)
        return path

    def to_arviz(self, *, n_chains: int = 4, n_draws: int = 250, seed: int = 0) -> Any:
        """Draws of the laws, targets and log densities in the groups of ArviZ's schema."""
        from coupledgp.diagnostics.render.tables import arviz_of

        return arviz_of(self, n_chains, n_draws, seed)

    def with_exact(
        self, method: str = "solves", options: StochasticOptions | None = None
    ) -> Report:
        """The report beside the exact process, by `"dense"` algebra or iterative `"solves"`.

        Of more points than `options.n_columns` the divergences of the joint laws are computed by
        random probes at all points, and scores at a random part of them.

        Raises
        ------
        InvalidInputError
            The model states no exact process, or the method is unknown.
        """
        check_choice(method, ("dense", "solves"), "method")
        exact = "dense" if method == "dense" else options or StochasticOptions()
        return _reported(**{**self.asked, "exact": exact})

    def with_remedies(self) -> Report:
        """The report with remedies that take fits: each is tried, and what it gains measured.

        They are those of `depth="full"`: a transform of the targets, more features or another
        coupling, more inducing points.
        """
        names = {one.name for one in REMEDIES}
        before = [one for one in self.checks if one.rule not in names]
        return _judged(self.tables, _found(self.tables, REMEDIES, before), self)

    def _repr_html_(self) -> str:
        from coupledgp.diagnostics.render.page import notebook_of

        return notebook_of(self).html()

    def __str__(self) -> str:
        from coupledgp.diagnostics.render.tables import text_of

        return text_of(self)

    def __repr__(self) -> str:
        colours = ", ".join(one.colour for one in self.verdicts)
        return f"Report({self.title!r}, {len(self.tables.predictions)} points: {colours})"


def report(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    exact: Any = "auto",
    rivals: Any = "auto",
    groups: Any = None,
    columns: Any = None,
    parts: Any = None,
    cluster: Any = None,
    exposure: ArrayLike | None = None,
    leave_out_overlap: bool = False,
    depth: str = "full",
    scores: Mapping[str, Score] | None = None,
    rules: Sequence[Rule] = RULES,
    looks: Sequence[Look] = LOOKS,
    sections: Mapping[str, Section] = SECTIONS,
    title: str | None = None,
    target: str | None = None,
    unit: str = "",
    progress: bool | None = None,
    random_state: int = 0,
) -> Report:
    """Report on a fitted model at test points: scores, intervals, faults, and what would be better.

    Parameters
    ----------
    model
        Fitted estimator or process of this package, or any model that `audit` takes.
    X
        Test inputs (p, ...). Of more than 5000 a random part is reported on.
    y
        Targets (p,) or (p, k), or labels; without them there are distances alone. A series of
        pandas is put into the order of a frame `X` by its index.
    exact
        The exact process beside it. `"auto"`: by dense algebra up to 5000 training rows; `"dense"`;
        a `StochasticOptions`: by iterative solves with bounds; a fitted model that takes its place;
        None: none.
    rivals
        `"auto"`: those that apply; names; rivals of one's own by name (docs/reports.md); None.
    groups
        Labels (p,) by which coverage is looked at, several by name.
    columns
        Columns (p,) that the model does not see, such as times, sites or depths: a frame or a
        mapping. Residuals are looked at along these, the row order, the inputs and predictions.
    parts
        The part (p,) of each point whose scores are given apart, in words: `"in gaps"`.
    cluster
        Labels (p,) of what errors share, several by name, as sensor and time. Standard errors are
        the largest clustered ones.
    exposure
        Exposures (p,) of counts.
    leave_out_overlap
        Leave out test rows that are training rows.
    depth
        `"scores"`: distances, scores, simple rivals. `"checks"`: calibration and residuals besides.
        `"full"`: flexible rivals and nearby kernels besides, seconds.
    scores
        Scores by name, `SCORES | {"pinball": Score(losses)}`.
    rules, looks, sections
        What is looked for, and further parts of the page; own ones are functions.
    title, target, unit
        Heading of the page, name of y and its unit.
    progress
        Show progress on stderr; None does so on a terminal.
    random_state
        Seed of what is drawn.

    Returns
    -------
    Report

    Raises
    ------
    InvalidInputError
        An argument is invalid, or shapes do not fit.
    NumericalError
        A predictive covariance is singular, or a solver does not reach its tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = cgp.SparseSpectrumGPRegressor(
    ...     n_frequencies=32, optimizer=None, lengthscale=1.5, noise=0.02, random_state=0
    ... )
    >>> found = cgp.report(model.fit(X[::2], y[::2]), X[1::2], y[1::2], depth="scores")
    >>> bool(found.to_frame("distance").value[0] < 0.01)  # KL from the exact process
    True
    """
    y = aligned(X, y)
    source = source_of(model, X, exposure=exposure)
    if not (exact is None or isinstance(exact, str | StochasticOptions)):
        source = in_units_of(source, source_of(exact, X))
    name = target or name_of_targets(y, getattr(model, "target_names_", ())) or "y"
    return _reported(
        source=source, y=y, exact=exact, rivals=rivals, groups=groups, columns=columns,
        parts=parts, cluster=cluster, leave_out_overlap=leave_out_overlap, depth=depth,
        scores=scores, rules=rules, looks=looks, sections=sections,
        title=title or f"Predictions of {name_of(model)}", target=name, unit=unit,
        progress=progress, random_state=random_state,
    )  # fmt: skip


def audit(
    stated: Any,
    X_train: Any,
    y_train: ArrayLike | None,
    X_test: Any,
    y_test: ArrayLike,
    *,
    kernel: Any = None,
    lengthscale: ArrayLike | None = None,
    outputscale: float | None = None,
    noise: float | None = None,
    mean: float | None = None,
    latent: bool = False,
    exact: Any = "auto",
    rivals: Any = "auto",
    groups: Any = None,
    columns: Any = None,
    parts: Any = None,
    cluster: Any = None,
    leave_out_overlap: bool = False,
    depth: str = "full",
    scores: Mapping[str, Score] | None = None,
    rules: Sequence[Rule] = RULES,
    looks: Sequence[Look] = LOOKS,
    sections: Mapping[str, Section] = SECTIONS,
    title: str = "Audit of predictions",
    target: str | None = None,
    unit: str = "",
    progress: bool | None = None,
    random_state: int = 0,
) -> Report:
    """Audit predictions of any origin, beside the exact process of their kernel and the data.

    Parameters
    ----------
    stated
        A fitted model: gpytorch's with its likelihood, or a pair of both; scikit-learn's
        `GaussianProcessRegressor` or a classifier; one of this package. Or a function of `X_test`,
        or what it would return: means and standard deviations, both (p,), means and covariance
        (p, p), draws (n_samples, p), a mixture, quantiles, intervals, a frozen distribution of
        `scipy.stats`, chances of classes; docs/audit.md has their forms. All are of observations,
        noise included.
    X_train, y_train
        Rows (n, d) and targets (n,) that the predictions were made from. None for both: they are
        not at hand; then simple rivals predict each tenth of the test rows from the others.
    X_test, y_test
        Rows (p, d) and targets (p,). Without training rows `X_test` may be None beside predictions.
    kernel, lengthscale, outputscale, noise, mean
        The kernel of the exact process. None: that of the model, if it can be read. A name as
        `ExactGPRegressor` takes it, with its hyperparameters; a function of rows (n, d) and (p, d)
        with `noise`; or a fitted model that states one. Variances are in units of y squared.
        `mean` is the constant mean of y; None: that of `y_train`.
    latent
        What is stated is the law of the function, to which the noise is added.
    exact, rivals, groups, columns, parts, cluster, leave_out_overlap, depth, scores, rules
        As in `report`.
    looks, sections, title, target, unit, progress, random_state
        As in `report`.

    Returns
    -------
    Report

    Raises
    ------
    InvalidInputError
        An argument is invalid, or needs training rows that are not given.
    NumericalError
        A covariance is not positive definite, or the solver does not reach its tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> mean, std = np.sin(X[1::2, 0]), np.full(30, 0.1)  # what somebody's model predicts
    >>> found = cgp.audit((mean, std), X[::2], y[::2], X[1::2], y[1::2])
    >>> found.verdicts[0].colour
    'green'
    >>> bool(np.isclose(found.score("rmse") ** 2, np.mean((y[1::2] - mean) ** 2)))
    True
    """
    if (X_train is None) != (y_train is None):
        raise InvalidInputError("X_train, y_train: expected both or None for both, got one")
    if leave_out_overlap and X_train is None:
        raise InvalidInputError("leave_out_overlap: expected False without training rows, got True")
    y_test, y_train = aligned(X_test, y_test, "_test"), aligned(X_train, y_train, "_train")
    X = np.empty((len(np.asarray(y_test)), 0)) if X_test is None else X_test
    source = source_of(
        _aligned_prediction(stated, X_test), X, X_train=X_train, y_train=y_train, kernel=kernel,
        lengthscale=lengthscale, outputscale=outputscale, noise=noise, mean=mean, latent=latent,
    )  # fmt: skip
    return _reported(
        source=source, y=y_test, exact=exact, rivals=rivals, groups=groups, columns=columns,
        parts=parts, cluster=cluster, leave_out_overlap=leave_out_overlap, depth=depth,
        scores=scores, rules=rules, looks=looks, sections=sections, title=title,
        target=target or name_of_targets(y_test, ()) or "y", unit=unit, progress=progress,
        random_state=random_state,
    )  # fmt: skip


def cross_validate(
    model: Any,
    *,
    groups: ArrayLike | str | None = None,
    columns: Any = None,
    max_rows: int = 10_000,
    rivals: Any = "auto",
    depth: str = "full",
    scores: Mapping[str, Score] | None = None,
    rules: Sequence[Rule] = RULES,
    looks: Sequence[Look] = LOOKS,
    sections: Mapping[str, Section] = SECTIONS,
    title: str | None = None,
    target: str | None = None,
    unit: str = "",
    random_state: int = 0,
) -> Report:
    """Report how a fitted model predicts each observation from those of other groups.

    Nothing is fitted again: the law of what is left out follows from the factorisation that exists
    (`GaussianProcess.left_out`). Hyperparameters are those of all rows. Rivals leave out the same
    groups. Standard errors are over groups. Models of transformed targets are scored in units of
    the transformed targets.

    Parameters
    ----------
    model
        Fitted estimator or process of this package, with its training rows.
    groups
        Group (n,) of each training row, such as a sensor, a day or a category: numbers or names; or
        the name of an input column. None: rows of equal inputs, observations of a node or of a
        place are left out together, all others alone.
    columns
        Columns (n,) of the training rows that the model does not see; see `report`.
    max_rows
        At most so many rows, drawn at random, are scored; they are predicted from all rows of other
        groups all the same.
    rivals, depth, scores, rules, looks, sections, title, target, unit, random_state
        As in `report`.

    Returns
    -------
    Report

    Raises
    ------
    InvalidInputError
        An argument is invalid, or all rows are in one group.
    CoupledGPError
        The model was saved without its training rows.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=40)
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.5, noise=0.02)
    >>> found = cgp.cross_validate(model.fit(X, y))  # each row from all others
    >>> found.score("rmse") < 0.2
    True
    """
    check_positive_int(max_rows, "max_rows", minimum=2)
    seed = check_positive_int(random_state, "random_state", minimum=0)
    check_choice(depth, DEPTHS, "depth")
    start = time.perf_counter()
    source = left_out_source(model, groups, max_rows, seed)
    rows = source.left_out
    assert rows is not None
    data = rows.process.data
    with suited_threads(len(data)):
        p, judged = _left_out_predictions(rows, source, columns, seed, target, unit, model)
        found = rivals_module.left_out_rivals(
            rows.process, rows.groups, rows.rows, source.categories, asked=rivals,
            depth="full" if depth == "full" else "simple",
        )  # fmt: skip
        measured = tables_of(
            p, source=source, rivals=found, scores=scores, looks=looks, seed=seed, depth=depth,
            left_out=rows, judged=judged,
        )  # fmt: skip
    provenance = _provenance(start) | {"left out": rows.text, "training rows": len(data)}
    return reported(
        measured, rules=rules, sections=sections, depth=depth, provenance=provenance,
        title=title or f"Cross-validation of {name_of(model)}",
    )  # fmt: skip


def _left_out_predictions(
    rows: LeftOutRows, source: Source, columns: Any, seed: int, target: str | None, unit: str,
    model: Any,
) -> tuple[Predictions, Predictions]:  # fmt: skip
    """Predictions of rows that are left out, and those whose joint law is known."""
    n = len(rows.process.data)
    frame = as_frame(columns, n, "columns", "column")
    named = {} if frame is None else {str(one): frame[one].to_numpy() for one in frame}
    if not rows.leaves_one:
        named = {"the groups": rows.names[rows.groups], **named}
    named["row order"] = np.arange(n)
    kept = {name: values[rows.rows] for name, values in named.items()}
    some = not rows.leaves_one and len(rows.names) <= MAX_GROUPS
    p = Predictions(
        rows.law(), rows.y, inputs=_inputs(source), columns=pd.DataFrame(kept),
        groups=pd.DataFrame({"the group": rows.labels}) if some else None,
        cluster=None if rows.leaves_one else pd.DataFrame({"group": rows.labels}),
        n_parameters=source.n_parameters, name=name_of(model), unit=unit,
        target=target or name_of_targets(None, getattr(model, "target_names_", ())) or "y",
        remarks=source.remarks,
    )  # fmt: skip
    places = rows.judged(judged_points(p), seed)
    return p, replace(p.take(places), correlation=rows.correlation(places))


def _reported(
    *,
    source: Source,
    y: Any,
    exact: Any,
    rivals: Any,
    groups: Any,
    columns: Any,
    parts: Any,
    cluster: Any,
    leave_out_overlap: bool,
    depth: str,
    scores: Mapping[str, Score] | None,
    rules: Sequence[Rule],
    looks: Sequence[Look],
    sections: Mapping[str, Section],
    title: str,
    target: str,
    unit: str,
    progress: bool | None,
    random_state: int,
) -> Report:
    """The report that was asked for."""
    asked = dict(locals())
    start, n = time.perf_counter(), len(source)
    check_choice(depth, DEPTHS, "depth")
    seed = check_positive_int(random_state, "random_state", minimum=0)
    if not n:
        raise InvalidInputError("X: expected at least one point, got none")
    with reporter("report", progress), suited_threads(source.n_train, n):
        roles = _roles(n, groups, columns, parts, cluster)
        every, full = source, None
        if isinstance(exact, StochasticOptions) and n > exact.n_columns:
            full = _distances_of_all(every, y, exact)
        limit = exact.n_columns if full is not None else MOST_POINTS
        if y is not None:
            source.targets(values_of(y))  # refused before anything is computed
        overlap, kept = _kept(source, y, leave_out_overlap)
        chosen = kept[some_rows(kept.size, limit, seed)]
        source = source if chosen.size == n else source.take(chosen)
        some = None if y is None else values_of(y)[chosen]
        p = _predictions(source, some, roles, chosen, target, unit)
        if chosen.size < kept.size:
            more = f"Measured at {chosen.size} of {kept.size} test points, drawn at random."
            p = replace(p, remarks=(*p.remarks, more))
        if isinstance(exact, StochasticOptions) and _is_solved(source):
            assert source.process is not None
            p = replace(p, law=own_law(source.process, source.points, exact))
        other, distance = _beside(source, p, exact)
        if p.correlation is None and other is not None:
            # Where the model says nothing on how errors go together, the exact law does.
            p = replace(p, correlation=other.correlation)
        found: tuple[Rival, ...] = ()
        if p.y is not None:
            tell("rivals")
            which = "full" if depth == "full" else "simple"
            found = rivals_module.rivals_of(p, source, rivals, which)
        measured = tables_of(
            p, source=source, exact=other, rivals=found, scores=scores, looks=looks, seed=seed,
            depth=depth, overlap=overlap, distance=distance if full is None else full,
        )  # fmt: skip
        return reported(
            measured, rules=rules, sections=sections, title=title, depth=depth, asked=asked,
            provenance=_provenance(start) | {"training rows": source.n_train},
        )  # fmt: skip


def compare(
    model: Any, X_test: Any, y_test: ArrayLike | None = None, reference: Any = None, **more: Any
) -> Report:
    """`report` under the name that it had; `reference` is its `exact`, `metadata` its `columns`.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.5, noise=0.02)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", FutureWarning)
    ...     found = cgp.posterior_report(model.fit(X, np.sin(X[:, 0])), X[:5] + 0.1)
    >>> found.score("kl") < 1e-9
    True
    """
    warn(
        "compare, posterior_report: use coupledgp.report(model, X, y), which takes their place",
        FutureWarning,
    )
    if "metadata" in more:
        more["columns"] = more.pop("metadata")
    exact = "auto" if reference is None else reference
    return report(model, X_test, y_test, exact=exact, **more)


posterior_report = compare


def tables_of(
    p: Predictions,
    *,
    source: Any = None,
    exact: Predictions | None = None,
    rivals: Sequence[Rival] = (),
    scores: Mapping[str, Score] | None = None,
    looks: Sequence[Look] = LOOKS,
    seed: int = 0,
    depth: str = "full",
    left_out: LeftOutRows | None = None,
    judged: Predictions | None = None,
    overlap: Overlap | None = None,
    distance: pd.DataFrame | None = None,
) -> Tables:
    """All tables of predictions but the checks: a pure function.

    `judged` are the predictions at which calibration is measured; None: at most a thousand of them,
    drawn at random.
    """
    given = scores or (CLASS_SCORES if isinstance(p.law, Chances) else SCORES)
    found = Tables(
        p, exact, tuple(rivals), scores=scores_table(p, exact, rivals, given),
        distance=table_of("distance", []) if distance is None else distance, source=source,
        left_out=left_out, overlap=overlap or Overlap(len(p), None, None), looks=tuple(looks),
        seed=seed,
    )  # fmt: skip
    others = [*rivals, *([] if exact is None else [Rival(exact, "exact")])]
    found = replace(found, gains=gains_table(p, others, given))
    if p.y is None or depth == "scores":
        return found
    if isinstance(p.law, Chances):
        codes = p.y[:, 0].astype(int)
        draws = label_draws(p.law, p.n_train) if p.law.draws is None else p.law.draws
        return replace(
            found, judged=p, reliability=reliability_of(p.law, codes, draws),
            pit=bins_table(p.law, codes),
        )  # fmt: skip
    if judged is None:
        judged = p.take(some_rows(len(p), judged_points(p), [seed, 7]))
    calibration = calibration_of(judged, _all_groups(judged, None if left_out else source))
    return replace(
        found, judged=judged, calibration=calibration, whitened=_whitened(judged),
        coverage=_coverage(calibration, judged), pit=calibration.pit,
    )  # fmt: skip


def reported(
    tables: Tables,
    *,
    rules: Sequence[Rule] = RULES,
    sections: Mapping[str, Section] = SECTIONS,
    title: str = "Predictions",
    depth: str = "full",
    provenance: Mapping[str, Any] | None = None,
    asked: Mapping[str, Any] | None = None,
) -> Report:
    """A report of tables: what each rule finds, the verdicts and the advice."""
    checks = _found(tables, [one for one in rules if _applies(one, depth)], ())
    blank = Report(
        tables, title, (), (), (), provenance=provenance or {}, sections=dict(sections),
        asked=asked or {},
    )  # fmt: skip
    return _judged(tables, checks, blank)


def _found(tables: Tables, rules: Sequence[Rule], before: Sequence[Check]) -> list[Check]:
    """What rules find, each given what those before it have found."""
    found = list(before)
    for rule in rules:
        found += rule.test(replace(tables, checks=frame_of_checks(found)))
    return found


def _applies(rule: Rule, depth: str) -> bool:
    return DEPTHS.index(rule.depth) <= DEPTHS.index(depth)


def _judged(tables: Tables, checks: Sequence[Check], blank: Report) -> Report:
    found = replace(tables, checks=frame_of_checks(list(checks)))
    return replace(
        blank, tables=found, checks=tuple(checks), verdicts=verdicts_of(checks),
        advice=advice_of(checks), warnings=_warnings(tables, checks),
    )  # fmt: skip


def _warnings(t: Tables, checks: Sequence[Check]) -> tuple[str, ...]:
    """What a reader should see before any figure."""
    found, o = [], t.overlap
    if o.n_rows:
        near = f" ({o.n_near} of them but for rounding)" if o.n_near else ""
        rest = " and left out." if o.left_out else ": scores there are not those of new data."
        found.append(f"{o.n_rows} of {o.n_test} test rows are training rows{near}{rest}")
    told = ("optimism", "equal column")
    found += [one.sentence for one in checks if one.rule in told]
    return tuple(dict.fromkeys(found))


def _roles(
    n: int, groups: Any, columns: Any, parts: Any, cluster: Any
) -> dict[str, pd.DataFrame | None]:
    return {
        "groups": as_frame(groups, n, "groups"),
        "columns": as_frame(columns, n, "columns", "column"),
        "parts": as_frame(parts, n, "parts", "part"),
        "cluster": as_frame(cluster, n, "cluster", "cluster"),
    }


def predictions(model: Any, X: Any, y: ArrayLike | None = None, **roles: Any) -> Predictions:
    """Predictions of a model at test points; the roles are those of `report`.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.5, noise=0.02)
    >>> p = cgp.diagnostics.predictions(model.fit(X, np.sin(X[:, 0])), X[:5], np.sin(X[:5, 0]))
    >>> p.law.mean.shape, p.correlation.shape
    ((5, 1), (5, 5, 1))
    """
    source = source_of(model, X)
    given = {"groups": None, "columns": None, "parts": None, "cluster": None} | roles
    frames = _roles(len(source), **given)
    targets = None if y is None else values_of(aligned(X, y))
    return _predictions(source, targets, frames, np.arange(len(source)), "y", "")


def _predictions(
    source: Source,
    y: Any,
    roles: Mapping[str, pd.DataFrame | None],
    chosen: IntArray,
    target: str,
    unit: str,
) -> Predictions:
    """Predictions of a source at its points, which are the chosen ones of those of the roles."""
    p = len(source)
    check_memory(
        MATRICES_AT_ONCE * 8 * p**2, f"X: {p} points compared jointly", "report on fewer points"
    )
    frames = {
        name: None if one is None else one.iloc[chosen].reset_index(drop=True)
        for name, one in roles.items()
    }
    law, correlation = source.law, source.correlation
    if isinstance(law, Chances):
        functions = source.functions
        joint = None if functions is None else (functions.mean, functions.cov)
        power = float(getattr(source.model, "power_", 1.0))
        fitted = source.n_train if source.is_fitted else None
        draws = label_draws(
            law, fitted, joint, None if functions is None else functions.likelihood, power
        )
        law, correlation = replace(law, draws=draws), None
    given = frames["groups"]
    named = {} if given is None else {str(one): given[one].to_numpy() for one in given}
    unseen = frames["columns"]
    named |= {} if unseen is None else {str(one): unseen[one].to_numpy() for one in unseen}
    named["row order"] = chosen
    parts = frames["parts"]
    targets = None if y is None else source.targets(y)
    is_transformed = bool(source.transforms)
    return Predictions(
        law, targets, inputs=_inputs(source), columns=pd.DataFrame(named),
        groups=given, parts=None if parts is None else parts.iloc[:, 0].to_numpy(),
        cluster=frames["cluster"], correlation=correlation, is_stated=source.is_stated,
        n_train=source.n_train if source.is_fitted else None,
        n_parameters=source.n_parameters, name=name_of(source.model),
        target=f"transformed {target}" if is_transformed else target,
        unit="" if is_transformed else unit, remarks=(*remarks_of(law), *source.remarks),
    )  # fmt: skip


def values_of(y: Any) -> Any:
    """Targets as an array."""
    return y.to_numpy() if hasattr(y, "to_numpy") else np.asarray(y)


def _inputs(source: Source) -> pd.DataFrame | None:
    return None if source.X is None else pd.DataFrame(source.X, columns=list(source.columns))


def _kept(source: Source, y: Any, leave_out: bool) -> tuple[Overlap, IntArray]:
    """How many test rows are training rows, and the numbers of the rows that are kept."""
    n = len(source)
    found, rows = overlap_of(source, None if y is None else source.targets(values_of(y)))
    if not (leave_out and rows.any()):
        return found, np.arange(n)
    if rows.all():
        raise InvalidInputError(f"X: all {n} test rows are training rows, none is left")
    return found._replace(left_out=True), np.flatnonzero(~rows)


def _beside(
    source: Source, p: Predictions, exact: Any
) -> tuple[Predictions | None, pd.DataFrame | None]:
    """Predictions of the exact process, and the distance from it; None where there is none."""
    if exact is None or (source.n_train is None and isinstance(exact, str)):
        return None, None
    if not isinstance(exact, str | StochasticOptions):  # a model in its place
        other = source_of(exact, source.given)
        return _exact_rows(p, other.law, other.correlation, "reference")
    if isinstance(exact, str):
        check_choice(exact, ("auto", "dense"), "exact")
        if exact == "auto" and (source.n_train or 0) > DENSE_ROWS:
            return None, None
    options = exact if isinstance(exact, StochasticOptions) else None
    if source.classes is not None or source.likelihood is not None:
        return _beside_functions(source, p, options)
    tell("exact process")
    own: Law = p.law
    if options is None:
        process = exact_process(source)
        if process is None:
            return None, None
        if source.process is not None and process is source.process:
            law: Law = own
        else:
            law = law_of_process(process, exact_points(source))
    else:
        problem = (
            source.process.exact_problem() if source.process is not None
            else None if source.kernel is None or source.train_X is None or source.train_y is None
            else source.kernel.problem(source.train_X, source.train_y[:, 0])
        )  # fmt: skip
        if problem is None:
            return None, None
        law, _ = solved_law(problem, exact_points(source), options)
    cov = joint_of(law).cov
    correlation = None if cov is None else correlations(cov)
    found, distance = _exact_rows(p, law, correlation, EXACT)
    is_member = options is not None and not isinstance(p.law, Normal) and source.is_own
    return (replace(found, remarks=(MEMBER,)) if is_member else found), distance


def _exact_rows(
    p: Predictions, law: Law, correlation: Any, name: str
) -> tuple[Predictions, pd.DataFrame]:
    """Predictions of an exact law, and the divergences from it."""
    own, other = joint_of(p.law), joint_of(law)
    if own.mean.shape != other.mean.shape:
        raise InvalidInputError(
            f"exact: expected predictions of shape {own.mean.shape}, got {other.mean.shape}"
        )
    kl, reverse = kl_per_point(other, own), kl_per_point(own, other)
    bounds = [kl_bounds_per_point(*pair) for pair in ((other, own), (own, other))]
    error = 0.0
    if isinstance(p.law, Draws) and correlation is not None:
        chance, error = kl_of_draws(len(p.law.draws), correlation)
        bounds[0] = (bounds[0][0] + chance, bounds[0][1])
    rows = [
        _row("kl", kl, *bounds[0], error), _row("reverse_kl", reverse, *bounds[1]),
        *(_row(key, value) for key, value in prior_figures(own, other).items()),
    ]  # fmt: skip
    if p.y is not None and p.law.has_density:
        below, above = bounds_of(SCORES["nlpd"], law, p.y)
        gain = float(-p.law.log_density(p.y).mean() + law.log_density(p.y).mean()) / p.y.shape[1]
        rows.append(_row("nlpd", gain, above, below))
    found = Predictions(law, correlation=correlation, name=name)
    return found, table_of("distance", rows)


def _row(
    metric: str, value: float, below: float = 0.0, above: float = 0.0, error: float = 0.0
) -> dict[str, Any]:
    unit = UNITS.get(metric, "nats per point")
    return {"metric": metric, "value": value, "below": below, "above": above, "error": error,
            "unit": unit}  # fmt: skip


def _beside_functions(
    source: Source, p: Predictions, options: StochasticOptions | None
) -> tuple[Predictions | None, pd.DataFrame | None]:
    """The exact posterior of a model under a likelihood, and the distance of the functions."""
    functions, process = source.functions, source.process
    if functions is None:
        return None, None
    tell("exact posterior")
    if isinstance(process, LatentGP):
        exact, _ = exact_functions(process, source.points, options)
    else:
        try:
            found = None if (source.n_train or 0) > DENSE_ROWS else exact_functions_of(source)
        except NumericalError:
            found = None
        if found is None:
            return None, None
        exact = found
    distance = latent_distance(exact, functions)
    law: Law = p.law
    same = np.array_equal(exact.mean, functions.mean) and np.array_equal(exact.cov, functions.cov)
    if not same and isinstance(p.law, Chances):
        law = Chances(exact.chances(float(getattr(source.model, "power_", 1.0))), p.law.classes)
    elif not same and isinstance(p.law, Observed):
        shift = p.law.center - functions.mean
        law = Observed(exact.likelihood, exact.mean + shift, exact.variance)
    rows = [_row(key, value) for key, value in distance.items()]
    if p.y is not None:
        gain = float((law.log_density(p.y) - p.law.log_density(p.y)).mean()) / p.y.shape[1]
        rows.append(_row("nlpd", gain))
    return Predictions(law, name=EXACT), table_of("distance", rows)


def _is_solved(source: Source) -> bool:
    """Whether the law of the model itself is computed by iterative solves, as on graphs."""
    process = source.process
    is_normal = process is not None and process.is_gaussian and source.likelihood is None
    return is_normal and process is not None and process.own_problem() is not None


def _distances_of_all(source: Source, y: Any, options: StochasticOptions) -> pd.DataFrame | None:
    """Divergences of the joint laws at all points by random probes."""
    if source.process is None or source.likelihood is not None or _is_solved(source):
        return None
    if source.joint is None:
        return None
    targets = None if y is None else source.targets(values_of(y))
    problem = source.process.exact_problem()
    found = distance_by_probes(source.joint, problem, source.points, targets, options)
    kept = {name: one for name, one in found.items() if "nlpd" not in name}
    return table_of(
        "distance",
        [_row(name, one.value, one.below, one.above, one.standard_error)
         for name, one in kept.items()],
    )  # fmt: skip


def _all_groups(p: Predictions, source: Any) -> dict[str, Any]:
    """Groups by which coverage is looked at: inputs that matter, those given, and predictions."""
    found = _input_groups(p, source) if isinstance(source, Source) else {}
    if p.groups is not None:
        found |= {str(one): p.groups[one].to_numpy() for one in p.groups}
    mean, std = p.law.mean, p.law.std
    if isinstance(p.law, Draws) and p.y is not None:
        # Points whose few draws happen to be near each other hold too few targets otherwise.
        mean, std = p.law.pooled_moments(p.y)
    return found | usual_groups(mean, std)


def _input_groups(p: Predictions, source: Source) -> dict[str, Any]:
    """Thirds of the points by each of the four inputs whose spread is the most lengthscales."""
    process = source.process
    if process is None or p.inputs is None or isinstance(process, LatentGP):
        return {}
    points = p.inputs.to_numpy(dtype=np.float64)
    lengthscale = np.asarray(getattr(process.hyperparameters, "lengthscale", np.nan))
    every = source.X
    if every is None or lengthscale.shape != points.shape[1:]:
        return {}
    order = np.argsort(-every.std(axis=0) / lengthscale, kind="stable")[:MOST_INPUTS]
    return {
        str(p.inputs.columns[k]): thirds(points[:, k]) for k in order if np.ptp(every[:, k]) > 0
    }


def _whitened(p: Predictions) -> Whitened | None:
    """Tests of residuals that are whitened by the stated covariance, if there is one."""
    law = p.law
    if not (p.is_stated and isinstance(law, Normal) and law.slack is None):
        return None
    if p.correlation is None or p.y is None or len(p) < MIN_GROUP:
        return None
    return Whitened.of((p.y - law.mean) / law.std, p.correlation, p.n_train)


def _coverage(c: Calibration, p: Predictions) -> pd.DataFrame:
    """Shares of targets in intervals: of all points, and of groups."""
    law = p.law
    widths = law.widths() if hasattr(law, "widths") else widths_of(law, c.levels)
    means = widths.mean(axis=(0, 1)) if widths.shape[-1] == len(c.levels) else [np.nan] * 99
    rows = [
        {"grouping": "", "group": "", "level": level, "share": share, "chance": chance,
         "width": width, "n": c.n}
        for level, share, chance, width in zip(c.levels, c.shares, c.errors, means, strict=False)
    ]  # fmt: skip
    rows += [
        {"grouping": one.grouping, "group": one.group, "level": one.level, "share": one.share,
         "chance": one.error, "width": np.nan, "n": one.n}
        for one in c.groups
    ]  # fmt: skip
    return table_of("coverage", rows)


def aligned(X: Any, y: Any, suffix: str = "") -> Any:
    """Targets in the order of the rows of a frame, by their indexes.

    Raises
    ------
    InvalidInputError
        Both have an index, and they are not the same set.
    """
    own, other = (getattr(one, "index", None) for one in (X, y))
    if not (isinstance(own, pd.Index) and isinstance(other, pd.Index)) or own.equals(other):
        return y
    is_default = all(isinstance(one, pd.RangeIndex) for one in (own, other))
    if is_default and len(own) == len(other):
        return y
    if len(own) == len(other) and own.is_unique and own.sort_values().equals(other.sort_values()):
        return y.loc[own]
    raise InvalidInputError(
        f"X{suffix}, y{suffix}: expected the same index, got {len(own)} rows from {own[0]!r} and "
        f"{len(other)} targets from {other[0]!r}; give arrays where rows correspond by position"
    )


def _aligned_prediction(stated: Any, X: Any) -> Any:
    """A frame of predictions, or a pair of series, in the order of the test rows."""
    if isinstance(stated, pd.DataFrame) and isinstance(getattr(X, "index", None), pd.Index):
        return aligned(X, stated, "_test") if len(stated) == len(X) else stated
    if isinstance(stated, tuple) and all(isinstance(one, pd.Series) for one in stated):
        return tuple(aligned(X, one, "_test") for one in stated)
    return stated


def _provenance(start: float) -> dict[str, Any]:
    """Time and the versions of what figures were computed with."""
    found: dict[str, Any] = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.perf_counter() - start, 2),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
