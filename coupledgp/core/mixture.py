"""Several Gaussian processes of the same data as one predictive law, a mixture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.drawn_functions import ChosenFunctions, DrawnFunctions, Gradient
from coupledgp.core.left_out import LeftOut
from coupledgp.core.posterior_form import mixture_log_density, precision_weighted_mean
from coupledgp.core.process import (
    Data,
    GaussianProcess,
    Points,
    PredictiveLaw,
    Problem,
    Want,
)
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.ground.codec import check_range, check_shapes, stored
from coupledgp.ground.tensors import torch
from coupledgp.ground.validation import SMALLEST_PRODUCT
from coupledgp.likelihoods.base import Likelihood
from coupledgp.linalg.system import SystemOptions
from coupledgp.random import FloatArray

# Number of halvings of the interval around a quantile, after which it is as narrow as rounding.
BISECTIONS = 60
# Which figures of a comparison are those of a mixture.
OWN_FIGURES = (
    "scores of single points and its intervals are the mixture's; divergences and the joint NLPD "
    "are those of the Gaussian law with the model's mean and covariance."
)
FITTED_REMARK = (
    "The model's frequencies were fitted, so its prior is no unbiased estimate of the kernel's; "
    "the KL between the priors says how far it has moved."
)
Member: TypeAlias = GaussianProcess
Purpose: TypeAlias = Literal["prediction", "hyperparameters"]


@stored
@dataclass(frozen=True, eq=False, repr=False)
class MixtureGP(GaussianProcess):
    """Mixture `sum_q weight_q p_q` of the laws of its members, see `inference.spectra`.

    Attributes
    ----------
    members : tuple of GaussianProcess
        Processes of the same kind of points, each in one piece, with hyperparameters, and feature
        maps, of their own. They do without the rows
        where they can; the mixture keeps these once.
    weights : FloatArray (K,)
        Weights of the members, positive, of sum one.
    units : Units
        Units of y, the same for all members.
    rows : Data or None
        Observations; None if they were not kept.
    purpose : str
        `"prediction"`: spectra fitted to predict. `"hyperparameters"`: one process averaged over
        draws of its hyperparameters.
    """

    members: tuple[Member, ...]
    weights: FloatArray
    units: Units
    rows: Data | None
    purpose: Purpose = "prediction"

    @classmethod
    def of(
        cls,
        members: Sequence[Member],
        weights: FloatArray,
        rows: Data | None,
        purpose: Purpose = "prediction",
    ) -> MixtureGP:
        """Mix K processes of the same data with weights (K,)."""
        bare = tuple(member.without_data() for member in members)
        return cls(bare, weights, members[0].units, rows, purpose)

    @property
    def members_with_data(self) -> list[Member]:
        """The members, each with the data."""
        if self.rows is None:
            return list(self.members)
        return [member.with_data(self.rows) for member in self.members]

    @property
    def first(self) -> Member:
        """The first member, with the data."""
        return self.members_with_data[0]

    def row_keys(self, points: Points) -> Points:
        return self.members[0].row_keys(points)

    @property
    def _sharing(self) -> Sequence[GaussianProcess]:
        """The members with what they can share while several of them answer."""
        shared = (member.sharing(self.members) for member in self.members)
        return next((found for found in shared if found is not self.members), self.members)

    @property
    def noise(self) -> Likelihood:
        return self.members[0].noise

    @property
    def hyperparameters(self) -> Any:
        return self.members[0].hyperparameters

    def summary(self) -> dict[str, Any]:
        """Hyperparameters of the first member by name."""
        return self.members[0].summary()

    @property
    def log_evidence(self) -> float:
        """Log evidence of y under the first member, nats."""
        return self.members[0].log_evidence

    @property
    def is_gaussian(self) -> bool:
        return False

    @property
    def remarks(self) -> tuple[str, ...]:
        count = len(self.members)
        if self.purpose == "hyperparameters":
            return (
                f"The model's law is a mixture over {count} settings of the hyperparameters "
                f"({self.n_effective:.3g} effective ones). Its {OWN_FIGURES}",
            )
        fitted = (
            (FITTED_REMARK,) if any(FITTED_REMARK in one.remarks for one in self.members) else ()
        )
        return (
            *fitted,
            f"The model's law is a mixture of {count} Gaussian laws, fitted to "
            f"predict, not to be near the reference. Its {OWN_FIGURES}",
        )

    @property
    def n_effective(self) -> float:
        """Effective number of members, `1 / sum w^2`."""
        return float(1.0 / np.sum(self.weights**2))

    def share_between(self, points: Points) -> FloatArray:
        """Share (p, k) of the variance of observations that is variance of the members' means.

        With members that are draws of the hyperparameters it is what comes from not knowing them.
        """
        laws = [member.law(points, "variance") for member in self._sharing]
        means = np.array([law.mean for law in laws])
        within = np.einsum("q,qpk->pk", self.weights, np.array([law.spread for law in laws]))
        gaps = means - np.einsum("q,qpk->pk", self.weights, means)
        between = np.einsum("q,qpk->pk", self.weights, gaps**2)
        share: FloatArray = between / (between + within)
        return share

    def law(self, points: Points, want: Want, *, latent: bool = False) -> PredictiveLaw:
        """Law of the mixture at points, of observations or of f.

        The mean (p, k) is the precision-weighted mean of the members' means, the spread the second
        moments of the mixture about it.
        """
        members = self._sharing
        laws = [member.law(points, "variance", latent=True) for member in members]
        latent_variances = np.array([law.spread for law in laws])
        noise = np.array([member.units.spread(member.noise.variance) for member in self.members])
        observed = latent_variances + noise[:, None]
        for k, member in enumerate(members):
            if not member.is_gaussian:  # whose noise is none of y
                laws[k] = member.law(points, "variance")
                observed[k] = laws[k].spread
        means = np.array([law.mean for law in laws])
        center = precision_weighted_mean(means, observed, self.weights)
        if want == "mean":
            return PredictiveLaw(center, None)
        gaps = means - center
        variances = latent_variances if latent else observed
        variance = np.einsum("q,qpk->pk", self.weights, variances + gaps**2)
        if want == "variance":
            return PredictiveLaw(center, variance)
        covariance = np.einsum("q,qpk,qrk->prk", self.weights, gaps, gaps)
        for weight, member in zip(self.weights, members, strict=True):
            covariance += weight * member.law(points, "covariance", latent=latent).spread
        rows = np.arange(len(points))
        covariance[rows, rows] = variance
        return PredictiveLaw(center, covariance)

    def left_out(self, groups: ArrayLike, rows: ArrayLike | None = None) -> LeftOut:
        """Laws of observations given other groups, mixed by the weights of the members."""
        laws = [member.targets_left_out(groups, rows) for member in self.members_with_data]
        return LeftOut.mixed(laws, self.weights)

    def left_out_correlation(self, groups: ArrayLike, rows: ArrayLike) -> FloatArray | None:
        """Correlations (m, m) of residuals: the weighted mean of the members' correlations."""
        len(self.data)  # refuses where there are none
        parts = [m.left_out_correlation(groups, rows) for m in self.members_with_data]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return np.asarray(np.einsum("q,qij->ij", self.weights, np.array(known)))

    def sample(
        self,
        points: Points,
        n_samples: int,
        rng: np.random.Generator,
        *,
        latent: bool = False,
    ) -> FloatArray:
        """Draws (p, k, n_samples), each from a member that is drawn by the weights."""
        chosen = rng.choice(len(self.members), size=n_samples, p=self.weights)
        drawn = np.empty((len(points), self.units.n_outputs, n_samples))
        for k, (member, generator) in enumerate(
            zip(self.members, rng.spawn(len(self.members)), strict=True)
        ):
            places = np.flatnonzero(chosen == k)
            if places.size:
                drawn[:, :, places] = member.sample(points, places.size, generator, latent=latent)
        return drawn

    @property
    def is_rough(self) -> bool:
        return any(member.is_rough for member in self.members)

    def gradient(self, points: Points, want_variance: bool) -> Gradient:
        """Gradient of the mixture's mean, and second moments of the members' gradients about it."""
        mean, _ = super().gradient(points, False)
        if not want_variance:
            return Gradient(mean, None)
        variance = np.zeros_like(mean)
        for weight, member in zip(self.weights, self.members_with_data, strict=True):
            own, spread = member.gradient(points, True)
            assert spread is not None
            variance += weight * (spread + np.square(own - mean))
        return Gradient(mean, variance)

    def draw_functions(self, n_functions: int, rng: np.random.Generator) -> DrawnFunctions:
        """Functions, each of a member that is drawn by the weights."""
        chosen = rng.choice(len(self.members), size=n_functions, p=self.weights)
        parts = []
        for k, (member, own) in enumerate(
            zip(self.members_with_data, rng.spawn(len(self.members)), strict=True)
        ):
            places = np.flatnonzero(chosen == k)
            if places.size:
                parts.append((places, member.draw_functions(places.size, own)))
        return ChosenFunctions(parts, n_functions)

    def log_density(self, points: Points, targets: FloatArray) -> FloatArray:
        """Log density (p,) of targets (p, k) under the mixture."""
        members = self._sharing
        densities = [member.log_density(points, targets) for member in members]
        return mixture_log_density(np.array(densities), self.weights)

    def quantiles(self, points: Points, probabilities: FloatArray) -> FloatArray:
        """Quantiles (p, k, q) of the mixture, in units of y.

        The distribution function of the mixture is inverted by bisection, between the least and
        the greatest of the members' quantiles.
        """
        laws = [member.marginals(points) for member in self._sharing]
        each = [law.quantiles(probabilities) for law in laws]
        low, high = np.min(each, axis=0), np.max(each, axis=0)
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            below = sum(
                weight * law.cdf(middle) for weight, law in zip(self.weights, laws, strict=True)
            )
            too_low = below < probabilities
            low, high = np.where(too_low, middle, low), np.where(too_low, high, middle)
        return 0.5 * (low + high)

    def cdf(self, points: Points, targets: FloatArray) -> FloatArray:
        members = self._sharing
        chances = np.array([member.cdf(points, targets) for member in members])
        return np.einsum("q,qpk->pk", self.weights, chances)

    def parts_of_law(self, points: Points) -> LeftOut | None:
        """Laws of observations at points (p, ...): the parts of all members, by their weights."""
        parts = [member.parts_of_law(points) for member in self._sharing]
        known = [part for part in parts if part is not None]
        return LeftOut.mixed(known, self.weights) if len(known) == len(parts) else None

    def prior(self, points: Points) -> FloatArray:
        """Prior covariance (p, p, k): the weighted mean over members, all of mean zero."""
        covariance: FloatArray = sum(
            weight * member.prior(points)
            for weight, member in zip(self.weights, self._sharing, strict=True)
        )
        return covariance

    def exact(self) -> GaussianProcess:
        """Return the mixture of the members' exact processes, with the same weights."""
        members = self.members_with_data
        exact = [member.exact() for member in members]
        if all(own is member for own, member in zip(exact, members, strict=True)):
            return self
        return MixtureGP.of(exact, self.weights, self.rows, self.purpose)

    def exact_by(self, solver: SystemOptions) -> MixtureGP:
        """Return the mixture of the members' exact processes, each solved for by iteration."""
        exact: list[Any] = [member.exact_by(solver) for member in self.members_with_data]
        return MixtureGP.of(exact, self.weights, self.rows, self.purpose)

    def exact_problem(self) -> Problem:
        """Prior and data of the exact process of the first member.

        Raises
        ------
        InvalidInputError
            The mixture is over hyperparameters, so that it has no single kernel to solve with.
        """
        if self.purpose == "hyperparameters":
            raise InvalidInputError(
                "method: a model whose hyperparameters are averaged has no single kernel to solve "
                "with; use method='dense' on fewer rows, or compare a member (members_[0])"
            )
        return self.first.exact_problem()

    def conditioned(self, data: Data, *, renormalize: bool = False) -> MixtureGP:
        """Return the members given other data, mixed by the same weights."""
        members = [member.conditioned(data, renormalize=renormalize) for member in self.members]
        return MixtureGP.of(members, self.weights, data, self.purpose)

    def updated(self, data: Data) -> MixtureGP:
        """Return the members given further data too, mixed by the same weights."""
        rows = None if self.rows is None else self.rows.followed_by(data)
        members: list[Any] = [member.updated(data) for member in self.members]
        return MixtureGP.of(members, self.weights, rows, self.purpose)

    def redrawn(self, coupling: Any, size: int, seed: int) -> GaussianProcess:
        """Return the first member with another draw of its frequencies."""
        return self.first.redrawn(coupling, size, seed)

    def on(self, device: torch.device) -> MixtureGP:
        return replace(self, members=tuple(member.on(device) for member in self.members))

    def without_data(self) -> MixtureGP:
        """The mixture without its rows, unless a member cannot do without them."""
        kept = (getattr(member, "rows", None) for member in self.members)
        return replace(self, rows=next((rows for rows in kept if rows is not None), None))

    def read_back(self) -> MixtureGP:
        """The mixture of a file.

        Raises
        ------
        ModelFileError
            Weights are no shares, or members are of other points, units or outputs.
        """
        check_shapes(self, weights=(len(self.members),))
        check_range(self, SMALLEST_PRODUCT, 1.0, "weights")
        if not self.members or abs(self.weights.sum() - 1) > 1e-6:
            raise ModelFileError("weights: expected weights whose sum is one, got others")
        sizes = {
            (isinstance(m, MixtureGP), m.points_are, n_columns_of(m), m.units.n_outputs)
            for m in self.members
        }
        if len(sizes) != 1 or next(iter(sizes))[0]:
            raise ModelFileError("members: expected all of the same points and outputs, got others")
        return self


def n_columns_of(process: GaussianProcess) -> int | None:
    """Number of columns of the points of a process of a table; None for one of places."""
    members = getattr(process, "members", (getattr(process, "inner", process),))
    if members[0] is not process:
        return n_columns_of(members[0])
    lengthscale = getattr(process.hyperparameters, "lengthscale", None)
    return None if lengthscale is None else int(np.size(lengthscale))
