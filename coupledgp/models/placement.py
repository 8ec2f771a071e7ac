"""`next_sensors` of estimators: where further sensors are most informative."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from coupledgp.errors import InvalidInputError
from coupledgp.gp.placement import Places, next_places
from coupledgp.gp.protocol import GaussianProcess, Points
from coupledgp.ground.memory import named_exhaustion
from coupledgp.ground.progress import reporter
from coupledgp.inference.nodes.forecast import Budget
from coupledgp.inference.placement.objectives import Criterion
from coupledgp.inference.placement.result import Placement, check_request
from coupledgp.models.estimator import ProcessRegressor
from coupledgp.random import IntArray, draw_seed


class SensorPlacement(ProcessRegressor):
    """Part of an estimator of nodes or places that finds places for further sensors."""

    @abstractmethod
    def _every_place(self) -> tuple[Points, Any]:
        """Points of all nodes or given vertices, and their numbers (m,)."""

    @abstractmethod
    def _names_of(self, points: Points, numbers: IntArray, named: bool) -> Any:
        """Points as a placement names them: rows `numbers` of candidates, or of all places."""

    def next_sensors(
        self,
        k: int,
        criterion: Criterion = "mutual-information",
        candidates: Any = None,
        interest: Any = None,
        *,
        budget: float | str | None = None,
        random_state: Any = 0,
    ) -> Placement:
        """Nodes or places where the next sensors are most informative, by a greedy search.

        With the covariance C of f given the observations, the noise variance s, chosen nodes A:

        * `"mutual-information"`: `I(y_A; y_(V - A))`, with V the candidates and the nodes of
          interest. Sensors lie among the nodes that they inform. Submodular; a greedy choice has at
          least `1 - 1/e` of the best one as long as A is below half of V, but for a small error.
          Krause, Singh and Guestrin (2008).
        * `"variance"`: `1/2 log |I + C_AA / s|`, by the node of greatest variance in each step.
          Submodular, at least `1 - 1/e` of the best. It prefers nodes at the edge of the graph.
        * `"total-variance"`: `sum_u Var(f_u) - Var(f_u | y_A)` over the nodes of interest u. Not
          submodular in general: no bound, and the only one that is about these nodes alone.

        The covariance of up to some thousands of nodes is formed; of more vertices of a surface a
        sample is taken, unless candidates are named. On larger graphs `"variance"` computes a
        column of the covariance for each sensor, `"total-variance"` ranks nodes by random products,
        and `"mutual-information"` takes a sample of the nodes unless candidates are named.

        Parameters
        ----------
        k
            Number of sensors.
        criterion
            `"mutual-information"`, `"variance"` or `"total-variance"`.
        candidates
            Nodes or places where sensors may go, as in `fit`; None: all nodes, or all given
            vertices, without an observation. A node may be measured again.
        interest
            Nodes or places whose values matter; None: all nodes, or given vertices, for
            `"total-variance"`, else the candidates.
        budget
            Seconds that the search may take, as the budget of a fit; None: 300. A search with a
            longer forecast is refused before it begins.
        random_state
            Seed of samples of nodes and of random products.

        Returns
        -------
        Placement
            The nodes in order, the gain of each, and the mean variance that is left. Of a field
            `nodes` are labels or numbers of given vertices, or numbers of rows of `candidates`
            where these were named.

        Raises
        ------
        InvalidInputError
            An argument is invalid, or the search takes more seconds by forecast than it may.
        MemoryLimitError
            The covariance does not fit in memory.
        """
        check_is_fitted(self)
        process = self.process_
        every, own = self._every_place()
        named = candidates is not None or interest is not None
        if candidates is None:
            free = without_observed(process, every)
            open_, numbers = every[free], own[free]
        else:
            open_ = asked_points(self.points, candidates, "candidates")
            numbers = np.arange(len(open_))
        wanted = every if criterion == "total-variance" else None
        wanted = wanted if interest is None else asked_points(self.points, interest, "interest")
        found = place_sensors(
            process, k, criterion, open_, wanted, named, budget, random_state, self.progress
        )
        names = self._names_of(open_[found.nodes], numbers[found.nodes], candidates is not None)
        return found.with_nodes(names)


def place_sensors(
    process: GaussianProcess,
    k: Any,
    criterion: Any,
    candidates: Points,
    interest: Points | None,
    are_named: bool,
    budget: Any,
    random_state: Any,
    progress: bool | None,
) -> Placement:
    """Choose k of the candidates; `nodes` of the result are their numbers among the candidates.

    Parameters
    ----------
    process
        The fitted process.
    k, criterion, budget, random_state, progress
        Arguments of `next_sensors`, unchecked.
    candidates, interest
        Points (m, ...) and (u, ...) of the process; without the latter the candidates.
    are_named
        Whether somebody asked for these points.
    """
    if not process.noise.is_gaussian:
        raise InvalidInputError(
            f"likelihood: expected 'gaussian' for next_sensors, whose gains are those of normal "
            f"laws, got a {type(process.noise).__name__} law"
        )
    joined = candidates if interest is None else np.concatenate([candidates, interest])
    first, numbers = _distinct(process.row_keys(joined))
    own = np.unique(numbers[: len(candidates)])
    wanted = own if interest is None else np.unique(numbers[len(candidates) :])
    count, kind = check_request(k, criterion, own.size)
    seed, limit = draw_seed(random_state), Budget.of(budget)
    with reporter("next_sensors", progress) as report, named_exhaustion("next_sensors"):
        places = Places(joined[first], own, wanted, are_named)
        found = next_places(process, places, count, kind, limit, seed, report)
    return found.with_nodes(first[found.nodes])


def asked_points(points: Callable[[Any], Points], places: Any, name: str) -> Points:
    """Points of places that an argument names; errors say which argument.

    Raises
    ------
    InvalidInputError
        The places are none of the model.
    """
    try:
        return points(places)
    except InvalidInputError as error:
        raise InvalidInputError(f"{name}: {error}") from None


def _distinct(keys: Points) -> tuple[IntArray, IntArray]:
    """First row of each distinct key, in order of rows, and the number of each row's key."""
    rows = keys[:, 0] if keys.shape[1] == 1 else keys
    _, first, numbers = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return first[order], place[numbers.reshape(-1)]


def without_observed(process: GaussianProcess, points: Points) -> IntArray:
    """Numbers of the points (p, ...) at which the process has no observation.

    Raises
    ------
    InvalidInputError
        The process has an observation at every point.
    """
    observed = process.row_keys(process.data.points)
    _, numbers = _distinct(np.concatenate([observed, process.row_keys(points)]))
    seen = np.zeros(int(numbers.max()) + 1, dtype=bool)
    seen[numbers[: len(observed)]] = True
    free = np.flatnonzero(~seen[numbers[len(observed) :]])
    if not free.size:
        raise InvalidInputError(
            "candidates: expected some places without an observation, but there is one everywhere; "
            "name the candidates where a further one may be made"
        )
    return free
