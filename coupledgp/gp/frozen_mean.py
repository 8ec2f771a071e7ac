"""A Gaussian process about a mean function that does not change: `y = m(x) + r(x)`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.errors import InvalidInputError
from coupledgp.gp.boosted_trees import BoostedTrees
from coupledgp.gp.drawn_functions import DrawnFunctions, MappedFunctions
from coupledgp.gp.left_out import LeftOut
from coupledgp.gp.mixture import as_member, n_columns_of
from coupledgp.gp.protocol import Arrays, Data, Header, Points, PredictiveLaw, Problem, Want
from coupledgp.gp.schema import Entries
from coupledgp.gp.wrapped import WrappedGP
from coupledgp.ground.progress import Progress, silent
from coupledgp.random import FloatArray


@as_member
@dataclass(frozen=True, eq=False, repr=False)
class FrozenMeanGP(WrappedGP):
    """The law of `y = m(x) + r(x)`, r the observations of an inner process, given data.

    The mean is a sum of boosted trees. At observed rows it is that of trees which did not see them,
    so that the residuals are those of rows that were left out; at other points it is the mean of
    all sums. It does not change when the process is given other data. `units`, `noise` and
    `hyperparameters` are those of the residuals.

    Attributes
    ----------
    inner : GaussianProcess
        Process of the residuals, Gaussian.
    mean : BoostedTrees
        The mean m, in units of y.
    rows : Data or None
        Observations of y; None if they were not kept.
    """

    observed: ClassVar[str] = "y_with_mean"

    mean: BoostedTrees

    def inner_targets(self, points: Points, targets: FloatArray) -> FloatArray:
        """Observations less the mean of trees that did not see them."""
        return targets - self.mean.observed(points)

    @property
    def remarks(self) -> tuple[str, ...]:
        return (
            *self.inner.remarks,
            "The model's mean is a sum of boosted trees that further rows do not change.",
        )

    def law(
        self, points: Points, want: Want, *, latent: bool = False, report: Progress = silent
    ) -> PredictiveLaw:
        mean, spread = self.inner.law(points, want, latent=latent, report=report)
        return PredictiveLaw(mean + self.mean.at(points), spread)

    def sample(
        self,
        points: Points,
        n_samples: int,
        rng: np.random.Generator,
        *,
        latent: bool = False,
        report: Progress = silent,
    ) -> FloatArray:
        drawn = self.inner.sample(points, n_samples, rng, latent=latent, report=report)
        return drawn + self.mean.at(points)[:, :, None]

    @property
    def is_rough(self) -> bool:
        """True: sums of trees jump."""
        return True

    def draw_functions(self, n_functions: int, rng: np.random.Generator) -> DrawnFunctions:
        """Functions of the residuals, about the mean."""
        return MappedFunctions(
            self.inner.draw_functions(n_functions, rng),
            lambda points, values: values + self.mean.at(points)[:, :, None],
        )

    def left_out(self, groups: ArrayLike, rows: ArrayLike | None = None) -> LeftOut:
        """Laws of observations given other groups, about the trees that did not see their rows."""
        found = self.inner.left_out(groups, rows)
        points = self.data.points
        wanted = points if rows is None else points[np.asarray(rows)]
        return replace(found, means=found.means + self.mean.observed(wanted))

    def exact_problem(self) -> Problem:
        """Refuse, since a kernel alone does not state the law of y.

        Raises
        ------
        InvalidInputError
            Always.
        """
        raise InvalidInputError(
            "method: a model about boosted trees has no single kernel to solve with; use "
            "method='dense' on fewer rows"
        )

    def state(self) -> tuple[Header, Arrays]:
        """Values and arrays of the inner process and of the trees, for a file."""
        header, arrays = super().state()
        return header | {"process": type(self).__name__}, arrays | self.mean.arrays()

    @classmethod
    def from_state(cls, header: Header, arrays: Arrays) -> FrozenMeanGP:
        """Put the process of `state` together again."""
        inner, rows = cls.stored_parts(header, arrays)
        n_columns = n_columns_of(inner) or 0
        entries = Entries(header, arrays)
        mean = BoostedTrees.from_entries(entries, n_columns, inner.units.n_outputs)
        return cls(inner, rows, mean)


def residuals(data: Data, mean: BoostedTrees) -> Data:
    """The same observations of y less a mean of trees that did not see them."""
    return data.mapped(lambda points, targets: targets - mean.observed(points))
