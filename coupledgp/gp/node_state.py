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
from coupledgp.couplings.walkers.registry import length_law_text, walker_coupling_text
from coupledgp.errors import InvalidInputError
from coupledgp.gp.node_priors import ExactRecipe, NodePriorRecipe, WalkRecipe
from coupledgp.gp.protocol import Arrays, Header
from coupledgp.graphs import Graph
from coupledgp.graphs.assembly import Csr, Labels
from coupledgp.kernels import GraphKernel
from coupledgp.kernels.graph.registry import graph_kernel_from, graph_kernel_state

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


def graph_from(labels: list[Any] | None, arrays: Arrays) -> Graph:
    """The graph of `graph_state`."""
    csr = Csr(arrays["indptr"], arrays["indices"], arrays["edge_weights"])
    return Graph(
        csr,
        labels_from(labels),
        node_scale=arrays.get("node_scale"),
        time_unit=float(arrays["time_unit"][0]) if "time_unit" in arrays else 1.0,
    )


def labels_state(labels: Labels | None) -> list[Any] | None:
    """Labels of nodes as JSON holds them."""
    return None if labels is None else [plain_label(x) for x in labels]


def labels_from(state: list[Any] | None) -> Labels | None:
    """The labels of `labels_state`."""
    return None if state is None else tuple(label_from(x) for x in state)


def recipe_state(recipe: NodePriorRecipe) -> Header:
    """Settings of a recipe by name; the graph and the seed are stored beside them."""
    assert isinstance(recipe, (WalkRecipe, ExactRecipe))
    names = [f.name for f in fields(recipe) if f.name not in ("graph", "seed")]
    return {name: plain_parameter(name, getattr(recipe, name)) for name in names}


def recipe_from(header: Header, graph: Graph, seed: int) -> NodePriorRecipe:
    """The recipe of `recipe_state`; further names in a header, as of version 0.1.0, are ignored."""
    values = {name: parameter_from(name, value) for name, value in header.items()}
    if "n_walks" not in values:
        return ExactRecipe(graph, values["method"], values["tolerance"])
    names = [f.name for f in fields(WalkRecipe) if f.name not in ("graph", "seed", "coupling")]
    coupling = parse_walker_coupling(values["coupling"])
    values.setdefault("method", "walks")  # files of earlier versions
    return WalkRecipe(graph=graph, seed=seed, coupling=coupling, **{n: values[n] for n in names})


def plain_parameter(name: str, value: Any) -> Any:
    """A constructor parameter as JSON holds it."""
    if isinstance(value, GraphKernel):
        return graph_kernel_state(value)
    if isinstance(value, GeometricLaw):
        return {"p_halt": value.p_halt}
    if name in TEXTS and not isinstance(value, str):
        text = TEXTS[name](value)
        if text is None:
            raise InvalidInputError(
                f"{name}: expected an object with a text form that names it, since a file holds "
                f"text only, got {value!r}; register it under a name"
            )
        return text
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (str, int, float, bool, list)):
        return value
    raise InvalidInputError(f"{name}: expected a value that a file can hold, got {value!r}")


def parameter_from(name: str, value: Any) -> Any:
    """The parameter of `plain_parameter`."""
    if isinstance(value, dict):
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
    return tuple(map(label_from, label["tuple"])) if isinstance(label, dict) else label
