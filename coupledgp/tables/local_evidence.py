"""The Vecchia evidence of features, trend and local part on ordered rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from coupledgp.core.problem import RowWeights
from coupledgp.errors import NumericalError
from coupledgp.ground.devices import CPU
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.random import FloatArray
from coupledgp.tables.conditionals import Conditionals, conditionals
from coupledgp.tables.local_parameters import (
    LocalObjective,
    LocalScales,
    Structure,
)
from coupledgp.tables.nearest import Places, nearest_earlier
from coupledgp.tables.whitening import Neighbours, WhitenedPosterior, WhitenedSums

# Value of the objective where it cannot be computed: a search turns back.
REFUSED = 1e10


@dataclass(frozen=True, eq=False)
class OrderedRows:
    """A table in the order in which its rows are conditioned on each other.

    Attributes
    ----------
    inputs : FloatArray (n, d)
        Standardised inputs.
    targets : FloatArray (n, k)
        Normalised targets.
    noise : FloatArray (n,)
        Relative noise variances, `r / c` of `inference.evidence.problem`.
    counts : FloatArray (n,)
        How often each row counts.
    """

    inputs: FloatArray
    targets: FloatArray
    noise: FloatArray
    counts: FloatArray

    @classmethod
    def of(
        cls, inputs: FloatArray, targets: FloatArray, weights: RowWeights | None = None
    ) -> OrderedRows:
        """Rows with weights, or that all count once and have the same noise."""
        if weights is None:
            return cls(inputs, targets, np.ones(len(inputs)), np.ones(len(inputs)))
        return cls(inputs, targets, weights.relative_noise, weights.counts)

    def merged(self) -> OrderedRows:
        """The rows of which those with equal inputs, targets and noise are one that counts for all.

        It has the place of the first. Copies of a row are its nearest neighbours, beside which it
        has no others; and where there are many, their covariance is singular to rounding.
        """
        own_noise = self.noise * self.counts
        parts = self.inputs, self.targets, own_noise[:, None]
        _, first, group = np.unique(_hashes(parts), return_index=True, return_inverse=True)
        if first.size == len(self):
            return self
        later = np.setdiff1d(np.arange(len(self)), first)
        alike = first[group[later]]
        if any((part[later] != part[alike]).any() for part in parts):
            return self  # different rows with one hash, which is less likely than a broken disk
        order = np.argsort(first)
        counts = np.bincount(group, weights=self.counts)[order].astype(np.float64)
        kept = self.take(first[order])
        return replace(kept, noise=own_noise[first[order]] / counts, counts=counts)

    def take(self, places: Places) -> OrderedRows:
        """The rows at some places, in their order."""
        return OrderedRows(
            self.inputs[places], self.targets[places], self.noise[places], self.counts[places]
        )

    def __len__(self) -> int:
        return len(self.inputs)


def _hashes(parts: Iterable[FloatArray]) -> NDArray[np.uint64]:
    """Numbers (n,) that are equal for equal rows of all parts (n, w), and hardly for others."""
    columns = [column for part in parts for column in part.T]
    factors = np.random.default_rng(0).integers(2**64, size=len(columns), dtype=np.uint64) | 1
    found = np.zeros(len(columns[0]), dtype=np.uint64)
    for column, factor in zip(columns, factors, strict=True):
        found ^= (column + 0.0).view(np.uint64)  # zero in place of minus zero
        found *= factor
        found ^= found >> np.uint64(32)
    return found


@dataclass(frozen=True, eq=False)
class BatchEvidence(LocalObjective):
    """Evidence of some rows given their neighbours, per observation, with the priors.

    Attributes
    ----------
    structure : Structure
    neighbours : Neighbours
        The rows of the batch and their neighbours.
    inputs, targets, noise : Tensor (u, d), (u, k) and (u,)
        Inputs, targets and relative noise of the u rows that occur.
    n_counted, n_total : float
        Observations of the batch and of the whole table, each as often as it counts: the priors
        weigh on the likelihood of the whole.
    """

    structure: Structure
    neighbours: Neighbours
    inputs: Tensor
    targets: Tensor
    noise: Tensor
    n_counted: float
    n_total: float

    @classmethod
    def of(
        cls,
        structure: Structure,
        rows: OrderedRows,
        wanted: Places,
        lengthscale: FloatArray,
        device: torch.device = CPU,
    ) -> BatchEvidence:
        """Find neighbours of the wanted rows (b,) in the metric of lengthscales (d,).

        The evidence is computed on the device.
        """
        if structure.spectrum is None:
            near = np.empty((len(wanted), 0), dtype=np.int64)
        else:
            near = nearest_earlier(rows.inputs / lengthscale, wanted, structure.n_neighbours)
        neighbours = Neighbours.of(wanted, near, device)
        used = neighbours.used.numpy()
        inputs, targets, noise = (
            torch.as_tensor(a[used], device=device) for a in (rows.inputs, rows.targets, rows.noise)
        )
        n_counted, n_total = float(rows.counts[wanted].sum()), float(rows.counts.sum())
        return cls(
            structure, neighbours, inputs, targets, noise, n_counted, n_total
        )  # fmt: skip

    @property
    def n_rows(self) -> int:
        """Number of rows of the batch."""
        return len(self.neighbours.own)

    def log_evidence(self, scales: LocalScales) -> Tensor:
        """Log evidence of the batch, nats, a differentiable tensor ()."""
        laws = self.laws(scales)
        features = scales.features(self.inputs, self.structure.trend)
        whitened = self.neighbours.whiten(torch.cat([features, self.targets], dim=1), laws)
        split = features.shape[1]
        sums = WhitenedSums.of(whitened[:, :split], whitened[:, split:], laws.variances)
        # Repetitions of a value about their mean; what does not depend on the noise is left out.
        repeated = self.targets.shape[1] * (self.n_counted - len(whitened))
        return WhitenedPosterior.of(sums).log_evidence - 0.5 * repeated * scales.log_noise

    def laws(self, scales: LocalScales) -> Conditionals:
        """Kriging weights and variances of the rows of the batch."""
        return laws_given_neighbours(
            self.structure, scales, self.neighbours, self.inputs, self.noise
        )

    def value_and_gradient(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """Minus the log posterior of hyperparameters per observation, and its gradient."""
        leaf = torch.tensor(vector, device=self.inputs.device).requires_grad_()
        named = self.structure.named(leaf)
        n_outputs = self.targets.shape[1]
        try:
            evidence = self.log_evidence(LocalScales.of(self.structure, named))
        except NumericalError:
            return REFUSED, np.zeros_like(vector)
        loss = -evidence / (self.n_counted * n_outputs)
        loss = loss - self.structure.log_prior(named) / (self.n_total * n_outputs)
        (gradient,) = torch.autograd.grad(loss, leaf)
        if not bool(torch.isfinite(loss)) or not bool(torch.isfinite(gradient).all()):
            return REFUSED, np.zeros_like(vector)
        return float(loss.detach()), gradient.cpu().numpy()


def laws_given_neighbours(
    structure: Structure, scales: LocalScales, neighbours: Neighbours, inputs: Tensor, noise: Tensor
) -> Conditionals:
    """Kriging weights (b, k) and variances (b,); without a local part no weights, and the noise."""
    if structure.spectrum is None:
        own = noise[neighbours.own] * scales.log_noise.exp()
        return Conditionals(own.new_empty(len(own), 0), own)
    return conditionals(
        structure.spectrum,
        neighbours.neighbourhoods(inputs, noise),
        scales.log_lengthscale,
        scales.log_outputscale,
        scales.log_noise,
    )
