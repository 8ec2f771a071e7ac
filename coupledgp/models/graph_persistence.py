"""Fitted models on graphs as headers and arrays, and back.

A file holds the graph, the data, the hyperparameters, the weights of the mean and, of the walks,
the hops and the seed, from which every walk is redrawn bit for bit. Factors of covariances are
computed again when they are asked for.
"""

from __future__ import annotations

from dataclasses import asdict
from numbers import Integral
from typing import Any

import numpy as np

from coupledgp.couplings import GeometricLaw, WalkerCoupling, parse_walker_coupling
from coupledgp.errors import InvalidInputError
from coupledgp.features import HopPlan
from coupledgp.gp.container import Arrays, Header
from coupledgp.gp.units import Targets
from coupledgp.graphs import Graph
from coupledgp.graphs.assembly import Csr
from coupledgp.inference.nodes.evidence import Scales
from coupledgp.inference.nodes.posterior import DensePosterior
from coupledgp.inference.nodes.priors import WalkPrior
from coupledgp.kernels import (
    GraphKernel,
    GraphMaternKernel,
    HeatKernel,
    InverseCosineKernel,
    LearnedKernel,
    RandomWalkKernel,
    RegularizedLaplacianKernel,
)
from coupledgp.models.graph_base import GraphRegressor, posterior_class
from coupledgp.models.nodes import ExactGraphGPRegressor, GraphGPRegressor

GRAPH_MODELS: dict[str, type[GraphRegressor]] = {
    "GraphGPRegressor": GraphGPRegressor,
    "ExactGraphGPRegressor": ExactGraphGPRegressor,
}
KERNEL_FIELDS: dict[type[GraphKernel], tuple[str, ...]] = {
    HeatKernel: ("time",),
    RegularizedLaplacianKernel: ("scale", "exponent"),
    GraphMaternKernel: ("lengthscale", "nu"),
    RandomWalkKernel: ("a", "steps"),
    InverseCosineKernel: (),
    LearnedKernel: ("coefficients", "strength", "centre"),
}
KERNEL_CLASSES = {kind.__name__: kind for kind in KERNEL_FIELDS}
FITTED = [
    "n_rounds_",
    "n_evaluations_",
    "converged_",
    "log_marginal_likelihood_value_",
    "log_marginal_likelihood_error_",
]


def graph_state(model: GraphRegressor) -> tuple[Header, Arrays]:
    """Header and arrays of a fitted model."""
    graph, posterior, targets = model.graph, model._posterior, model._targets
    arrays = {
        "indptr": graph.indptr,
        "indices": graph.indices,
        "edge_weights": graph.weights,
        "nodes": posterior.nodes,
        "y": targets.values,
        "y_mean": targets.mean,
        "y_scale": targets.scale,
        "weights": posterior.weights,
    }
    parameters = model.get_params(deep=False)
    del parameters["graph"]
    header = {
        "parameters": {name: plain_parameter(name, value) for name, value in parameters.items()},
        "labels": None if graph.labels is None else [plain_label(x) for x in graph.labels],
        "kernel": plain_kernel(model.kernel_),
        "scales": [float(posterior.outputscale), float(posterior.noise)],
        "solver": "dense" if isinstance(posterior, DensePosterior) else "iterative",
        "seed": model._seed,
        "y_ndim": targets.ndim,
        "fitted": {
            name: np.asarray(getattr(model, name)).item() for name in FITTED if hasattr(model, name)
        },
    }
    if isinstance(posterior.prior, WalkPrior):
        header["plan"] = asdict(posterior.prior.plan)
    return header, arrays


def restore_graph_model(header: Header, arrays: Arrays) -> Any:
    """The fitted model that `graph_state` took apart."""
    values = {name: tensor.numpy() for name, tensor in arrays.items()}
    labels = header["labels"]
    graph = Graph(
        Csr(values["indptr"], values["indices"], values["edge_weights"]),
        None if labels is None else [label_from(x) for x in labels],
    )
    parameters = {k: parameter_from(k, value) for k, value in header["parameters"].items()}
    model: Any = GRAPH_MODELS[header["class"]](graph, **parameters)
    vars(model).update(header["fitted"])
    model._seed, model.kernel_ = header["seed"], kernel_from(header["kernel"])
    model._targets = Targets(values["y"], values["y_mean"], values["y_scale"], header["y_ndim"])
    if "plan" in header:
        plan = header["plan"]
        prior = model._walks_behind(
            model.kernel_, HopPlan(**{**plan, "nodes": tuple(plan["nodes"])})
        )
    else:
        outputscale, noise = header["scales"]
        prior = model._make_prior(model.kernel_, Scales(outputscale, noise, float("nan")))
    make = posterior_class(prior, header["solver"] == "dense")
    model._posterior = make(
        prior, values["nodes"], model._targets.centred, *header["scales"], weights=values["weights"]
    )
    model._publish()
    return model


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
    if name == "random_state":
        seed = isinstance(value, Integral) and not isinstance(value, bool)
        return int(value) if seed else None
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
    return tuple(value) if name == "fixed" else value


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
