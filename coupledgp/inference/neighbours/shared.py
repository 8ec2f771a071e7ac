"""The exact evidence of a kernel with one lengthscale for all columns, and a trend."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from coupledgp.ground.tensors import torch
from coupledgp.inference.evidence.stationary import distances_between
from coupledgp.inference.neighbours.evidence import REFUSED, OrderedRows
from coupledgp.inference.neighbours.parameters import LocalObjective, Structure, trend_columns
from coupledgp.random import FloatArray

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
