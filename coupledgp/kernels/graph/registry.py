"""Names of graph kernels, and graph kernels as plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from coupledgp.core.codec import stored_as
from coupledgp.errors import InvalidInputError
from coupledgp.expressions import check_single
from coupledgp.kernels.graph.base import GraphKernel
from coupledgp.kernels.graph.families import (
    GraphMaternKernel,
    HeatKernel,
    InverseCosineKernel,
    LearnedKernel,
    RandomWalkKernel,
    RegularizedLaplacianKernel,
)
from coupledgp.registry import Registry

GRAPH_KERNELS: Registry[GraphKernel] = Registry(
    GraphKernel,
    "coupledgp.graph_kernels",
    {
        "heat": HeatKernel(),
        "regularized-laplacian": RegularizedLaplacianKernel(),
        "matern": GraphMaternKernel(),
        "random-walk": RandomWalkKernel(),
        "inverse-cosine": InverseCosineKernel(),
        "learned": LearnedKernel(),
    },
)
GraphKernelLike: TypeAlias = str | GraphKernel


def parse_graph_kernel(kernel: GraphKernelLike, name: str = "kernel") -> GraphKernel:
    """Return the graph kernel a text names, at default parameters, or the object itself.

    Parameters
    ----------
    kernel
        `"heat"`, `"regularized-laplacian"`, `"matern"`, `"random-walk"`, `"inverse-cosine"`,
        `"learned"`, a name that `register_graph_kernel` or an installed package added, or an
        object.
    name
        Name of the argument in error messages.

    Raises
    ------
    InvalidInputError
        The text names no graph kernel; the choices are listed.

    Examples
    --------
    >>> from coupledgp.kernels import HeatKernel, parse_graph_kernel
    >>> parse_graph_kernel("heat") == HeatKernel(time=1.0)
    True
    """
    check_single(kernel, name, "one kernel of nodes")
    return GRAPH_KERNELS.parse(kernel, name)


def graph_kernel_state(kernel: GraphKernel) -> dict[str, Any]:
    """Return the kernel as plain values, from which `graph_kernel_from` makes an equal one.

    They are the name of its class, under `"class"`, and its parameters; the shortest texts of
    floats keep all their bits.

    Raises
    ------
    InvalidInputError
        No kernel of its class is registered, so that the class could not be found again.
    """
    name = type(kernel).__name__
    if _class_named(name) is not type(kernel):
        raise InvalidInputError(
            f"kernel: expected one of {', '.join(_classes())}, whose names a file can hold, got "
            f"{kernel!r}; make the class known by register_graph_kernel"
        )
    return {"class": name} | {k: _plain(v) for k, v in kernel.parameters().items()}


def graph_kernel_from(state: Mapping[str, Any]) -> GraphKernel:
    """Return the kernel of `graph_kernel_state`.

    Raises
    ------
    InvalidInputError
        No kernel of that class is registered.
    """
    parameters = dict(state)
    name = parameters.pop("class", None)
    kind = _class_named(name)
    if kind is None:
        raise InvalidInputError(
            f"kernel: expected one of {', '.join(_classes())}, got {name!r}; import what registers "
            "it, or install its package"
        )
    known = next(k for k in GRAPH_KERNELS.values() if type(k) is kind).parameters()
    if not parameters.keys() <= known.keys():
        raise InvalidInputError(
            f"kernel: expected {', '.join(known)} of a {name}, got {', '.join(parameters)}"
        )
    return kind(**parameters)


def available_graph_kernels() -> list[str]:
    """Names of every graph kernel now registered.

    Examples
    --------
    >>> from coupledgp.kernels import available_graph_kernels
    >>> available_graph_kernels()[:3]
    ['heat', 'regularized-laplacian', 'matern']
    """
    return GRAPH_KERNELS.available()


def register_graph_kernel(
    name: str, make: GraphKernel | Callable[[], GraphKernel], *, replace: bool = False
) -> None:
    """Make a graph kernel known under `name`; see `Registry.register`.

    The object holds the parameters that a fit starts from; files hold the name of its class.

    Examples
    --------
    >>> from coupledgp.kernels import HeatKernel, parse_graph_kernel, register_graph_kernel
    >>> register_graph_kernel("wide", HeatKernel(50.0))
    >>> parse_graph_kernel("wide").time
    50.0
    """
    GRAPH_KERNELS.register(name, make, replace=replace)


def _class_named(name: str) -> type[GraphKernel] | None:
    """The class of that name of a registered kernel; packages are loaded only if need be."""
    if name not in _classes():
        GRAPH_KERNELS.available()
    return _classes().get(name)


def _classes() -> dict[str, type[GraphKernel]]:
    """Classes of the kernels now known, by name; of two of one name the first."""
    kinds = [type(kernel) for kernel in GRAPH_KERNELS.values()]
    return {kind.__name__: kind for kind in reversed(kinds)}


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


stored_as(GraphKernel, graph_kernel_state, graph_kernel_from, dict)
