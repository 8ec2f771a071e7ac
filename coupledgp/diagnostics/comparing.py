"""Studies of a fitted model: a comparison of couplings, and a report on one page.

The choice between graphs of the same nodes by the evidence of values at some nodes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from coupledgp.core.fitted import seed_from_random_state
from coupledgp.core.process import GaussianProcess
from coupledgp.diagnostics import StochasticOptions, nlpd, rmse
from coupledgp.diagnostics.compare import (
    ReferenceLaw,
    by_probes,
    by_solves,
    compared,
    law_of_model,
    reference_law,
    report_beside,
)
from coupledgp.diagnostics.likelihoods.report import LikelihoodReport
from coupledgp.diagnostics.likelihoods.reporting import is_observed, likelihood_report, sites_of
from coupledgp.diagnostics.pages.mesh import NodeLayout, NodeMap
from coupledgp.diagnostics.residuals.columns import kept_columns, with_row_order
from coupledgp.diagnostics.scoring.figures import versions
from coupledgp.diagnostics.scoring.laws import Law, check_targets
from coupledgp.diagnostics.scoring.measures import kl_per_point
from coupledgp.diagnostics.scoring.overlap import overlap_of, rows_at, without_overlap
from coupledgp.diagnostics.scoring.subject import Subject, in_suited_threads
from coupledgp.diagnostics.sections.posterior import Comparison, PosteriorReport
from coupledgp.diagnostics.sections.section import short_numbers
from coupledgp.diagnostics.studies.pairs import Draw, StudyRow
from coupledgp.diagnostics.studies.study import CouplingStudy
from coupledgp.diagnostics.study_report import StudyReport
from coupledgp.errors import InvalidInputError
from coupledgp.graphs import Graph
from coupledgp.graphs.graph import as_graph, check_graph
from coupledgp.ground.notebook import ExplainedChoice
from coupledgp.ground.progress import reporter, tell
from coupledgp.ground.validation import check_positive_int, wrong
from coupledgp.random import FloatArray
from coupledgp.tables.gains import cannot_gain
from coupledgp.tables.members import check_selectable, named_couplings, with_parameters


@in_suited_threads
def coupling_study(
    model: Any,
    X_test: Any,
    y_test: ArrayLike | None = None,
    *,
    couplings: Sequence[Any],
    sizes: Sequence[int],
    n_draws: int = 8,
    random_state: Any = 0,
    reference: Any = None,
    method: str = "auto",
    options: StochasticOptions | None = None,
    progress: bool | None = None,
) -> CouplingStudy:
    """Compare couplings and sizes at a fitted model's hyperparameters and training data.

    Parameters
    ----------
    model
        Fitted `SparseSpectrumGPRegressor` or `GraphGPRegressor`; its coupling and size do not
        matter.
    X_test, y_test
        Test inputs (p, d), or labels of p nodes, and, if there are any, targets (p,) or (p, k).
    couplings
        Couplings to compare, texts or objects; of frequencies also `"posterior"`, the draw for
        the posterior.
    sizes
        Numbers of frequencies or walkers.
    n_draws
        Number of draws of each coupling at each size, 2 or more.
    random_state
        Seed of the draws, the same for every coupling and size.
    reference
        Fitted exact model; None: `model.exact_twin()`.
    method, options
        How the reference's law is computed, once for all draws, as in `compare`: by dense algebra,
        O(n^3) for n training rows, or, by default above 5000 rows, by iterative solves. Then at
        most `options.n_columns` test points, a random subset, are compared.
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
    ...     model, X[1::2], couplings=["iid", "orthogonal"], sizes=[4], n_draws=4, random_state=0
    ... )
    >>> study.summary()["coupling"].tolist()
    ['iid', 'orthogonal']
    """
    chosen, counts = _check_study(model, couplings, sizes, n_draws)
    seed = seed_from_random_state(random_state)
    options = StochasticOptions() if options is None else options
    asked = Comparison.of(model, X_test, y_test, reference)
    model, X_test, y_test, reference = asked.model, asked.X, asked.y, asked.reference
    solved = by_solves(model, reference, method)
    if solved and by_probes(model, len(X_test), options):
        X_test, y_test = _subset(X_test, y_test, options)
    with reporter("study", progress):
        subject = replace(asked, X=X_test).subject
        exact = reference_law(subject, X_test, reference, solved, options)
        y = None if y_test is None else check_targets(y_test, exact.law.mean.shape)
        draws = _Draws(subject, y, exact, options)
        return draws.study(chosen, counts, n_draws, seed)


def _check_study(
    model: Any, couplings: Sequence[Any], sizes: Sequence[int], n_draws: int
) -> tuple[dict[str, Any], list[int]]:
    """Couplings by their printed names, and the sizes, ascending, each once."""
    check_selectable(model)
    chosen = named_couplings(model, couplings)
    counts = sorted({check_positive_int(size, "sizes") for size in sizes})
    if not counts:
        raise InvalidInputError("sizes: expected at least one number, got none")
    check_positive_int(n_draws, "n_draws", minimum=2)
    return chosen, counts


def _subset(
    X: Any, y: ArrayLike | None, options: StochasticOptions
) -> tuple[Any, FloatArray | None]:
    """A random subset of at most `options.n_columns` test points, each of which costs a solve."""
    rng = np.random.default_rng(options.seed)
    chosen = np.sort(rng.choice(len(X), options.n_columns, replace=False))
    return rows_at(X, chosen), None if y is None else np.asarray(y)[chosen]


@dataclass(frozen=True)
class _Draws:
    """Draws of a model's frequencies or walks beside one exact law."""

    subject: Subject
    y: FloatArray | None
    exact: ReferenceLaw
    options: StochasticOptions

    @property
    def _process(self) -> GaussianProcess:
        process = self.subject.process
        assert process is not None
        return process

    def study(
        self, couplings: dict[str, Any], sizes: list[int], n_draws: int, seed: int
    ) -> CouplingStudy:
        """Measure every coupling at every size."""
        seeds = range(seed, seed + n_draws)
        rows = [
            self._row(name, coupling, size, seeds)
            for size in sizes
            for name, coupling in couplings.items()
        ]
        law, y = self.exact.law, self.y
        largest = {row.coupling: row.kl_per_point for row in rows if row.size == sizes[-1]}
        errors = {name: kl.standard_error / max(kl.mean, 1e-300) for name, kl in largest.items()}
        model = self.subject.model
        return CouplingStudy(
            model.size_parameter, tuple(rows), len(self._process.data), len(law.mean),
            None if y is None else rmse(y, law.mean),
            None if y is None else nlpd(y, law.mean, law.std),
            cannot_gain(model, self._process, couplings, errors, sizes[-1]),
        )  # fmt: skip

    def _row(self, name: str, coupling: Any, size: int, seeds: range) -> StudyRow:
        tell(f"{name}, {self.subject.model.size_parameter}={size}")
        return StudyRow.of(name, size, [self._draw(coupling, size, seed) for seed in seeds])

    def _draw(self, coupling: Any, size: int, seed: int) -> Draw:
        law = self._law(coupling, size, seed)
        divergence = kl_per_point(self.exact.law, law)
        if self.y is None:
            return Draw(seed, divergence)
        return Draw(seed, divergence, rmse(self.y, law.mean), nlpd(self.y, law.mean, law.std))

    def _law(self, coupling: Any, size: int, seed: int) -> Law:
        other = self._process.redrawn(coupling, size, seed)
        drawn = Subject(other, self.subject.points, other)
        return law_of_model(drawn, self.exact, self.options)[0]


