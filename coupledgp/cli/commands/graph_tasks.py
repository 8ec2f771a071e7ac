"""Scores at hidden nodes and the comparison with the exact GP, for `coupledgp interpolate`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from coupledgp.cli.readers.networks import Network
from coupledgp.cli.readers.notices import announce
from coupledgp.cli.shared.domain import heading
from coupledgp.cli.shared.evaluate import ExactComparison, Stopwatch
from coupledgp.diagnostics import compare
from coupledgp.gp.node_costs import probes_forecast
from coupledgp.inference.nodes.posterior import IterativePosterior
from coupledgp.models import GraphGPRegressor
from coupledgp.random import FloatArray, IntArray

# Seconds, by forecast, above which a log evidence that the fit did not need is left out.
EVIDENCE_SECONDS = 20.0


@dataclass(frozen=True)
class Task:
    """Observations for the fit, and observations that are hidden from it.

    Attributes
    ----------
    nodes : IntArray (n,)
        Numbers of the observed nodes.
    y : FloatArray (n,)
        Values at these nodes.
    hidden : IntArray (h,)
        Numbers of the hidden nodes.
    hidden_y : FloatArray (h,)
        Values at the hidden nodes.
    """

    nodes: IntArray
    y: FloatArray
    hidden: IntArray
    hidden_y: FloatArray


def split_nodes(nodes: IntArray, y: FloatArray, share: float, seed: int) -> Task:
    """Hide a random share of the distinct nodes of (n,), values (n,); at least one stays."""
    distinct = np.unique(nodes)
    n_hidden = min(round(share * distinct.size), distinct.size - 1)
    chosen = np.random.default_rng(seed).permutation(distinct)[:n_hidden]
    away = np.isin(nodes, chosen)
    return Task(nodes[~away], y[~away], nodes[away], y[away])


def beside_exact(
    model: GraphGPRegressor, network: Network, task: Task, exact_nodes: int, seed: int
) -> ExactComparison:
    """Compare with the exact twin at hidden nodes, or without any at unobserved or observed ones.

    If there are more than `exact_nodes` of them, a random subset is compared.
    """
    unobserved = np.setdiff1d(np.arange(network.graph.n_nodes), task.nodes)
    known = task.hidden.size > 0
    points = task.hidden if known else unobserved if unobserved.size else np.unique(task.nodes)
    chosen = np.arange(points.size)
    if points.size > exact_nodes:
        rng = np.random.default_rng([seed, 1])
        chosen = np.sort(rng.choice(points.size, exact_nodes, replace=False))
    labels = network.graph.label_all(points[chosen])
    report = compare(model, labels, task.hidden_y[chosen] if known else None)
    return ExactComparison(report, int(task.nodes.size), int(chosen.size), not unobserved.size)


def of_walks(model: GraphGPRegressor) -> dict[str, Any]:
    """Hops and truncation of walks; None where the kernel is exact and nothing was walked."""
    if model.method_ != "walks":
        return {"exact_hops": None, "truncation": None}
    plan, cut = model.plan_, model.truncation_
    return {
        "exact_hops": {
            "n_hops": plan.n_hops,
            "reason": plan.reason,
            "predicted_error": plan.predicted_error,
        },
        "truncation": {"relative": cut.relative, "kernel_bound": cut.kernel_bound},
    }


def evidence_of(model: GraphGPRegressor) -> dict[str, float | None]:
    """Log evidence and its standard error; None where computing them takes too long."""
    names, process = ("log_evidence", "log_evidence_error"), model.first_process_
    posterior = process.posterior
    if process.known_evidence is None and isinstance(posterior, IterativePosterior):
        ratio = posterior.noise / posterior.outputscale
        kernel = posterior.prior.kernel
        forecast = probes_forecast(process.graph, kernel, ratio, process.settings)
        if forecast.seconds > EVIDENCE_SECONDS:
            return dict.fromkeys(names)
    values = model.log_marginal_likelihood_value_, model.log_marginal_likelihood_error_
    return dict(zip(names, values, strict=True))


def announce_law(model: GraphGPRegressor) -> None:
    """Say the expected time of the law of all nodes, if it is long."""
    count = model.first_process_.graph.n_nodes
    announce(
        f"means and standard deviations of all {count} nodes by {model.method_}",
        model.steps_[-1].forecast if model.steps_ else 0.0,
    )


def describe(
    model: GraphGPRegressor,
    network: Network,
    task: Task,
    scored: dict[str, Any] | None,
    comparison: ExactComparison | None,
    clock: Stopwatch,
) -> dict[str, Any]:
    """Return data, settings and results of the run as plain values, the content of `--json`."""
    graph = network.graph
    n_components, member = graph.components()
    return {
        **heading(),
        "data": {"n_observed": int(task.nodes.size), "n_hidden": int(task.hidden.size)},
        "graph": {
            "kind": network.kind,
            "n_nodes": graph.n_nodes,
            "n_edges": graph.n_edges,
            "n_components": n_components,
            "n_isolated": int((graph.degrees == 0).sum()),
            "n_nodes_beyond_data": int((~np.isin(member, member[task.nodes])).sum()),
        },
        "fitted": {
            "kernel": repr(model.kernel_),
            "outputscale": model.outputscale_,
            "noise": model.noise_,
            **evidence_of(model),
            "n_rounds": int(model.n_rounds_),
            "n_evaluations": int(model.n_evaluations_),
            "converged": bool(model.converged_),
            "steps": [asdict(step) for step in model.steps_],
        },
        "method": {"name": model.method_, "reason": model.method_reason_},
        **of_walks(model),
        "scores": scored,
        "comparison": None if comparison is None else comparison.to_dict(),
        "seconds": clock.seconds,
    }
