"""The observations of a local model: their order, sums over them, and kriging from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from coupledgp.core.process import Data
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError
from coupledgp.ground.devices import CPU, moved
from coupledgp.ground.memory import check_memory
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.random import FloatArray
from coupledgp.tables.conditionals import (
    Conditionals,
    Neighbourhoods,
    conditionals,
)
from coupledgp.tables.local_evidence import laws_given_neighbours
from coupledgp.tables.local_prior import LocalPrior
from coupledgp.tables.nearest import MISSING, nearest, nearest_earlier
from coupledgp.tables.standardized import Box, TablePair
from coupledgp.tables.whitening import Neighbours, WhitenedSums

# Rows that are whitened, or points that are predicted, at once.
CHUNK_ROWS = 4096
# Lengthscales beyond the range of a column at which a point has no neighbours: values of a function
# have correlations below exp(-40) there, less than rounding.
STRANGE = 40.0
# Columns of the neighbours' covariance that are formed at once for joint laws.
BLOCK_COLUMNS = 2048
Places = NDArray[np.int64]


def random_order(first: int, n_rows: int) -> Places:
    """Places (n_rows,) of further rows, from `first` on, in an order that these two numbers fix."""
    return first + np.random.default_rng([first, n_rows]).permutation(n_rows)


@dataclass(frozen=True, eq=False)
class Table:
    """Observations in the order in which they are conditioned on each other.

    What is made of the data is made at its first use: not when a file is read.

    Attributes
    ----------
    center, spread : FloatArray (d,)
        By which the inputs are standardised.
    data : Data
        The observations.
    order : NDArray (n,)
        Places of the rows in the data.
    offset : FloatArray (k,)
        The offset.
    inputs : FloatArray (n, d)
        Standardised inputs.
    columns : FloatArray (n, k + 1)
        Targets minus an offset, in units of y, and a column of ones, from which sums of normalised
        targets follow for any normalisation.
    noise : FloatArray (n,)
        Relative noise variances.
    box : Box
        Range of the inputs.
    """

    center: FloatArray
    spread: FloatArray
    data: Data
    order: Places
    offset: FloatArray

    @cached_property
    def inputs(self) -> FloatArray:
        inputs = self.data.points[self.order]
        inputs -= self.center  # in place: a table may take much of the memory
        inputs /= self.spread
        return inputs

    @cached_property
    def columns(self) -> FloatArray:
        ones = np.ones((len(self), 1))
        return np.hstack([self.data.targets[self.order] - self.offset, ones])

    @cached_property
    def noise(self) -> FloatArray:
        relative = self.data.relative_noise
        return np.ones(len(self)) if relative is None else relative[self.order]

    @cached_property
    def box(self) -> Box:
        return Box.of(self.inputs)

    @classmethod
    def first(cls, center: FloatArray, spread: FloatArray, data: Data) -> Table:
        """The data in a random order, which is the same for the same number of rows."""
        order = random_order(0, len(data))
        return cls(center, spread, data, order, data.targets.mean(axis=0))

    def check_standardised(self, prior: LocalPrior) -> None:
        """Refuse a prior that standardises columns otherwise."""
        for name in ("center", "spread"):
            if not np.array_equal(getattr(self, name), getattr(prior, name)):
                raise InvalidInputError(f"table: expected the {name} of the columns of the prior")

    def __len__(self) -> int:
        return self.order.size

    def normalizer(self, units: Units) -> Tensor:
        """Matrix (k + 1, k) by which the columns become normalised targets."""
        shift = (units.offset - self.offset) / units.scale
        return torch.as_tensor(np.vstack([np.diag(1 / units.scale), -shift]))

    def sums(self, prior: LocalPrior, first: int = 0) -> WhitenedSums:
        """Sums over the rows from `first` on, each whitened by near rows before it."""
        rows = np.arange(first, len(self))
        near = self._near(prior, rows)
        return self.sums_of(prior, rows, near)

    def sums_of(self, prior: LocalPrior, rows: Places, near: Places) -> WhitenedSums:
        """Sums over rows (w,), w > 0, each whitened by near rows (w, k), all by place."""
        chunks = [slice(start, start + CHUNK_ROWS) for start in range(0, len(rows), CHUNK_ROWS)]
        total = self._sums(prior, rows[chunks[0]], near[chunks[0]])
        # Merged at once: sums that live on between large temporaries would keep their memory.
        for chunk in chunks[1:]:
            total = total.merge(self._sums(prior, rows[chunk], near[chunk]))
        return total

    def _near(self, prior: LocalPrior, rows: Places) -> Places:
        """Places (w, k) of the near rows by which rows (w,) are whitened."""
        structure = prior.structure
        if structure.spectrum is None:
            return np.empty((len(rows), 0), dtype=np.int64)
        return nearest_earlier(self.inputs / prior.local_lengthscale, rows, structure.n_neighbours)

    def _sums(self, prior: LocalPrior, rows: Places, near: Places) -> WhitenedSums:
        part = self._whitened(prior, rows, near)
        return moved(WhitenedSums.of(part.features, part.columns, part.laws.variances), CPU)

    def _whitened(self, prior: LocalPrior, rows: Places, near: Places) -> Whitened:
        """Rows whitened on the device of the prior."""
        device, scales = prior.device, prior.device_scales
        neighbours = Neighbours.of(rows, near, device)
        used = neighbours.used.numpy()
        inputs, noise, columns = (
            torch.as_tensor(a[used], device=device) for a in (self.inputs, self.noise, self.columns)
        )
        laws = laws_given_neighbours(prior.structure, scales, neighbours, inputs, noise)
        features = scales.features(inputs, prior.structure.trend)
        values = torch.cat([features, columns], dim=1)
        whitened = neighbours.whiten(values, laws)
        split = features.shape[1]
        return Whitened(whitened[:, :split], whitened[:, split:], laws)

    def whitening(self, prior: LocalPrior) -> Whitening:
        """The matrix that whitens all rows, and all whitened features.

        Raises
        ------
        MemoryLimitError
            The features of all rows do not fit in memory.
        """
        n, k = len(self), prior.structure.n_neighbours
        check_memory(
            8.0 * n * (4 * prior.n_columns + 4 * (k + 1)),
            f"groups: the features of {n} observations",
            "compare with held-out rows instead",
        )
        rows = np.arange(n)
        near = self._near(prior, rows)
        chunks = [slice(start, start + CHUNK_ROWS) for start in range(0, n, CHUNK_ROWS)]
        parts = [moved(self._whitened(prior, rows[chunk], near[chunk]), CPU) for chunk in chunks]
        scale = np.concatenate([part.laws.variances.rsqrt().numpy() for part in parts])
        entries = np.concatenate([part.laws.weights.numpy() for part in parts])
        present = near != MISSING
        own = np.broadcast_to(rows[:, None], near.shape)[present]
        values = -(scale[:, None] * entries)[present]
        matrix = sparse.coo_array(
            (np.append(scale, values), (np.append(rows, own), np.append(rows, near[present]))),
            shape=(n, n),
        )
        return Whitening(matrix.tocsc(), torch.cat([part.features for part in parts]))


class Whitened(NamedTuple):
    """Some rows whitened: features (b, M), columns (b, k + 1), and laws given near rows."""

    features: Tensor
    columns: Tensor
    laws: Conditionals


class Whitening(NamedTuple):
    """All rows whitened, `psi~ = W psi`.

    Attributes
    ----------
    matrix : csc_array (n, n)
        W, of one entry and k more in each row.
    features : Tensor (n, M)
        Whitened features.
    """

    matrix: sparse.csc_array
    features: Tensor


class Kriged(NamedTuple):
    """Kriging of the local part at p points, given the k rows nearest to each.

    Attributes
    ----------
    errors : Tensor (p, M)
        `psi(x) - sum_a b_a psi(x_a)`: how the value at a point depends on the weights.
    targets : Tensor (p, k)
        `sum_a b_a y_a` of the normalised targets.
    variance : FloatArray (p,)
        Variance of the local part given the neighbours' noisy values.
    weights : csr_array (p, n)
        The b.
    """

    errors: Tensor
    targets: Tensor
    variance: FloatArray
    weights: sparse.csr_array

    @classmethod
    def of_features(cls, features: Tensor, targets: Tensor) -> Kriged:
        """Without a local part: features (p, M), and targets (n, k) that inform nothing else."""
        p, (n, k) = len(features), targets.shape
        none = sparse.csr_array((p, n))
        return cls(features, targets.new_zeros(p, k), np.zeros(p), none)


def krige(
    prior: LocalPrior, table: Table, targets: Tensor, inputs: FloatArray, fading: FloatArray
) -> Kriged:
    """Kriging at standardised inputs (p, d) whose features have factors (p,).

    `targets` (n, k) are the normalised targets of the table.
    """
    features = prior.features(inputs, fading, table.box)
    if prior.structure.spectrum is None:
        return Kriged.of_features(features, targets)
    scale = prior.local_lengthscale
    near = nearest(table.inputs / scale, inputs / scale, prior.structure.n_neighbours)
    beyond = np.abs(inputs - np.clip(inputs, table.box.low, table.box.high)) / scale
    strangers = beyond.max(axis=1) > STRANGE
    if strangers.any():  # whose differences from rows have no digits either
        near[strangers] = MISSING
        inputs = np.where(strangers[:, None], table.inputs[:1], inputs)
    return krige_from(prior, table, targets, inputs, near, features)


def krige_from(
    prior: LocalPrior,
    table: Table,
    targets: Tensor,
    inputs: FloatArray,
    near: Places,
    features: Tensor,
) -> Kriged:
    """Kriging at standardised inputs (p, d) from near rows (p, k) of the table.

    Features (p, M) are those of the inputs; neighbours may be `MISSING`.
    """
    parts = [
        _krige(prior, table, targets, inputs[rows], near[rows], features[rows])
        for rows in (slice(s, s + CHUNK_ROWS) for s in range(0, len(inputs), CHUNK_ROWS))
    ]
    return Kriged(
        torch.cat([part.errors for part in parts]),
        torch.cat([part.targets for part in parts]),
        np.concatenate([part.variance for part in parts]),
        sparse.vstack([part.weights for part in parts], format="csr"),
    )


def _krige(
    prior: LocalPrior,
    table: Table,
    targets: Tensor,
    inputs: FloatArray,
    near: Places,
    features: Tensor,
) -> Kriged:
    present = near != MISSING
    near = np.where(present, near, 0)
    device = prior.device
    here = torch.as_tensor(present.astype(np.float64), device=device)
    laws = _laws(prior, table, inputs, near, here)
    used, inverse = np.unique(near, return_inverse=True)
    neighbours = Neighbours(
        torch.as_tensor(used),
        torch.arange(len(inputs), device=device),
        torch.as_tensor(inverse.reshape(near.shape), device=device),
        torch.ones_like(here),
    )
    rows = torch.as_tensor(table.inputs[used], device=device)
    theirs = prior.device_scales.features(rows, prior.structure.trend)
    errors = features - neighbours.kriged(theirs, laws).cpu()
    kriged = neighbours.kriged(targets[used].to(device), laws).cpu()
    laws = moved(laws, CPU)
    starts = np.arange(0, near.size + 1, near.shape[1])
    weights = sparse.csr_array(
        (laws.weights.numpy().ravel(), near.ravel(), starts), shape=(len(inputs), len(table))
    )
    return Kriged(errors, kriged, laws.variances.numpy(), weights)


def _laws(
    prior: LocalPrior, table: Table, inputs: FloatArray, near: Places, present: Tensor
) -> Conditionals:
    """Kriging weights and variances of the local part, without noise of its own."""
    differences = torch.as_tensor(table.inputs[near] - inputs[:, None, :], device=present.device)
    own = present.new_zeros(len(inputs))
    noise = torch.as_tensor(table.noise[near], device=present.device)
    scales, spectrum = prior.device_scales, prior.structure.spectrum
    assert spectrum is not None
    return conditionals(
        spectrum, Neighbourhoods(differences, present, own, noise), scales.log_lengthscale,
        scales.log_outputscale, scales.log_noise,
    )  # fmt: skip


def kriging_errors(
    prior: LocalPrior, table: Table, inputs: FloatArray, weights: sparse.csr_array
) -> FloatArray:
    """Covariance (p, p) of the errors of kriging at p points, each from neighbours of its own.

    With the weights B (p, n) it is `K_pp - B K_np - K_pn B' + B (K_nn + s R) B'`: the covariance
    of predictors that are given, so it is positive semidefinite, and with all rows as neighbours
    the conditional covariance. K_nn is formed for rows that are someone's neighbour, in blocks.

    Raises
    ------
    MemoryLimitError
        The matrices do not fit in memory.
    """
    used = np.unique(weights.indices)
    check_memory(
        8 * (3 * len(inputs) ** 2 + 3 * len(used) * min(BLOCK_COLUMNS, len(used))),
        f"X: the joint law of {len(inputs)} points",
        "ask for it at fewer points at a time, or for standard deviations only",
    )
    own, rows, noise = weights[:, used], table.inputs[used], prior.noise * table.noise[used]
    covariance = prior.local_covariance(TablePair(inputs, inputs))
    for start in range(0, len(used), BLOCK_COLUMNS):
        block = slice(start, start + BLOCK_COLUMNS)
        theirs = prior.local_covariance(TablePair(rows, rows[block]))
        theirs[np.arange(start, start + theirs.shape[1]), np.arange(theirs.shape[1])] += noise[
            block
        ]
        cross = prior.local_covariance(TablePair(inputs, rows[block]))
        part = own[:, block]
        both = np.asarray(part @ cross.T)
        covariance += part @ (own @ theirs).T - both - both.T
    return 0.5 * (covariance + covariance.T)
