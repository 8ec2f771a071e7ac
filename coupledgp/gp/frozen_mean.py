"""A Gaussian process about a mean function that does not change: `y = m(x) + r(x)`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from coupledgp.errors import InvalidInputError
from coupledgp.gp.boosted_trees import BoostedTrees
from coupledgp.gp.drawn_functions import DrawnFunctions, ShiftedFunctions
from coupledgp.gp.left_out import LeftOut
from coupledgp.gp.mixture import as_member, n_columns_of, restored_process
from coupledgp.gp.protocol import (
    Arrays,
    Batch,
    Data,
    GaussianProcess,
    Header,
    Points,
    PredictiveLaw,
    Problem,
    Want,
    training_data,
)
from coupledgp.gp.schema import Entries
from coupledgp.gp.units import Units
from coupledgp.ground.progress import Progress, silent
from coupledgp.likelihoods.base import Likelihood
from coupledgp.random import FloatArray

# Name of the targets y in a file, beside those of the residuals.
OBSERVED = "y_with_mean"


@as_member
@dataclass(frozen=True, eq=False, repr=False)
class FrozenMeanGP(GaussianProcess):
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
    units : Units
        Units of the residuals.
    rows : Data or None
        Observations of y; None if they were not kept.
    """

    inner: GaussianProcess
    mean: BoostedTrees
    units: Units
    rows: Data | None

    @classmethod
    def of(cls, inner: GaussianProcess, mean: BoostedTrees, rows: Data) -> FrozenMeanGP:
        """A process of the residuals of data, `residuals(rows, mean)`."""
        return cls(inner, mean, inner.units, rows)

    def around(self, inner: GaussianProcess) -> FrozenMeanGP:
        """The same mean about another process of the same residuals."""
        rows = self.rows if getattr(inner, "rows", None) is not None else None
        return replace(self, inner=inner, units=inner.units, rows=rows)

    def with_data(self, rows: Data) -> FrozenMeanGP:
        """The process with the observations that it was given, where it did without them."""
        inner = self.inner
        if getattr(inner, "rows", None) is None:
            inner = inner.with_data(residuals(rows, self.mean))
        return replace(self, inner=inner, rows=rows)

    def row_keys(self, points: Points) -> Points:
        return self.inner.row_keys(points)

    @property
    def data(self) -> Data:
        return training_data(self.rows)

    @property
    def noise(self) -> Likelihood:
        return self.inner.noise

    @property
    def hyperparameters(self) -> Any:
        """Hyperparameters of the process of the residuals."""
        return self.inner.hyperparameters

    def summary(self) -> dict[str, Any]:
        """Hyperparameters of the process of the residuals by name."""
        return self.inner.summary()

    @property
    def log_evidence(self) -> float:
        """Log evidence of the residuals given the trees, nats; trees have no evidence."""
        return self.inner.log_evidence

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
        return ShiftedFunctions(self.inner.draw_functions(n_functions, rng), self.mean.at)

    def left_out(self, groups: ArrayLike, rows: ArrayLike | None = None) -> LeftOut:
        """Laws of observations given other groups, about the trees that did not see their rows."""
        found = self.inner.left_out(groups, rows)
        points = self.data.points
        wanted = points if rows is None else points[np.asarray(rows)]
        return replace(found, means=found.means + self.mean.observed(wanted))

    def left_out_correlation(self, groups: ArrayLike, rows: ArrayLike) -> FloatArray | None:
        """Correlations (m, m) of the residuals, each given other groups."""
        return self.inner.left_out_correlation(groups, rows)

    def prior(self, points: Points) -> FloatArray:
        """Prior covariance (p, p, k) of the residuals, units of y squared."""
        return self.inner.prior(points)

    def exact(self) -> FrozenMeanGP:
        exact = self.inner.exact()
        return self if exact is self.inner else self.around(exact)

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

    def conditioned(self, data: Data, *, renormalize: bool = False) -> FrozenMeanGP:
        """Return the same trees and prior of residuals given other data."""
        given = residuals(data, self.mean)
        inner = self.inner.conditioned(given, renormalize=renormalize)
        return FrozenMeanGP.of(inner, self.mean, data)

    def updated(self, data: Data) -> FrozenMeanGP:
        """Return the process given further data too; the trees do not change."""
        inner = self.inner.updated(residuals(data, self.mean))
        rows = None if self.rows is None else self.rows.followed_by(data)
        return FrozenMeanGP(inner, self.mean, inner.units, rows)

    def redrawn(self, coupling: Any, size: int, seed: int) -> FrozenMeanGP:
        return self.around(self.inner.redrawn(coupling, size, seed))

    def on(self, device: torch.device) -> FrozenMeanGP:
        return replace(self, inner=self.inner.on(device))

    def without_data(self) -> FrozenMeanGP:
        return self.around(self.inner.without_data())

    def state(self) -> tuple[Header, Arrays]:
        """Values and arrays of the inner process and of the trees, for a file."""
        header, arrays = self.inner.state()
        if self.rows is not None:
            arrays[OBSERVED] = self.rows.targets
        header["inner"], header["process"] = type(self.inner).__name__, type(self).__name__
        return header, arrays | self.mean.arrays()

    @classmethod
    def from_state(cls, header: Header, arrays: Arrays) -> FrozenMeanGP:
        """Put the process of `state` together again."""
        entries = Entries(header, arrays)
        inner = restored_process({**header, "process": entries.text("inner")}, arrays)
        n_columns = n_columns_of(inner) or 0
        mean = BoostedTrees.from_entries(entries, n_columns, inner.units.n_outputs)
        rows = None
        if OBSERVED in arrays:
            data = inner.data
            targets = entries.floats(OBSERVED, len(data), inner.units.n_outputs).numpy()
            rows = Data.of(data.points, targets, weights=data.weights)
        return cls(inner, mean, inner.units, rows)


def residuals(data: Data, mean: BoostedTrees) -> Data:
    """The same observations without the mean of trees that did not see them, in the same batches.

    The arguments are observations of y, and the mean.
    """
    return Data(
        tuple(
            Batch(part.points, part.targets - mean.observed(part.points), part.weights)
            for part in data.batches
        )
    )
