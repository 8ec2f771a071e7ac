"""Parts of processes on graphs as headers, of values that JSON can hold, and arrays.

Of walks a file holds the settings, the hops and the seed, from which every walk is drawn again
bit for bit.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from coupledgp.couplings import GeometricLaw, WalkerCoupling, parse_walker_coupling
from coupledgp.errors import InvalidInputError
from coupledgp.gp.node_priors import ExactRecipe, NodePriorRecipe, WalkRecipe
from coupledgp.gp.protocol import Arrays, Header
from coupledgp.graphs import Graph
from coupledgp.graphs.assembly import Csr
from coupledgp.kernels import (
    GraphKernel,
    GraphMaternKernel,
    HeatKernel,
    InverseCosineKernel,
    LearnedKernel,
    RandomWalkKernel,
    RegularizedLaplacianKernel,
)

KERNEL_FIELDS: dict[type[GraphKernel], tuple[str, ...]] = {
    HeatKernel: ("time",),
    RegularizedLaplacianKernel: ("scale", "exponent"),
    GraphMaternKernel: ("lengthscale", "nu"),
    RandomWalkKernel: ("a", "steps"),
    InverseCosineKernel: (),
    LearnedKernel: ("coefficients", "strength", "centre"),
}
KERNEL_CLASSES = {kind.__name__: kind for kind in KERNEL_FIELDS}


def graph_state(graph: Graph) -> tuple[list[Any] | None, Arrays]:
    """Labels and arrays of a graph."""
    labels = None if graph.labels is None else [plain_label(x) for x in graph.labels]
    arrays = {"indptr": graph.indptr, "indices": graph.indices, "edge_weights": graph.weights}
    return labels, arrays


def graph_from(labels: list[Any] | None, arrays: Arrays) -> Graph:
    """The graph of `graph_state`."""
    return Graph(
        Csr(arrays["indptr"], arrays["indices"], arrays["edge_weights"]),
        None if labels is None else [label_from(x) for x in labels],
    )


def recipe_state(recipe: NodePriorRecipe) -> Header:
    """Settings of a recipe by name; the graph and the seed are stored beside them."""
    assert isinstance(recipe, (WalkRecipe, ExactRecipe))
    names = [f.name for f in fields(recipe) if f.name not in ("graph", "seed")]
    return {name: plain_parameter(name, getattr(recipe, name)) for name in names}


def recipe_from(header: Header, graph: Graph, seed: int) -> NodePriorRecipe:
    """The recipe of `recipe_state`, or of a header with further names, as of version 0.1.0."""
    values = {name: parameter_from(name, value) for name, value in header.items()}
    if "n_walks" not in values:
        return ExactRecipe(graph, values["method"], values["tolerance"])
    names = [f.name for f in fields(WalkRecipe) if f.name not in ("graph", "seed", "coupling")]
    coupling = parse_walker_coupling(values["coupling"])
    return WalkRecipe(graph=graph, seed=seed, coupling=coupling, **{n: values[n] for n in names})


def plain_kernel(kernel: GraphKernel) -> Header:
    """A kernel as JSON holds it; shortest texts of floats restore all their bits."""
    if type(kernel) not in KERNEL_FIELDS:
        raise InvalidInputError(
            f"kernel: expected one of {', '.join(KERNEL_CLASSES)} to save, got {kernel!r}"
        )
    state = {name: getattr(kernel, name) for name in KERNEL_FIELDS[type(kernel)]}
    state = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in state.items()}
    if isinstance(kernel, GraphMaternKernel):
        state["scale"] = kernel.scale
    return {"class": type(kernel).__name__, **state}


def kernel_from(state: Header) -> GraphKernel:
    """The kernel of `plain_kernel`."""
    rest = dict(state)
    kind = KERNEL_CLASSES[rest.pop("class")]
    scale = rest.pop("scale", None) if kind is GraphMaternKernel else None
    kernel = kind(**rest)
    if scale is not None:  # kept to the bit; the lengthscale is its square root
        object.__setattr__(kernel, "scale", float(scale))
    return kernel


def plain_parameter(name: str, value: Any) -> Any:
    """A constructor parameter as JSON holds it."""
    if isinstance(value, GraphKernel):
        return plain_kernel(value)
    if isinstance(value, WalkerCoupling):
        text = str(value)
        if parse_walker_coupling(text) != value:
            raise InvalidInputError(
                f"coupling: expected one that its text form names, since a file holds text only, "
                f"got {value!r}"
            )
        return text
    if isinstance(value, GeometricLaw):
        return {"p_halt": value.p_halt}
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
        return kernel_from(value) if name == "kernel" else GeometricLaw(**value)
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
