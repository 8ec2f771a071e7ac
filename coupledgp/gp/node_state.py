"""Parts of processes on graphs as headers, of values that JSON can hold, and arrays.

Walks are not stored: a file holds their settings, the hops and the seed, from which every walk is
drawn again bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from coupledgp.couplings import GeometricLaw, parse_walker_coupling
from coupledgp.couplings.walkers.lengths import LENGTH_LIMIT
from coupledgp.couplings.walkers.registry import (
    check_length_law,
    length_law_text,
    walker_coupling_text,
)
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.features import HopPlan
from coupledgp.features.walks.settings import WALKS_LIMIT
from coupledgp.gp.node_priors import ExactRecipe, NodePriorRecipe, WalkRecipe
from coupledgp.gp.protocol import Arrays, Header
from coupledgp.gp.schema import Entries, check_number, named_text, require_type
from coupledgp.graphs import Graph
from coupledgp.graphs.assembly import Csr, Labels, check_symmetric_csr
from coupledgp.kernels import GraphKernel
from coupledgp.kernels.graph.registry import graph_kernel_from, graph_kernel_state

# Names of arrays and of values of a header that all members of a mixture on a graph share, and name
# under which they are given the graph that these make.
NODE_ARRAYS = ("indptr", "indices", "edge_weights", "node_scale", "time_unit", "nodes")
NODE_VALUES = ("labels", "recipe", "settings", "seed", "normalize")
GRAPH = "graph of nodes"
# Parts of a recipe that a file has elsewhere, or not at all, as it loads without such a device.
UNSTORED = ("graph", "seed", "device")
METHODS = ("auto", "spectral", "series", "cholesky")
# Most hops of a file: the product of more is below the least float.
MOST_HOPS = 2048
# Functions that return the text of a parameter that is an object, by the parameter's name.
TEXTS: dict[str, Callable[[Any], str | None]] = {
    "coupling": walker_coupling_text,
    "length_law": length_law_text,
}


def graph_state(graph: Graph) -> tuple[list[Any] | None, Arrays]:
    """Labels and arrays of a graph."""
    labels = labels_state(graph.labels)
    arrays = {"indptr": graph.indptr, "indices": graph.indices, "edge_weights": graph.weights}
    if graph.node_scale is not None:
        arrays["node_scale"] = graph.node_scale
    if graph.time_unit != 1.0:
        arrays["time_unit"] = np.array([graph.time_unit])
    return labels, arrays


def graph_from(entries: Entries) -> Graph:
    """The graph of `graph_state`; one that members of a mixture share is returned as it is."""
    known = entries.arrays.get(GRAPH)
    if isinstance(known, Graph):
        return known
    n = entries.integers("indptr", "nodes and one", low=0, high=2**62).size - 1
    if n < 1:
        raise ModelFileError("indptr: expected at least one node, got none")
    csr = Csr(
        entries.integers("indptr", n + 1, low=0, high=2**62),
        entries.integers("indices", "entries", low=0, high=n - 1),
        entries.scales("edge_weights", "entries"),
    )
    check_symmetric_csr(*csr, "indices")
    scale = time_unit = None
    if "node_scale" in entries.arrays:
        scale = entries.scales("node_scale", n)
    if "time_unit" in entries.arrays:
        time_unit = float(entries.scales("time_unit", 1)[0])
    return Graph(
        csr, labels_from(entries.value("labels")), node_scale=scale, time_unit=time_unit or 1.0
    )


def labels_state(labels: Labels | None) -> list[Any] | None:
    """Labels of nodes as values of JSON."""
    return None if labels is None else [plain_label(x) for x in labels]


def labels_from(state: list[Any] | None) -> Labels | None:
    """The labels of `labels_state`."""
    if state is None:
        return None
    return tuple(label_from(x) for x in require_type(state, list, "labels"))


def recipe_state(recipe: NodePriorRecipe) -> Header:
    """Settings of a recipe by name; the graph and the seed are stored beside them."""
    assert isinstance(recipe, (WalkRecipe, ExactRecipe))
    names = [f.name for f in fields(recipe) if f.name not in UNSTORED]
    return {name: plain_parameter(name, getattr(recipe, name)) for name in names}


def recipe_from(entries: Entries, graph: Graph, seed: int) -> NodePriorRecipe:
    """The recipe of `recipe_state`."""
    stored = require_type(entries.value("recipe"), dict, "recipe")
    values = {name: parameter_from(name, value) for name, value in stored.items()}
    if "n_walks" not in values:
        tolerance = entries.number("recipe", "tolerance", low=1e-15, high=1.0)
        return ExactRecipe(graph, entries.text("recipe", "method", among=METHODS), tolerance)  # type: ignore[arg-type]
    _check_walks(entries)
    check_length_law(values["length_law"])
    names = [f.name for f in fields(WalkRecipe) if f.name not in (*UNSTORED, "coupling")]
    coupling = parse_walker_coupling(values["coupling"])
    if values.get("method") not in ("auto", "walks"):
        raise ModelFileError(
            f"recipe.method: expected 'auto' or 'walks', got {values.get('method')!r}"
        )
    given = {name: values[name] for name in names}
    return WalkRecipe(graph=graph, seed=seed, coupling=coupling, **given)


def _check_walks(entries: Entries) -> None:
    """Refuse settings of walks that no fit takes."""
    name = "recipe"
    entries.integer(name, "n_walks", low=1, high=WALKS_LIMIT)
    entries.number(name, "p_halt", above=0.0, high=1.0)
    entries.text(name, "hop_nodes", among=("chebyshev", "ritz", "power"))
    for key in ("max_length", "max_hops", "exact_hops"):
        if entries.value(name, key) not in (None, "auto"):
            entries.integer(name, key, low=0, high=LENGTH_LIMIT)


def plan_from(entries: Entries) -> HopPlan:
    """The plan of the hops of a file."""
    plan = require_type(entries.value("plan"), dict, "plan")
    nodes = require_type(entries.value("plan", "nodes"), list, "plan.nodes")
    if len(nodes) > MOST_HOPS:
        raise ModelFileError(f"plan.nodes: expected at most {MOST_HOPS}, got {len(nodes)}")
    for node in nodes:
        check_number(node, "plan.nodes", low=-1.0, high=1.0)
    entries.text("plan", "reason")
    entries.number("plan", "predicted_error")
    entries.integer("plan", "cost", low=0, high=2**62)
    return HopPlan(**{**plan, "nodes": tuple(float(node) for node in nodes)})


def plain_parameter(name: str, value: Any) -> Any:
    """A constructor parameter as JSON holds it."""
    if isinstance(value, GraphKernel):
        return graph_kernel_state(value)
    if isinstance(value, GeometricLaw):
        return {"p_halt": value.p_halt}
    if name in TEXTS and not isinstance(value, str):
        return named_text(TEXTS[name](value), name, value)
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (str, int, float, bool, list)):
        return value
    raise InvalidInputError(f"{name}: expected a value that a file can hold, got {value!r}")


def parameter_from(name: str, value: Any) -> Any:
    """The parameter of `plain_parameter`."""
    if name == "options" and value is not None:
        return {key: parameter_from(key, own) for key, own in value.items()}
    if isinstance(value, dict) and name != "hyperparameter_prior":
        return graph_kernel_from(value) if name == "kernel" else GeometricLaw(**value)
    return tuple(value) if name == "fixed" and value is not None else value


def plain_label(label: Any) -> Any:
    """A node's label as JSON holds it; tuples are marked."""
    if isinstance(label, tuple):
        return {"tuple": [plain_label(part) for part in label]}
    if isinstance(label, np.generic):
        label = label.item()
    if label is None or isinstance(label, (str, int, float, bool)):
        return label
    raise InvalidInputError(
        f"labels: expected text, numbers or tuples of them to save, got {label!r}"
    )


def label_from(label: Any) -> Any:
    """The label of `plain_label`."""
    if not isinstance(label, dict):
        return label
    return tuple(map(label_from, require_type(label.get("tuple"), list, "labels")))
