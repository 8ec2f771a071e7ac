"""`coupledgp graph`: values at the nodes of a graph, or along roads, from some of them."""

from __future__ import annotations

from typing import Annotated, Any

import coupledgp as cgp
from coupledgp.cli import options as o
from coupledgp.cli.domains import Domain, Source, is_mesh
from coupledgp.cli.field import Request
from coupledgp.cli.options import OUTPUT, Text, opt
from coupledgp.cli.shared import notice
from coupledgp.errors import InvalidInputError


def graph(
    path: o.GraphFile,
    *,
    values: o.Values,
    target: o.Target = None,
    places: o.Places = None,
    nodes: o.Elements = None,
    node_column: o.NodeColumn = None,
    length: o.Length = None,
    weight: o.Weight = None,
    positions: o.Positions = None,
    layer: o.Layer = None,
    crs: o.Crs = None,
    holdout: o.Holdout = None,
    covariates: o.Covariates = None,
    seed: o.Seed = 0,
    model: o.Kind = "auto",
    kernel: o.Kernel = None,
    likelihood: o.Likelihood = None,
    max_edge: o.MaxEdge = "auto",
    further: o.Further = None,
    output: o.Output = None,
    at: Annotated[Text, opt("nodes or edges. [default: edges in maps]", panel=OUTPUT)] = None,
    query: o.Query = None,
    left_out: o.LeftOut = None,
    next_places: o.Next = 0,
    save_model: o.SaveModel = None,
    report: o.Page = None,
    level: o.Level = None,
    latent: o.Latent = False,
    as_json: o.AsJson = False,
    show: o.Show = None,
) -> None:
    """Predict values on roads or a graph from those at some nodes or places.

    With lengths it is a field along the edges, and values may lie anywhere on them; else, or with
    --model graph, a kernel on the nodes, as on the faces of a mesh. Values of text are classes.

    Example: coupledgp graph city.graphml --values speeds.csv --holdout 0.1 -o law.gpkg
    """
    from coupledgp.kernels.fields import NAMES  # slow

    options = dict(locals(), format="csv")
    of_nodes = is_mesh(path) or likelihood not in (None, "gaussian")
    of_nodes = of_nodes or (kernel is not None and kernel not in NAMES)
    kind = "graph" if model == "auto" and of_nodes else model
    source = Source(kind, length, weight, positions, layer, crs, max_edge, nodes, node_column)
    GraphRequest(**options, source=source).run()


class GraphRequest(Request):
    """A field along the edges, or a kernel on the nodes, by what the file has."""

    @property
    def takes_classes(self) -> bool:  # type: ignore[override]
        """Classes are texts where no likelihood is named."""
        return self.likelihood is None

    def kind(self, y: Any) -> Any:
        """The class of the estimator, where the file does not decide it."""
        if y is not None and y.dtype == object:
            return cgp.GraphGPClassifier
        return cgp.FieldGPRegressor if self.source.model == "field" else cgp.GraphGPRegressor

    def unfitted(self, domain: Domain | None, y: Any) -> Any:
        """The unfitted estimator."""
        kind = self.kind(y)
        if domain is None:
            return None if self.source.model == "auto" else self.made(kind, **self._law(kind))
        if domain.operator is not None:
            if kind is cgp.GraphGPClassifier:
                raise InvalidInputError(
                    "--model: expected graph for classes, whose nodes have them"
                )
            return self.made(cgp.FieldGPRegressor, operator=domain.operator)
        if alone := int((domain.graph.degrees == 0).sum()):
            notice(f"{self.path}: {alone} nodes have no edge, and learn nothing from others")
        return self.made(kind, **self._law(kind) | {"graph": domain.graph})

    def _law(self, kind: Any) -> dict[str, Any]:
        own: dict[str, Any] = {"operator" if kind is cgp.FieldGPRegressor else "graph": None}
        if kind is cgp.GraphGPRegressor and self.likelihood is not None:
            own["likelihood"] = self.likelihood
        return own
