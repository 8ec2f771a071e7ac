"""Several fitted models of the same data as one predictive law, a mixture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from coupledgp.inference.spectra.mixture import (
    gaussian_log_density,
    mixture_log_density,
    precision_weighted_mean,
)
from coupledgp.random import FloatArray


@dataclass(frozen=True)
class Stack:
    """Mixture `sum_k q_k p_k` of the laws of its members; the formulas are in `fitted_stack`.

    Attributes
    ----------
    members : list of regressors
        Models with feature maps and hyperparameters of their own.
    weights : FloatArray (K,)
        Positive, of sum one.
    """

    members: list[Any]
    weights: FloatArray

    def conditioned(self, model: Any, inputs: FloatArray, targets: FloatArray) -> Stack:
        """The same feature maps and hyperparameters given the data of `model`."""
        members = []
        for member in self.members:
            other = model._sibling()
            other._stack = None
            other.features_, other._hyperparameters = member.features_, member._hyperparameters
            other._condition(inputs, targets)
            members.append(other)
        return Stack(members, self.weights)

    def law(
        self, inputs: FloatArray, want: str, latent: bool
    ) -> tuple[FloatArray, FloatArray | None]:
        """Precision-weighted mean (p, k) and second moments about it, in units of y."""
        laws = [member._law(inputs, "variance", True) for member in self.members]
        means, latent_variances = (np.array(parts) for parts in zip(*laws, strict=True))
        noise = np.array([m._hyperparameters.noise * m._y_scale**2 for m in self.members])
        observed = latent_variances + noise[:, None]
        center = precision_weighted_mean(means, observed, self.weights)
        if want == "mean":
            return center, None
        variances = latent_variances if latent else observed
        gaps = means - center
        variance = np.einsum("q,qpk->pk", self.weights, variances + gaps**2)
        if want == "variance":
            return center, variance
        covariance = np.einsum("q,qpk,qrk->prk", self.weights, gaps, gaps)
        for weight, member in zip(self.weights, self.members, strict=True):
            covariance += weight * member._law(inputs, "covariance", latent)[1]
        rows = np.arange(len(inputs))
        covariance[rows, rows] = variance
        return center, covariance

    def samples(
        self, inputs: FloatArray, n_samples: int, rng: np.random.Generator, latent: bool
    ) -> FloatArray:
        """Draws (p, k, n_samples), each of a member drawn by the weights, in units of y."""
        chosen = rng.choice(len(self.members), size=n_samples, p=self.weights)
        drawn = np.empty((len(inputs), self.members[0]._y_mean.size, n_samples))
        for k, (member, generator) in enumerate(
            zip(self.members, rng.spawn(len(self.members)), strict=True)
        ):
            places = np.flatnonzero(chosen == k)
            if places.size:
                drawn[:, :, places] = member._samples(inputs, places.size, generator, latent)
        return drawn

    def log_density(self, inputs: FloatArray, targets: FloatArray) -> FloatArray:
        """Log density (p,) of the mixture at targets (p, k)."""
        densities = []
        for member in self.members:
            mean, variance = member._law(inputs, "variance", False)
            densities.append(gaussian_log_density(targets, mean, variance))
        return mixture_log_density(np.array(densities), self.weights)

    def prior_covariance(self, inputs: FloatArray) -> FloatArray:
        """`sum_q q v Phi Phi'`, (p, p, k): the members' priors have mean zero."""
        covariance: FloatArray = sum(
            weight * member._prior_covariance(inputs)
            for weight, member in zip(self.weights, self.members, strict=True)
        )
        return covariance
