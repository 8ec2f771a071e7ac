"""The Vecchia evidence of features, trend and local part on ordered rows, and the exact one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from coupledgp.errors import NumericalError
from coupledgp.ground.devices import CPU
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.inference.evidence.problem import RowWeights, distances_between
from coupledgp.inference.neighbours.conditionals import Conditionals, conditionals
from coupledgp.inference.neighbours.nearest import Places, nearest_earlier
from coupledgp.inference.neighbours.parameters import (
    LocalObjective,
    LocalScales,
    Structure,
    trend_columns,
)
from coupledgp.inference.neighbours.whitening import Neighbours, WhitenedPosterior, WhitenedSums
from coupledgp.random import FloatArray

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


# Most rows: an evaluation takes n^3 steps.
MOST_ROWS = 512


@dataclass(frozen=True, eq=False)
class SharedEvidence(LocalObjective):
    """Evidence of all rows, whose distances and trend products are computed once.

    With powers Q (n, n) of the distances, of order p, and the product T of the trend's columns,

        K = v kappa(Q / l^p) + t T + s diag(r) ,
        log p(Y) = -(tr(Y' K^-1 Y) + k log det K + n k log 2 pi) / 2 ,
        d log p(Y) = tr((A A' - k K^-1) dK) / 2 ,  A = K^-1 Y

    (Rasmussen and Williams, 2006, section 5.4.1).

    Attributes
    ----------
    structure : Structure
        A model without features, whose columns share a lengthscale.
    powers, trend : FloatArray (n, n)
        Q and T.
    targets : FloatArray (n, k)
        Normalised targets Y.
    noise : FloatArray (n,)
        Relative noise variances r.
    n_counted : float
        Observations, each as often as it counts.
    """

    structure: Structure
    powers: FloatArray
    trend: FloatArray
    targets: FloatArray
    noise: FloatArray
    n_counted: float

    @classmethod
    def of(cls, structure: Structure, rows: OrderedRows) -> SharedEvidence:
        """The evidence of a table."""
        assert structure.spectrum is not None
        inputs, metric = torch.as_tensor(rows.inputs), structure.spectrum.metric
        powers = metric.powers(distances_between(inputs, inputs, metric)).numpy()
        columns = trend_columns(inputs, structure.trend)
        trend = (columns @ columns.T).numpy()
        counted = float(rows.counts.sum())
        return cls(structure, powers, trend, rows.targets, rows.noise, counted)

    @property
    def n_total(self) -> float:
        """Observations of the table, each as often as it counts."""
        return self.n_counted

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.targets)

    def value_and_gradient(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """Minus the log posterior of hyperparameters per observation, and its gradient."""
        leaf = torch.tensor(vector, requires_grad=True)
        log_prior = self.structure.log_prior(self.structure.named(leaf))
        (prior_gradient,) = torch.autograd.grad(log_prior, leaf)
        try:
            evidence, slopes = self.log_evidence(vector)
        except np.linalg.LinAlgError:
            return REFUSED, np.zeros_like(vector)
        gradient = self.structure.pack({name: np.asarray(slopes[name]) for name in slopes})
        size = self.n_counted * self.targets.shape[1]
        value = -(evidence + float(log_prior.detach())) / size
        if not np.isfinite(value) or not np.isfinite(gradient).all():
            return REFUSED, np.zeros_like(vector)
        return value, -(gradient + prior_gradient.numpy()) / size

    def log_evidence(self, vector: FloatArray) -> tuple[float, dict[str, float]]:
        """Log evidence, nats, and its derivative in the logarithm of each hyperparameter.

        Raises
        ------
        LinAlgError
            The covariance is not positive definite to rounding.
        """
        spectrum = self.structure.spectrum
        assert spectrum is not None
        order = spectrum.metric.order
        scales = {name: float(value.exp()) for name, value in self.structure.named(vector).items()}
        scaled = self.powers / scales["lengthscale"] ** order
        found = spectrum.kernel_and_slope(torch.as_tensor(scaled))
        kernel, slope = (a.numpy() for a in found)
        amount, level = scales["outputscale"], scales["noise"]
        covariance = amount * kernel + scales.get("trend", 0.0) * self.trend
        covariance.flat[:: len(covariance) + 1] += level * self.noise
        n_rows, n_outputs = self.targets.shape
        factor = scipy.linalg.cho_factor(covariance, lower=True)
        inverse = scipy.linalg.cho_solve(factor, np.eye(n_rows))
        solved = inverse @ self.targets
        determinant = 2 * float(np.log(factor[0].diagonal()).sum())
        repeated = n_outputs * (self.n_counted - n_rows)
        evidence = -0.5 * (
            float((self.targets * solved).sum())
            + n_outputs * determinant
            + self.targets.size * np.log(2 * np.pi)
            + repeated * np.log(level)
        )
        cotangent = 0.5 * (solved @ solved.T - n_outputs * inverse)
        slopes = {
            "noise": level * float(cotangent.diagonal() @ self.noise) - 0.5 * repeated,
            "lengthscale": -order * amount * float((cotangent * slope * scaled).sum()),
            "outputscale": amount * float((cotangent * kernel).sum()),
        }
        if "trend" in scales:
            slopes["trend"] = scales["trend"] * float((cotangent * self.trend).sum())
        return evidence, slopes