@in_suited_threads
def posterior_report(
    model: Any,
    X_test: Any,
    y_test: ArrayLike | None = None,
    *,
    couplings: Sequence[Any] = (),
    sizes: Sequence[int] = (),
    n_draws: int = 8,
    random_state: Any = 0,
    geometry: Any = None,
    title: str | None = None,
    data: str | None = None,
    method: str = "auto",
    options: StochasticOptions | None = None,
    progress: bool | None = None,
    leave_out_overlap: bool = False,
    exposure: ArrayLike | None = None,
    metadata: Any = None,
) -> StudyReport | LikelihoodReport:
    """Report on one page how far a fitted model's posterior is from the exact one.

    Of a classifier, and of a model whose observations follow another likelihood, it is a
    `ClassReport` or a `LikelihoodReport`, without couplings and geometry.

    Parameters
    ----------
    model
        Fitted estimator of a process; for `couplings` a `SparseSpectrumGPRegressor` or a
        `GraphGPRegressor`.
    X_test, y_test
        Test inputs (p, d), or labels of p nodes, and, if there are any, targets (p,) or (p, k).
    couplings, sizes
        Also compare these with each other (`coupling_study`); sizes default to a quarter of the
        model's, its own and four times as many.
    n_draws, random_state
        Number of draws of each coupling at each size in that comparison, and their seed.
    geometry
        For graphs: a trimesh mesh whose faces or vertices are the nodes, or positions (n_nodes, 2).
        Mean, standard deviation and error are drawn on it.
    title, data
        Heading of the page, and a description of the data in words.
    method, options
        How the exact GP's law is computed, as in `compare`; once, for the comparison of couplings
        too.
    progress
        Show progress on stderr; None does so on a terminal.
    leave_out_overlap
        Leave out test rows that are training rows, as in `compare`.
    exposure
        Exposures (p,) of test counts, for a likelihood of counts.
    metadata
        Columns (p,) of the test rows that the model does not see, along which residuals are looked
        at, as in `compare`.

    Returns
    -------
    StudyReport, ClassReport or LikelihoodReport
        Report with `to_html(path)`, `to_json(path)`, `to_dict()`, and all figures of `compare`.

    Raises
    ------
    InvalidInputError
        An argument is invalid.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = cgp.ExactGPRegressor("gaussian", random_state=0).fit(X[::2], y[::2])
    >>> report = cgp.posterior_report(model, X[1::2], y[1::2])
    >>> bool(report.rmse < 0.2)
    True
    """
    start = time.perf_counter()
    check_is_fitted(model)
    if is_observed(model):
        refused = {"couplings": len(couplings) > 0, "geometry": geometry is not None,
                   "metadata": metadata is not None}  # fmt: skip
        for name in (name for name, given in refused.items() if given):
            raise InvalidInputError(
                f"{name}: expected none for a model whose observations follow a likelihood"
            )
        return likelihood_report(
            model, X_test, y_test, exposure=exposure, sites=sites_of(method), options=options,
            title=title, data=data, leave_out_overlap=leave_out_overlap, progress=progress,
        )  # fmt: skip
    if exposure is not None:
        raise InvalidInputError("exposure: expected none for a model of normal observations")
    if geometry is not None and not hasattr(model, "graph"):
        raise wrong("geometry", "it for a model of a graph", type(model))
    layout = None if geometry is None else NodeLayout.of(geometry, as_graph(model.graph))
    asked = None
    if len(couplings):
        own = getattr(model, f"{check_selectable(model).size_parameter}_")
        chosen = list(sizes) or sorted({max(own // 4, 1), own, 4 * own})
        asked = (*_check_study(model, couplings, chosen, n_draws), n_draws,
                    seed_from_random_state(random_state))  # fmt: skip
    options, given = StochasticOptions() if options is None else options, y_test
    overlap, rows = overlap_of(model, X_test, y_test)
    columns = with_row_order(metadata, len(X_test))
    if leave_out_overlap:
        overlap, X_test, y_test = without_overlap(overlap, rows, X_test, y_test)
        columns = kept_columns(columns, ~rows) if overlap.left_out else columns
    base, study = _compared(model, X_test, y_test, asked, method, options, progress, columns)
    base = base.with_overlap(overlap).with_target(given, model)
    return StudyReport(
        **{one.name: getattr(base, one.name) for one in fields(base)},
        study=study,
        node_map=None if layout is None else _node_map(layout, model, X_test, y_test),
        title=title or f"Posterior of {type(model).__name__}",
        provenance={
            "data": data or "not stated",
            "training rows": len(model.process_.data),
            "model": repr(model),
            "frequencies": _frequencies(model),
            "hyperparameters": _hyperparameters(model),
            "seed of the study": random_state,
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - start, 2),
            **versions(),
        },
    )


def _compared(
    model: Any,
    X_test: Any,
    y_test: ArrayLike | None,
    study_of: tuple[dict[str, Any], list[int], int, int] | None,
    method: str,
    options: StochasticOptions,
    progress: bool | None,
    metadata: dict[str, Any],
) -> tuple[PosteriorReport, CouplingStudy | None]:
    """Compare the model and, for a study, other couplings and sizes with one exact law."""
    asked = Comparison.of(model, X_test, y_test, None)
    model, X_test, y_test = asked.model, asked.X, asked.y
    solved = by_solves(model, None, method)
    probed = solved and by_probes(model, len(X_test), options)
    base = None
    if study_of is None or probed:
        base = compared(
            model, X_test, y_test, None, method, options, progress, None, metadata
        )  # fmt: skip
        if study_of is None:
            return asked.report(base), None
    points, targets = _subset(X_test, y_test, options) if probed else (X_test, y_test)
    with reporter("report", progress):
        subject = replace(replace(asked, X=points).subject, metadata=metadata if not probed else {})
        exact = reference_law(subject, points, None, solved, options)
        if base is None:
            base = report_beside(subject, targets, exact, options)
        y = None if targets is None else check_targets(targets, exact.law.mean.shape)
        study = _Draws(subject, y, exact, options).study(*study_of)
        return asked.report(base), study


def _frequencies(model: Any) -> dict[str, Any] | None:
    """What the frequencies of a model are; None for a model without."""
    drawn = getattr(model, "drawn_", None)
    return None if drawn is None else drawn.to_dict()


def _hyperparameters(model: Any) -> str:
    if hasattr(model, "kernel_"):
        kernel = short_numbers(repr(model.kernel_))
    else:
        kernel = "lengthscale=" + np.array2string(np.asarray(model.lengthscale_), precision=4)
    parts = (f"{n}={np.array2string(np.asarray(getattr(model, n + '_')), precision=4)}"
             for n in ("outputscale", "noise"))  # fmt: skip
    return ", ".join([kernel, *parts])


def _node_map(layout: NodeLayout, model: Any, X_test: Any, y_test: ArrayLike | None) -> NodeMap:
    """Maps of the law at every node, of the observed nodes, and of the error at test targets."""
    mean, std = model.predict(return_std=True)
    index = as_graph(model.graph).index
    errors = np.full(len(mean), np.nan)
    if y_test is not None:
        errors[index(X_test)] = np.asarray(y_test, dtype=np.float64) - mean[index(X_test)]
    return NodeMap(layout, mean, std, errors, np.unique(index(model.nodes_)))


# A graph gives way to a later one whose log evidence is larger by this number of standard errors,
# and by this number of nats, an evidence ratio of twenty: less does not tell the graphs apart.
ERRORS, LEAST_GAIN = 2.0, 3.0


@dataclass(frozen=True)
class GraphChoice(ExplainedChoice):
    """Graphs and the log evidence of the data under each.

    Attributes
    ----------
    names : tuple of str
        Names of the graphs, in the order in which they were given.
    log_evidences, errors : tuple of float
        Log evidence under each at its best hyperparameters, nats, and its standard error.
    chosen : str
        Name of the graph in use.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> nodes = np.arange(8)
    >>> ring = cgp.Graph.from_edges(nodes, (nodes + 1) % 8)
    >>> star = cgp.Graph.from_edges(np.zeros(7, dtype=int), nodes[1:])
    >>> model, y = cgp.ExactGraphGPRegressor(ring, "heat"), np.cos(np.pi * nodes / 4)
    >>> best, choice = cgp.choose_graph(model, {"star": star, "ring": ring}, nodes, y)
    >>> choice.names, choice.chosen
    (('star', 'ring'), 'ring')
    """

    names: tuple[str, ...]
    log_evidences: tuple[float, ...]
    errors: tuple[float, ...]
    chosen: str

    def explain(self) -> str:
        """The chosen graph with its log evidence, and the other graphs' differences, in words."""
        best = self.log_evidences[self.names.index(self.chosen)]
        others = [
            f"{name} {value - best:+.2f} nats from it"
            for name, value in zip(self.names, self.log_evidences, strict=True)
            if name != self.chosen
        ]
        return "; ".join([f"{self.chosen}: log evidence {best:.4g} nats", *others])

    def to_dict(self) -> dict[str, Any]:
        """Return the figures and the explanation as plain values."""
        evidences = dict(zip(self.names, self.log_evidences, strict=True))
        return {
            "chosen": self.chosen, "log_evidences": evidences, "explanation": self.explain()
        }  # fmt: skip


def choose_graph(
    model: Any, graphs: Mapping[str, Graph], nodes: Any, y: ArrayLike
) -> tuple[Any, GraphChoice]:
    """Fit a model on each of several graphs, and return the fit of largest evidence.

    The graphs have the same nodes and other weights or edges, such as those of a mesh's faces with
    unit weights and with weights by distance. They are compared by the evidence at its maximum in
    all hyperparameters, of which all graphs have the same number.

    Parameters
    ----------
    model
        A `GraphGPRegressor` or `ExactGraphGPRegressor`; its own graph is not used, and it is not
        changed.
    graphs
        The graphs by name, the usual one first: it is chosen unless the evidence of another is
        greater by three nats and by two standard errors. Standard errors are not zero where there
        are very many observations.
    nodes, y
        Labels of n nodes and observations (n,) or (n, n_outputs), as `fit` takes them.

    Returns
    -------
    (fitted estimator, GraphChoice)
        The fitted copy of the model, and the log evidence under each graph.

    Raises
    ------
    InvalidInputError
        There is no graph, or the graphs have different nodes; or `fit` refuses the data.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> ring = cgp.Graph.from_edges(np.arange(24), (np.arange(24) + 1) % 24)
    >>> star = cgp.Graph.from_edges(np.zeros(23, dtype=int), np.arange(1, 24))
    >>> seen = np.arange(0, 24, 2)
    >>> model = cgp.ExactGraphGPRegressor(ring, "heat")
    >>> y = np.cos(np.pi * seen / 12)
    >>> best, choice = cgp.choose_graph(model, {"ring": ring, "star": star}, seen, y)
    >>> bool(abs(best.predict([1])[0] - np.cos(np.pi / 12)) < 0.1)
    True
    """
    if not isinstance(graphs, Mapping) or not graphs:
        raise InvalidInputError("graphs: expected graphs by name, at least one, got none")
    first = next(iter(graphs.values()))
    for name, graph in graphs.items():
        check_graph(graph, f"graphs[{name!r}]")
        if (graph.n_nodes, graph.labels) != (first.n_nodes, first.labels):
            raise InvalidInputError(
                f"graphs: expected the same nodes in all, got {graph!r} as {name!r} beside "
                f"{first!r}"
            )
    fits = [with_parameters(model, graph=graph).fit(nodes, y) for graph in graphs.values()]
    compared = fits
    if len(fits) > 1 and any(hasattr(fit, "n_effective_draws_") for fit in fits):
        compared = [with_parameters(fit, hyperparameters="maximum").fit(nodes, y) for fit in fits]
    values = [float(fit.log_marginal_likelihood_value_) for fit in compared]
    errors = [float(fit.log_marginal_likelihood_error_) for fit in compared]
    best = 0
    for k in range(1, len(fits)):
        error = ERRORS * float(np.hypot(errors[k], errors[best]))
        if values[k] - values[best] > max(error, LEAST_GAIN):
            best = k
    names = tuple(graphs)
    return fits[best], GraphChoice(names, tuple(values), tuple(errors), names[best])
