"""The choice between graphs of the same nodes, by the evidence of values at some nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.errors import InvalidInputError
from coupledgp.graphs.graph import Graph, check_graph
from coupledgp.ground.notebook import ExplainedChoice
from coupledgp.tables.members import with_parameters

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
