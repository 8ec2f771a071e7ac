"""Sites of values over time as headers, of values that JSON can hold, and arrays."""

from __future__ import annotations

from dataclasses import asdict

from coupledgp.errors import ModelFileError
from coupledgp.gp.fields import (
    check_position,
    kernel_from,
    operator_arrays,
    restored_covariance,
)
from coupledgp.gp.node_state import graph_from, graph_state, labels_state
from coupledgp.gp.protocol import Arrays, Header
from coupledgp.gp.schema import Entries, require_type
from coupledgp.gp.state import positive_scale
from coupledgp.kernels.graph.registry import graph_kernel_from, graph_kernel_state
from coupledgp.time.field_sites import FieldSites
from coupledgp.time.graph_sites import GraphSites
from coupledgp.time.sites import Sites

# Name of the sites in a header.
SITES = "sites"


def sites_state(sites: Sites) -> tuple[Header, Arrays]:
    """Header and arrays of sites: their kernel, and the graph or operator."""
    if isinstance(sites, GraphSites):
        labels, arrays = graph_state(sites.graph)
        kernel, plain = graph_kernel_state(sites.kernel), {"tolerance": sites.tolerance}
        return {SITES: {"kind": "graph", "kernel": kernel, **plain}, "labels": labels}, arrays
    assert isinstance(sites, FieldSites)
    state = sites.operator.state()
    arrays = operator_arrays(state)
    header: Header = {SITES: {"kind": "field", "kernel": asdict(sites.kernel)}}
    return header | {"labels": labels_state(sites.operator.labels)}, arrays


def sites_from(entries: Entries) -> Sites:
    """The sites of `sites_state`.

    Raises
    ------
    ModelFileError
        An entry is none that sites have.
    """
    kind = entries.text(SITES, "kind", among=("graph", "field"))
    kernel = require_type(entries.value(SITES, "kernel"), dict, "sites.kernel")
    if kind == "graph":
        tolerance = entries.number(SITES, "tolerance", low=1e-15, high=1.0)
        return GraphSites(graph_from(entries), graph_kernel_from(kernel), tolerance)
    covariance, found = restored_covariance(entries), kernel_from(kernel)
    for part, name in (("surface", "range_"), ("position", "lengthscale")):
        if getattr(found, part) is not None:
            positive_scale(entries, SITES, "kernel", part, name)
    if found.surface is not None:
        found.surface.check(covariance.operator.dimension)
        if found.surface.alpha is None:
            raise ModelFileError("sites.kernel: expected an alpha, got none")
    if found.position is not None:
        check_position(found.position, covariance.operator, "sites.kernel")
    return FieldSites(covariance, found)
