"""Cases of selection, studies of couplings, comparisons and reports."""

from __future__ import annotations

import warnings
from typing import Any

import coupledgp as cgp
from coupledgp.diagnostics import StochasticOptions
from coupledgp.ground.parameters import folded
from frozen.cases import X_NEW, Y_NEW, Figures, X, Y, case, plain
from frozen.graph_cases import grid, split, values


def table_model(**settings: Any) -> Any:
    """Sparse-spectrum regressor of one output."""
    settings = {"n_frequencies": 16, "optimizer": None, "random_state": 0} | settings
    return cgp.SparseSpectrumGPRegressor(**folded(cgp.SparseSpectrumGPRegressor, settings)).fit(
        X, Y[:, 0]
    )


def graph_model(**settings: Any) -> tuple[Any, Any, Any]:
    """Walk model on a grid of 144 nodes, with test nodes and their values."""
    graph = grid(12)
    seen, hidden = split(graph.n_nodes, 60)
    settings = {"kernel": "heat", "optimizer": None, "exact_hops": 1} | settings
    gp = cgp.GraphGPRegressor(
        graph, **folded(cgp.GraphGPRegressor, dict(random_state=0, **settings))
    )
    y = values(graph.n_nodes)[:, 0]
    return gp.fit(seen, y[seen]), hidden, y[hidden]


def report_figures(report: Any) -> Figures:
    """All tables of a report."""
    told = report.to_dict()
    return {"tables": plain(told["tables"]), "verdicts": plain(told["verdicts"])}


def of_table(settings: dict[str, Any], **how: Any) -> Figures:
    """`report` of a table's model."""
    model = table_model(**settings)
    return report_figures(cgp.report(model, X_NEW, Y_NEW[:, 0], progress=False, **how))


def of_graph(settings: dict[str, Any], **how: Any) -> Figures:
    """`report` of a graph's model."""
    gp, hidden, y = graph_model(**settings)
    return report_figures(cgp.report(gp, hidden, y, progress=False, **how))


def selected(model: Any, points: Any, y: Any, **how: Any) -> Figures:
    """`select` with every trial."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = cgp.select(model, points, y, n_draws=2, progress=False, **how).to_dict()
    trials = told.pop("trials")
    texts = {key: value for key, value in told.items() if isinstance(value, str)}
    names = " ".join(f"{trial['coupling']}:{trial['size']}" for trial in trials)
    return {**texts, "names": names, "trials": plain(trials), "figures": plain(told)}


def table_selection() -> Figures:
    """Coupling and size for a table, searched for."""
    model = cgp.SparseSpectrumGPRegressor(random_state=0, options={"max_iter": 10, "n_restarts": 0})
    return selected(model, X, Y[:, 0], kl_target=0.05)


def given_selection() -> Figures:
    """Laplace features, couplings and sizes given."""
    model = cgp.SparseSpectrumGPRegressor(features="laplace", random_state=0, optimizer=None)
    couplings = ["iid", "orthogonal+pnc+antithetic"]
    return selected(model, X, Y[:, 0], couplings=couplings, sizes=[16, 64], kl_target=0.5)


def graph_selection() -> Figures:
    """Coupling and number of walkers for a graph."""
    gp, _, _ = graph_model(exact_hops=0)
    nodes, y = split(144, 60)[0], gp.y_train_
    return selected(gp, nodes, y, kl_target=0.1, sizes=[8, 32])


def study(of_graph_model: bool) -> Figures:
    """`coupling_study` of both kinds of models."""
    if of_graph_model:
        gp, points, y = graph_model()
        couplings, sizes = ["iid", "sigma", "stratified+systematic"], [4, 16]
    else:
        gp, points, y = table_model(), X_NEW, Y_NEW[:, 0]
        couplings, sizes = ["iid", "orthogonal", "orthogonal+pnc"], [8, 32]
    told = cgp.coupling_study(
        gp, points, y, couplings=couplings, sizes=sizes, n_draws=3, progress=False
    ).to_dict()
    return {"figures": plain(told), "verdict": told["verdict"]}


EXACT_SOLVES = StochasticOptions(dtype="float64", rank=40)
PROBES = StochasticOptions(dtype="float64", rank=40, n_columns=16, n_probes=8)
case("report dense", of_table, {})
case("report dense laplace", of_table, {"features": "laplace"})
case("report dense graph", of_graph, {})
case("report stochastic", lambda: of_table({}, exact=EXACT_SOLVES))
case("report stochastic probes", lambda: of_table({}, exact=PROBES))
case("report stochastic graph", lambda: of_graph({}, exact=EXACT_SOLVES))
case("select table", table_selection)
case("select table given", given_selection)
case("select graph", graph_selection)
case("study table", study, False)
case("study graph", study, True)
