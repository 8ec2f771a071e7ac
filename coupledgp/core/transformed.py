"""A Gaussian process of transformed targets: `y = g^-1(z)`, z an observation of another process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.drawn_functions import DrawnFunctions, MappedFunctions
from coupledgp.core.left_out import LeftOut
from coupledgp.core.posterior_form import precision_weighted_mean
from coupledgp.core.process import (
    Data,
    GaussianProcess,
    Points,
    PredictiveLaw,
    Problem,
    Want,
    finite_answer,
)
from coupledgp.core.target_maps import (
    CLIP_RANGES,
    MappedMarginals,
    Span,
    ToTargets,
    back_transformed,
    mapped_back,
)
from coupledgp.core.transforms import TargetTransform
from coupledgp.core.wrapped import WrappedGP
from coupledgp.errors import HeavyTailWarning, ModelFileError
from coupledgp.ground.codec import check_shapes, stored
from coupledgp.ground.validation import MOST_NAMED, wrong
from coupledgp.ground.visible import warn
from coupledgp.random import FloatArray

# Share of parts without sane moments in a mixture from which a warning is given.
LEAST_CLIPPED = 0.01


@stored
@dataclass(frozen=True, eq=False, repr=False)
class TransformedGP(WrappedGP):
    """The law of `y = g^-1(z)`, z the observations of an inner process, given data.

    Quantiles, samples and densities are those of z, mapped: exact. Mean and covariance are moments
    of y, by Hermite expansions (`coupledgp.likelihoods.hermite`). With `latent` they are those of
    `g^-1(f)`, the median of an observation as a random function of its point. `units`, `noise` and
    `hyperparameters` are those of z.

    Attributes
    ----------
    inner : GaussianProcess
        Process of z.
    transforms : tuple of TargetTransform
        The transform g of each of the k outputs.
    log_jacobian : float
        Sum of `log g'(y)` over all observations, each as often as it counts.
    rows : Data or None
        Observations of y; None if they were not kept.
    span : Span or None
        Where the observations of y are, beyond which moments are clipped.
    """

    transforms: tuple[TargetTransform, ...]
    log_jacobian: float
    span: Span | None = None

    @classmethod
    def of(
        cls, inner: GaussianProcess, transforms: Sequence[TargetTransform], rows: Data
    ) -> TransformedGP:
        """A process of transformed targets of data, `transformed_data(rows, transforms)`."""
        slopes = log_jacobian(rows, transforms)
        span = Span.of(rows.targets)
        return cls(inner, rows, tuple(transforms), slopes, span)

    def inner_targets(self, points: Points, targets: FloatArray) -> FloatArray:
        """Values z of observations of y."""
        return forward(targets, self.transforms)

    @property
    def to_targets(self) -> ToTargets:
        """The maps from z to y."""
        return ToTargets(self.transforms, self.span)

    def marginals(self, points: Points) -> Any:
        """Laws of observations at points, each alone, of one process of z."""
        return MappedMarginals(self.inner.marginals(points), self.to_targets)

    def targets_left_out(self, groups: ArrayLike, rows: ArrayLike | None = None) -> LeftOut:
        """Laws of y given other groups: those of z, mapped."""
        return self.left_out(groups, rows).mapped(self.to_targets)

    def summary(self) -> dict[str, Any]:
        """Hyperparameters by name; variances (k,) are in units of z squared."""
        texts = [str(transform) for transform in self.transforms]
        return self.inner.summary() | {"target_transform": texts[0] if len(texts) == 1 else texts}

    @property
    def log_evidence(self) -> float:
        return self.inner.log_evidence + self.log_jacobian

    @property
    def is_gaussian(self) -> bool:
        return False

    @property
    def remarks(self) -> tuple[str, ...]:
        texts = ", ".join(str(transform) for transform in self.transforms)
        return (*self.inner.remarks, f"The model's targets are transformed by {texts}.")

    @property
    def parts(self) -> tuple[tuple[GaussianProcess, ...], FloatArray]:
        """Gaussian processes of z whose laws are mixed, and their weights of sum one."""
        parts = mixed_parts(self.inner)
        return tuple(process for process, _ in parts), np.array([weight for _, weight in parts])

    def law(self, points: Points, want: Want, *, latent: bool = False) -> PredictiveLaw:
        """Moments of y at points; laws of several parts are mixed as in a `MixtureGP`.

        Where a part has no sane moments, they are those of targets that are clipped, and a warning
        says so (see `back_transformed`).
        """
        members, weights = self.parts
        inner_want: Want = "covariance" if want == "covariance" else "variance"
        laws = [m.law(points, inner_want, latent=latent) for m in members]
        mean, spread = self._mixed(laws, weights, want)
        mean = finite_answer(mean, "predictive mean")
        if spread is None:
            return PredictiveLaw(mean, None)
        return PredictiveLaw(mean, finite_answer(spread, f"predictive {want}"))

    def _mixed(
        self, laws: Sequence[PredictiveLaw], weights: FloatArray, want: Want
    ) -> PredictiveLaw:
        """Moments of y of a mixture of laws of z with weights of sum one."""
        parts = [back_transformed(law, self.transforms, self.span) for law in laws]
        means = np.array([part.law.mean for part in parts])
        spreads = np.array([part.law.spread for part in parts])
        self._warn_if_clipped(weights @ np.array([part.clipped for part in parts]))
        if len(laws) == 1:
            return PredictiveLaw(means[0], None if want == "mean" else spreads[0])
        variances = spreads if want != "covariance" else np.einsum("qiik->qik", spreads)
        center = precision_weighted_mean(means, variances, weights)
        if want == "mean":
            return PredictiveLaw(center, None)
        gaps = means - center
        products = gaps[:, :, None] * gaps[:, None] if want == "covariance" else gaps**2
        return PredictiveLaw(center, np.tensordot(weights, spreads + products, axes=1))

    def left_out(self, groups: ArrayLike, rows: ArrayLike | None = None) -> LeftOut:
        """Laws of observations z given other groups; the transforms do not change."""
        len(self.data)  # refuses where there are none
        return self.inner.left_out(groups, rows)

    def parts_of_law(self, points: Points) -> LeftOut | None:
        """Laws of y at points (p, ...): the parts of the law of z, mapped."""
        found = self.inner.parts_of_law(points)
        return None if found is None else found.mapped(self.to_targets)

    def left_out_law(self, groups: ArrayLike, rows: ArrayLike | None = None) -> PredictiveLaw:
        """Means and variances (m, k) of y given other groups, by Hermite expansions of parts."""
        found = self.left_out(groups, rows)
        laws = [PredictiveLaw(*part) for part in zip(found.means, found.variances, strict=True)]
        return self._mixed(laws, found.shares, "variance")

    def _warn_if_clipped(self, shares: FloatArray) -> None:
        """Warn of points at which parts of the law of these shares (p,) have no sane moments."""
        rows = np.flatnonzero(shares > LEAST_CLIPPED)
        if rows.size:
            named = ", ".join(str(row + 1) for row in rows[:MOST_NAMED])
            more = ", ..." if rows.size > MOST_NAMED else ""
            warn(
                f"target_transform: {rows.size} of {len(shares)} rows ({named}{more}) have laws so "
                "wide that mean or standard deviation leave the training targets by more than "
                f"{CLIP_RANGES:g} of their ranges; both are those of y clipped there. Quantiles "
                "are not: predict_quantiles(X, [0.5]) is the median",
                HeavyTailWarning,
            )

    def sample(
        self,
        points: Points,
        n_samples: int,
        rng: np.random.Generator,
        *,
        latent: bool = False,
    ) -> FloatArray:
        drawn = self.inner.sample(points, n_samples, rng, latent=latent)
        return self._back(drawn)

    def draw_functions(self, n_functions: int, rng: np.random.Generator) -> DrawnFunctions:
        """Functions `g^-1(f)`, medians of observations as random functions of their points."""
        return MappedFunctions(
            self.inner.draw_functions(n_functions, rng), lambda _, values: self._back(values)
        )

    def log_density(self, points: Points, targets: FloatArray) -> FloatArray:
        """Log predictive density (p,) of targets (p, k); minus infinity outside their domain."""
        inside = np.column_stack(
            [t.contains(targets[:, k]) for k, t in enumerate(self.transforms)]
        ).all(axis=1)
        found = np.full(len(targets), -np.inf)
        if inside.any():
            valid = targets[inside]
            slopes = sum(t.log_slope(valid[:, k]) for k, t in enumerate(self.transforms))
            values = forward(valid, self.transforms)
            found[inside] = self.inner.log_density(points[inside], values) + slopes
        return found

    def quantiles(self, points: Points, probabilities: FloatArray) -> FloatArray:
        """Quantiles (p, k, q) of y: the quantiles of z, mapped back."""
        return self._back(self.inner.quantiles(points, probabilities))

    def cdf(self, points: Points, targets: FloatArray) -> FloatArray:
        """Chances (p, k) that y is at most the targets: of z at `g(y)`, since g increases."""
        return self.inner.cdf(points, self.to_targets.inside(targets))

    def _back(self, values: FloatArray) -> FloatArray:
        """Targets (p, k, q) of values (p, k, q) of z."""
        mapped = [mapped_back(t, values[:, k]) for k, t in enumerate(self.transforms)]
        return np.stack(mapped, axis=1)

    def prior(self, points: Points) -> FloatArray:
        """Prior covariance (p, p, k) of `g^-1(f)`, with f about the offset of the units of z."""
        covariance = self.inner.prior(points)
        mean = np.broadcast_to(self.units.offset, covariance.shape[1:])
        found = back_transformed(PredictiveLaw(mean, covariance), self.transforms).law
        assert found.spread is not None
        return found.spread

    def exact_problem(self) -> Problem:
        """Prior and data of the exact process of z."""
        return self.inner.exact_problem()

    def conditioned(self, data: Data, *, renormalize: bool = False) -> TransformedGP:
        """Return the same prior given other data, whose targets the same transforms map."""
        given = super().conditioned(data, renormalize=renormalize)
        return TransformedGP.of(given.inner, self.transforms, data)

    def updated(self, data: Data) -> TransformedGP:
        """Return the process given further data too, whose targets the same transforms map."""
        return replace(
            super().updated(data),
            log_jacobian=self.log_jacobian + log_jacobian(data, self.transforms),
            span=None if self.span is None else self.span.joined(Span.of(data.targets)),
        )

    def read_back(self) -> TransformedGP:
        """The process of a file.

        Raises
        ------
        ModelFileError
            Transforms or the span of targets are not those of as many outputs.
        InvalidInputError
            A target is outside of the domain of its transform.
        """
        k = self.inner.units.n_outputs
        if len(self.transforms) != k or any(transform.is_free for transform in self.transforms):
            raise ModelFileError(f"transforms: expected {k} fitted ones, got others")
        if self.rows is not None:
            forward(self.rows.targets, self.transforms)
        if self.span is not None:
            check_shapes(self.span, low=(k,), high=(k,))
            if (self.span.low > self.span.high).any():
                raise ModelFileError("span.low: expected at most span.high, got more")
        return self


def untransformed(process: GaussianProcess) -> GaussianProcess:
    """The process of z of a process of transformed targets; any other process itself."""
    return process.inner if isinstance(process, TransformedGP) else process


def has_normal_noise(process: GaussianProcess) -> bool:
    """Whether y is f with normal noise of one variance, for a process or all of a mixture's."""
    return all(part.is_gaussian for part, _ in mixed_parts(process))


