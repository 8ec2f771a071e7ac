"""Groups of components of a graph that share hyperparameters.

A kernel of a graph makes components independent, and its variance in a component falls with the
number of nodes: at a node alone it is `g(0)`, in a large component the mean of g over all
eigenvalues. One output scale for both would fit neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from coupledgp.graphs import Graph
from coupledgp.ground.warned import warn
from coupledgp.random import IntArray

BoolArray: TypeAlias = NDArray[np.bool_]

# Observed nodes from which on a group has hyperparameters, or a mean and a scale, of its own, and
# most components with hyperparameters of their own.
LEAST_OWN, MOST_OWN = 8, 16


@dataclass(frozen=True)
class ComponentGroups:
    """Groups of the nodes of a graph in several components, the one with most observed nodes first.

    Attributes
    ----------
    group_of : IntArray (n_nodes,)
        Number of each node's group. Components with few observed nodes or none that make no group
        of their own are in the first.
    fitted : list of IntArray
        Nodes of the first groups, by whose observations their hyperparameters are found: observed
        components that are not too unlike in size. Further groups take those of the first.
    others : list of IntArray
        Nodes of components, by size, whose prior variance is made that of the first group.
    """

    group_of: IntArray
    fitted: list[IntArray]
    others: list[IntArray]

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.group_of.max()) + 1


def component_groups(graph: Graph, nodes: IntArray) -> ComponentGroups | None:
    """Groups of the components of a graph for observations at nodes (n,).

    A component with `LEAST_OWN` observed nodes is a group of its own, for at most `MOST_OWN`
    components, those with most observed nodes. All other components are grouped by size: single
    nodes, up to 4 nodes, up to 16, and so on. Such a group is fitted if it has `LEAST_OWN` observed
    nodes in components with two observed nodes or more, as one node alone does not inform a kernel.
    None: one group has all observations.
    """
    count, member = graph.components()
    seen = np.unique(nodes)
    n_seen = np.bincount(member[seen], minlength=count)
    if count == 1 or np.count_nonzero(n_seen) == 1:
        return None
    size = np.bincount(member)
    largest = np.argsort(-n_seen, kind="stable")[:MOST_OWN]
    own = largest[(n_seen[largest] >= LEAST_OWN) & (size[largest] > 1)]
    label = np.array([((int(n) - 1).bit_length() + 1) // 2 for n in size])
    label[own] = label.max() + 1 + np.arange(own.size)
    observed = np.bincount(label, n_seen)
    usable = np.bincount(label, np.where(n_seen > 1, n_seen, 0))
    fitted = np.flatnonzero(usable >= LEAST_OWN)
    if not fitted.size:
        fitted = np.array([np.argmax(np.where(np.arange(observed.size) > 0, observed, 0))])
    fitted = fitted[np.argsort(-observed[fitted], kind="stable")]
    if observed[fitted[0]] in (0, seen.size):
        return None
    rest = np.setdiff1d(np.flatnonzero(np.bincount(label)), fitted)
    large = rest[observed[rest] >= LEAST_OWN]
    number = np.zeros(observed.size, dtype=np.int64)
    number[np.concatenate([fitted, large])] = np.arange(fitted.size + large.size)
    of_node = label[member]
    there = n_seen[member] > 0
    return ComponentGroups(
        number[of_node],
        [np.flatnonzero((of_node == k) & there) for k in fitted],
        [np.flatnonzero(of_node == k) for k in rest],
    )


def informative_rows(member: IntArray, places: IntArray) -> BoolArray:
    """Mask (n,) of observations in components with `LEAST_OWN` places; all if there are none.

    Parameters
    ----------
    member, places
        Numbers (n,) of the component, and of the place, of each observation. Components with fewer
        than `LEAST_OWN` observed places determine a kernel badly, and mislead the fit where their
        values differ from those of other components.
    """
    _, first = np.unique(places, return_index=True)
    usable = np.asarray((np.bincount(member[first]) >= LEAST_OWN)[member])
    return usable if usable.any() else np.ones(member.size, dtype=bool)


def warn_of_small(usable: BoolArray, member: IntArray, name: str) -> None:
    """Warn of components whose observations (n,) do not enter the hyperparameters."""
    if not usable.all():
        warn(
            f"{name}: {np.unique(member[~usable]).size} components have fewer than {LEAST_OWN} "
            f"observed places each, {np.count_nonzero(~usable)} of {usable.size} in all; kernel, "
            "mean and scale there are those of the others, with which they share nothing"
        )
