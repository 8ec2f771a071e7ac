"""`next_sensors` of estimators: where further sensors tell most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.gp.placement import Places, next_places
from coupledgp.gp.protocol import GaussianProcess, Points
from coupledgp.ground.memory import named_exhaustion
from coupledgp.ground.progress import reporter
from coupledgp.inference.nodes.forecast import Budget
from coupledgp.inference.placement.result import Placement, check_request
from coupledgp.random import IntArray, draw_seed


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
    """Choose k of the candidates; `nodes` of the result are their numbers among these.

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
        It has one at each of them.
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