def mixed_parts(process: GaussianProcess) -> list[tuple[GaussianProcess, float]]:
    """The parts of the members of a mixture, each with its weight; another process and one."""
    members = getattr(process, "members", None)
    if members is None:
        return [(process, 1.0)]
    weights = process.weights  # type: ignore[attr-defined]
    return [
        (part, float(weight) * share)
        for member, weight in zip(members, weights, strict=True)
        for part, share in mixed_parts(member)
    ]


def forward(targets: FloatArray, transforms: Sequence[TargetTransform]) -> FloatArray:
    """Values z (n, k) of targets (n, k).

    Raises
    ------
    InvalidInputError
        The number of outputs differs from that of the transforms, or a target has no value.
    """
    if targets.shape[1] != len(transforms):
        raise wrong("y", f"{len(transforms)} outputs", targets.shape[1])
    columns = [t.forward(t.check(targets[:, k])) for k, t in enumerate(transforms)]
    return np.column_stack(columns)


def transformed_data(data: Data, transforms: Sequence[TargetTransform]) -> Data:
    """The same observations with values z for targets y, in the same batches."""
    return data.mapped(lambda _, targets: forward(targets, transforms))


def log_jacobian(data: Data, transforms: Sequence[TargetTransform]) -> float:
    """Sum of `log g'(y)` over observations and outputs, each as often as it counts."""
    counts = np.ones(len(data)) if data.counts is None else data.counts
    columns = (t.log_slope(data.targets[:, k]) for k, t in enumerate(transforms))
    return float(sum(counts @ column for column in columns))
