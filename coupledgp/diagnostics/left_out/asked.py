"""What is left out: the observations of a fitted model, their groups, and those that are scored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coupledgp.core.process import Data, GaussianProcess
from coupledgp.core.transformed import untransformed
from coupledgp.diagnostics.rivals.observations import first_seen
from coupledgp.diagnostics.scoring.subject import own_process, some_rows
from coupledgp.errors import InvalidInputError
from coupledgp.fields.process import FieldGP, PreciseFieldGP
from coupledgp.ground.validation import wrong
from coupledgp.random import FloatArray, IntArray
from coupledgp.tables.codes import CategoryCode


@dataclass(frozen=True, eq=False)
class LeftOutTask:
    """Observations that are left out in groups.

    Attributes
    ----------
    process : GaussianProcess
        The process; the inner one of one of transformed targets.
    groups : IntArray (n,)
        Number of the group of each observation.
    names : NDArray (g,)
        Names of the groups, texts.
    rows : IntArray (m,)
        Numbers of the observations that are scored, ascending.
    kind : str
        What a group is, in the plural: `"rows"`, `"nodes"`, `"places"` or `"groups"`.
    """

    process: GaussianProcess
    groups: IntArray
    names: NDArray[Any]
    rows: IntArray
    kind: str

    @classmethod
    def of(
        cls, model: Any, groups: ArrayLike | str | None, max_rows: int, seed: int
    ) -> LeftOutTask:
        """The observations of a fitted model or process.

        Raises
        ------
        InvalidInputError
            The model is none of this package, or the groups do not fit its observations.
        CoupledGPError
            The observations were not kept.
        """
        otherwise = "coupledgp.audit scores other models on test rows"
        process = untransformed(own_process(model, otherwise))
        data = process.data
        kind = "groups"
        if isinstance(groups, str):
            groups = column_groups(model, groups, data)
        if groups is None:
            numbers, names, kind = _by_place(process, data, model)
        else:
            numbers, names = named_groups(groups, len(data))
        if len(names) < 2:
            raise InvalidInputError(f"groups: expected two {kind} at least, got one")
        return cls(process, numbers, names, some_rows(len(data), max_rows, seed), kind)

    @property
    def data(self) -> Data:
        """All observations."""
        return self.process.data

    @property
    def labels(self) -> NDArray[Any]:
        """Name (m,) of the group of each scored observation."""
        found: NDArray[Any] = self.names[self.groups[self.rows]]
        return found

    @property
    def leaves_one(self) -> bool:
        """Whether every group is a single observation."""
        return len(self.names) == len(self.groups)

    def text(self) -> str:
        """What is left out, in words."""
        n, m, g = len(self.groups), len(self.rows), len(self.names)
        if self.leaves_one:
            every = f"{self.kind}, each from all others"
        elif self.kind == "rows":
            every = "rows, each from all others but those of equal inputs"
        else:
            every = f"rows, each from those of other {self.kind} ({g} {self.kind})"
        return f"{n} {every}" if m == n else f"{m} of {n} {every}"


def named_groups(groups: ArrayLike, n_rows: int) -> tuple[IntArray, NDArray[Any]]:
    """Number (n,) of the group of each observation, and names (g,) as texts.

    Raises
    ------
    InvalidInputError
        There is not one group for each observation, or one is missing.
    """
    labels = np.asarray(groups)
    if labels.shape != (n_rows,):
        raise InvalidInputError(
            f"groups: expected the group of each of {n_rows} training rows, got shape "
            f"{labels.shape}"
        )
    missing = [label is None or label != label for label in labels.tolist()]
    if any(missing):
        row = int(np.flatnonzero(missing)[0])
        raise InvalidInputError(f"groups: expected a group for each row, row {row} has none")
    texts = labels.astype(str)
    if labels.dtype.kind in "iufb":  # in the order of the numbers
        names, numbers = np.unique(labels, return_inverse=True)
        return numbers.reshape(-1).astype(np.int64), names.astype(str)
    names, numbers = np.unique(texts, return_inverse=True)
    return numbers.reshape(-1).astype(np.int64), names


def _by_place(
    process: GaussianProcess, data: Data, model: Any
) -> tuple[IntArray, NDArray[Any], str]:
    """Observations at equal points together, numbered in the order of their first ones."""
    groups = first_seen(process.row_keys(data.points))
    firsts = np.unique(groups, return_index=True)[1]
    if np.ndim(data.points) == 1:
        nodes = np.asarray(data.points)[firsts]
        labels = getattr(getattr(model, "graph", None), "labels", None)
        names = [str(node if labels is None else labels[node]) for node in nodes.tolist()]
        return groups, np.array(names), "nodes"
    first_part = process.first
    is_field = isinstance(first_part, FieldGP | PreciseFieldGP)
    return groups, firsts.astype(str), "places" if is_field else "rows"


def column_groups(model: Any, name: str, data: Data) -> NDArray[Any]:
    """Group (n,) of each training row: the value of the input column of a name.

    Raises
    ------
    InvalidInputError
        The model has no named columns, or none of this name.
    """
    names = [str(one) for one in getattr(model, "feature_names_in_", ())]
    if name not in names:
        known = f"one of {', '.join(names)}" if names else "an array, since inputs have no names"
        raise wrong("groups", known, name)
    encoding, place = getattr(model, "encoding_", None), names.index(name)
    if encoding is None:
        return data.points[:, place]
    widths = [sum(width for _, width in code.parts) for code in encoding.codes]
    start = sum(widths[:place])
    values = data.points[:, start : start + widths[place]]
    code = encoding.codes[place]
    if isinstance(code, CategoryCode):
        return _levels(code, values)
    if values.shape[1] == 1:
        return values[:, 0]
    first, number = np.unique(values, axis=0, return_index=True, return_inverse=True)[1:]
    return np.array([f"as in row {row}" for row in first])[number.reshape(-1)]


def _levels(code: CategoryCode, values: FloatArray) -> NDArray[Any]:
    """The level (n,) of each of the points (n, w) of a category, as text."""
    texts = ["missing" if level is None else str(level) for level in code.levels]
    distances = np.square(values[:, None] - code.points[None]).sum(axis=2)
    found: NDArray[Any] = np.array([*texts, "other"])[distances.argmin(axis=1)]
    return found
