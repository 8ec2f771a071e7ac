"""Kernels of position and columns on a grid, of which few are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from coupledgp.kernels.fields import PositionKernel

# Free lengths of columns, relative to the lengthscale of position.
COLUMN_SHARES = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
# Most rounds of the search over one parameter after the other, and the steps on either side of the
# best lengthscale that are tried.
ROUNDS, NEAR = 3, 2


class GridPlace(NamedTuple):
    """A kernel's place on the grid: its name, and numbers of its lengthscale and of its shares."""

    name: str
    scale: int
    shares: tuple[int, ...]


@dataclass(frozen=True)
class ColumnGrid:
    """Kernels of position and columns, by names, lengthscales and lengths of columns.

    Parameters
    ----------
    names, scales
        Names of kernels, and lengthscales of position, ascending.
    n_columns
        Number of columns, each of a length that is one of `COLUMN_SHARES` of the lengthscale.
    """

    names: Sequence[str]
    scales: Sequence[float]
    n_columns: int

    @property
    def size(self) -> int:
        """Number of kernels of the whole grid."""
        return int(len(self.names) * len(self.scales) * len(COLUMN_SHARES) ** self.n_columns)

    def kernel(self, place: GridPlace) -> PositionKernel:
        """The kernel at a place of the grid."""
        length = self.scales[place.scale]
        columns = tuple(COLUMN_SHARES[share] * length for share in place.shares)
        return PositionKernel(place.name, length, columns)

    def few(self) -> list[PositionKernel]:
        """Each column alone and all together, each as long as the lengthscale of position."""
        one, n = COLUMN_SHARES.index(1.0), self.n_columns
        rows = [tuple(one * (j == k) for j in range(n)) for k in range(n)]
        rows += [(one,) * n] * (n > 1)
        scales = range(0, len(self.scales), 2)
        return [
            self.kernel(GridPlace(m, k, row)) for m in self.names for k in scales for row in rows
        ]

    def around(self, value: Callable[[PositionKernel], float]) -> list[PositionKernel]:
        """All kernels that a coordinate ascent tries, and those about the one that it finds.

        Columns without effect are left out: that is another family.
        """
        tried: dict[GridPlace, float] = {}

        def score(place: GridPlace) -> float:
            if place not in tried:
                tried[place] = value(self.kernel(place))
            return tried[place]

        best = max(self._starts(), key=score)
        for _ in range(ROUNDS):
            before = best
            for number in range(self.n_columns):
                best = max(self._of_column(best, number), key=score)
            best = max(self._of_scale(best, range(len(self.scales))), key=score)
            best = max((best._replace(name=name) for name in self.names), key=score)
            if best == before:
                break
        near = range(max(best.scale - NEAR, 0), min(best.scale + NEAR + 1, len(self.scales)))
        for name in self.names:
            for place in self._of_scale(best._replace(name=name), near):
                score(place)
        return [self.kernel(place) for place in tried if any(place.shares)]

    def _starts(self) -> list[GridPlace]:
        last = len(self.scales) - 1
        shares = (COLUMN_SHARES.index(1.0),) * self.n_columns
        return [GridPlace(self.names[-1], scale, shares) for scale in (last // 2, last)]

    def _of_column(self, at: GridPlace, number: int) -> Iterator[GridPlace]:
        before, after = at.shares[:number], at.shares[number + 1 :]
        return (at._replace(shares=(*before, k, *after)) for k in range(len(COLUMN_SHARES)))

    def _of_scale(self, at: GridPlace, scales: range) -> Iterator[GridPlace]:
        return (at._replace(scale=scale) for scale in scales)
