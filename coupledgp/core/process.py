"""The protocol of a fitted Gaussian process.

Choosing a coupling, saving, comparing and reporting use the methods of `GaussianProcess` only, so a
new kind of process is one class. A process is frozen: it does not change after it is made, and
`updated`, `conditioned` and `redrawn` return new ones.

Points are in the form that a process computes with: rows (p, d) of float64 for tables, node
numbers (p,) for graphs. Estimators turn a user's tables and labels into points.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coupledgp.core.drawn_functions import (
    DrawnFunctions,
    Gradient,
    JointExtension,
    law_differences,
    mean_differences,
)
from coupledgp.core.left_out import (
    MOST_CONDITIONED,
    Groups,
    LeftOut,
    own_noise,
)
from coupledgp.core.problem import RowWeights
from coupledgp.core.units import Units
from coupledgp.errors import CoupledGPError, InvalidInputError, ModelFileError, NumericalError
from coupledgp.ground.codec import stored
from coupledgp.ground.tensors import torch
from coupledgp.ground.validation import wrong
from coupledgp.likelihoods.base import Likelihood
from coupledgp.likelihoods.gaussian import Gaussian
from coupledgp.linalg.system import LinearSystem, SystemOptions
from coupledgp.random import FloatArray, IntArray

Points: TypeAlias = NDArray[Any]
Want: TypeAlias = Literal["mean", "variance", "covariance"]


class PredictiveLaw(NamedTuple):
    """Predictive law at p points of k outputs.

    Attributes
    ----------
    mean : FloatArray (p, k)
        Mean in units of y.
    spread : FloatArray (p, k) or (p, p, k), or None
        Variance or covariance in units of y squared; None if only the mean was asked for.
    """

    mean: FloatArray
    spread: FloatArray | None


class Marginals(NamedTuple):
    """Laws of observations at p points, each alone, of k outputs.

    Attributes
    ----------
    likelihood : Likelihood
        Law of observations given f, normalised units.
    mean, variance : FloatArray (p, k)
        Moments of the normal laws of f, normalised units.
    units : Units
        Units of y.
    """

    likelihood: Likelihood
    mean: FloatArray
    variance: FloatArray
    units: Units

    def log_density(self, targets: FloatArray) -> FloatArray:
        """Log density (p,) of targets (p, k) in units of y, outputs jointly."""
        values = self.units.normalized(targets)
        densities = self.likelihood.marginal_log_density(values, self.mean, self.variance)
        return np.asarray((densities - np.log(self.units.scale)).sum(axis=1))

    def cdf(self, values: FloatArray) -> FloatArray:
        """Chances (p, k, q) of observations of at most values (p, k, q) in units of y."""
        offset, scale = self.units.offset[:, None], self.units.scale[:, None]
        return self.likelihood.marginal_cdf((values - offset) / scale, self.mean, self.variance)

    def pit(self, targets: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Probability integral transforms (p, k) of targets (p, k), see `Likelihood.pit`."""
        values = self.units.normalized(targets)
        return self.likelihood.pit(values, self.mean, self.variance, rng)

    def quantiles(self, probabilities: FloatArray) -> FloatArray:
        """Quantiles (p, k, q) in units of y at probabilities (q,)."""
        found = self.likelihood.marginal_quantiles(probabilities, self.mean, self.variance)
        return self.units.samples(found)


@stored
class Batch(NamedTuple):
    """Observations that came together.

    Attributes
    ----------
    points : Points (n, ...)
    targets : FloatArray (n, k)
        In units of y.
    weights : RowWeights or None
        Relative noise and counts of the observations; None where they are all alike.
    """

    points: Points
    targets: FloatArray
    weights: RowWeights | None = None


@stored
@dataclass(frozen=True, eq=False)
class Data:
    """Observations in the batches in which they came.

    Attributes
    ----------
    batches : tuple of Batch
        Points, targets and weights of each batch.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.testing import Data
    >>> first = Data.of(np.zeros((3, 2)), np.ones((3, 1)))  # points (n, d) and targets (n, k)
    >>> len(first.followed_by(Data.of(np.ones((2, 2)), np.zeros((2, 1)))))
    5
    """

    batches: tuple[Batch, ...]

    def read_back(self) -> Data:
        """The observations of a file, at least one.

        Raises
        ------
        ModelFileError
            Batches are of different columns, or rows have other weights than one each.
        """
        sizes = {(b.points.shape[1:], b.targets.shape[1:], b.targets.ndim) for b in self.batches}
        known = all(len(b.points) == len(b.targets) == len(b.weights or b.targets) > 0
                    for b in self.batches)  # fmt: skip
        if not known or len(sizes) != 1 or next(iter(sizes))[1:] != ((self.targets.shape[1],), 2):
            raise ModelFileError("rows: expected points, targets and weights of rows, got others")
        return self

    @classmethod
    def of(
        cls,
        points: Points,
        targets: FloatArray,
        relative_noise: FloatArray | None = None,
        *,
        weights: RowWeights | None = None,
    ) -> Data:
        """One batch of points (n, ...) and targets (n, k), with relative noise (n,) or weights."""
        if relative_noise is not None:
            weights = RowWeights(relative_noise, np.ones(len(relative_noise)))
        return cls((Batch(points, targets, weights),))

    @cached_property
    def points(self) -> Points:
        """Points (n, ...) of all batches; not copied if there is one batch."""
        parts = [batch.points for batch in self.batches]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @cached_property
    def targets(self) -> FloatArray:
        """Targets (n, k) of all batches in units of y."""
        parts = [batch.targets for batch in self.batches]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @cached_property
    def weights(self) -> RowWeights | None:
        """Relative noise and counts of all observations; None where they are all alike."""
        if all(batch.weights is None for batch in self.batches):
            return None
        parts = [batch.weights or RowWeights.ones(len(batch.targets)) for batch in self.batches]
        return RowWeights.joined(parts)

    @property
    def relative_noise(self) -> FloatArray | None:
        """Noise variances r (n,) in units of a new observation's; None where all are one.

        An observation that counts c times has the c-th part of its own noise variance: given the
        hyperparameters, the posterior of f depends on r alone.
        """
        return None if self.weights is None else self.weights.relative_noise

    @property
    def counts(self) -> FloatArray | None:
        """How often each observation counts (n,); None where all count once."""
        return None if self.weights is None else self.weights.counts

    def __len__(self) -> int:
        """Number of observations n."""
        return sum(len(batch.targets) for batch in self.batches)

    def followed_by(self, other: Data) -> Data:
        """These observations followed by others, in batches of their own."""
        return Data(self.batches + other.batches)

    def take(self, rows: NDArray[np.integer[Any]]) -> Data:
        """The observations at places (m,) in the order of all batches, as one batch."""
        weights = None if self.weights is None else self.weights.take(rows)
        return Data.of(self.points[rows], self.targets[rows], weights=weights)

    def between(self, start: int, stop: int) -> Data:
        """The observations from one place up to another, as one batch that is not copied."""
        rows = slice(start, stop)
        weights = None if self.weights is None else self.weights.take(rows)
        return Data.of(self.points[rows], self.targets[rows], weights=weights)

    def mapped(self, targets: Callable[[Points, FloatArray], FloatArray]) -> Data:
        """The same rows with a function of their points and targets for targets (n, k)."""
        return Data(
            tuple(
                Batch(part.points, targets(part.points, part.targets), part.weights)
                for part in self.batches
            )
        )

    def as_one_batch(self) -> Data:
        """The same observations in one batch."""
        return Data.of(self.points, self.targets, weights=self.weights)


class Problem(Protocol):
    """Prior and data of a Gaussian process, stated so that its law can be solved for.

    Attributes
    ----------
    targets : FloatArray (n, k)
        Normalised targets.
    offset, scale : FloatArray (k,)
        Units of the targets, `y = offset + scale * target`.
    """

    @property
    def targets(self) -> FloatArray:
        """Normalised targets (n, k)."""

    @property
    def offset(self) -> FloatArray:
        """Offset of the units of y, (k,)."""

    @property
    def scale(self) -> FloatArray:
        """Scale of the units of y, (k,)."""

    def system(self, options: SystemOptions) -> LinearSystem:
        """Return the system of equations of the data; it takes points of the process."""


class GaussianProcess(ABC):
    """A Gaussian process, or a mixture of some, given data.

    Attributes
    ----------
    units : Units
        Units of y.
    points_are : str
        What points are, in the plural.
    """

    units: Units
    points_are: ClassVar[str] = "rows"

    @staticmethod
    def sharing(processes: Sequence[GaussianProcess]) -> Sequence[GaussianProcess]:
        """Processes of the same points, with what they can share while all of them answer."""
        return processes

    @property
    def data(self) -> Data:
        """The observations, here the attribute `rows`, which is None where they were not kept.

        Raises
        ------
        CoupledGPError
            The observations were not kept, as in a model file without its rows.
        """
        own: Any = self
        return training_data(own.rows)

    @property
    @abstractmethod
    def noise(self) -> Likelihood:
        """Law of observations given f, in normalised units; for a mixture its first member's.

        A `Gaussian` but under a likelihood.
        """

    @property
    @abstractmethod
    def hyperparameters(self) -> Any:
        """Fitted hyperparameters in normalised units; for a mixture its first member's."""

    @abstractmethod
    def summary(self) -> dict[str, Any]:
        """Hyperparameters by name; variances (k,) are in units of y squared."""

    @property
    @abstractmethod
    def log_evidence(self) -> float:
        """Log evidence of y in its own units, nats."""

    @property
    def first(self) -> GaussianProcess:
        """The process itself; the first member of a mixture, or of the first of several parts."""
        return self

    @property
    def is_gaussian(self) -> bool:
        """Whether the law at a point is Gaussian; a mixture's is not."""
        return True

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences that a report of a comparison with this process prints beside the figures."""
        return ()

    def __repr__(self) -> str:
        # The lengthscale of a part that is not there is infinite.
        there = {
            name: value
            for name, value in self.summary().items()
            if not (isinstance(value, np.ndarray) and np.isinf(value).all())
        }
        named = ", ".join(f"{name}={text(value)}" for name, value in there.items())
        return f"{type(self).__name__}({named})"

    def row_keys(self, points: Points) -> Points:
        """Rows (p, m) of numbers that are equal for equal points, and only for these."""
        return points.reshape(len(points), -1)

    @abstractmethod
    def law(self, points: Points, want: Want, *, latent: bool = False) -> PredictiveLaw:
        """Predictive law of observations at points (p, ...), or of f if `latent`.

        The variance is the diagonal of the covariance, to the bit where both are exact.
        """

    @abstractmethod
    def sample(
        self,
        points: Points,
        n_samples: int,
        rng: np.random.Generator,
        *,
        latent: bool = False,
    ) -> FloatArray:
        """Draws (p, k, n_samples) of observations at points, or of f if `latent`, units of y."""

    @property
    def is_rough(self) -> bool:
        """Whether paths of f are known to have no derivatives, as under Matern-1/2."""
        return False

    def gradient(self, points: Points, want_variance: bool) -> Gradient:
        """Gradient of the mean of f at rows (p, D) of a table, and variances of the derivatives.

        Here by central differences; `coupledgp.core.drawn_functions` states their error.

        Raises
        ------
        InvalidInputError
            Variances are asked for, and paths of f have no derivatives, or laws are not Gaussian.
        """
        lengthscale = self._difference_scale(points.shape[1])
        mean = mean_differences(
            lambda x: self.law(x, "mean", latent=True).mean, points, lengthscale
        )
        if not want_variance:
            return Gradient(mean, None)
        if self.is_rough:
            raise InvalidInputError(
                "return_std: expected False for a kernel such as matern-1/2 or laplace, whose "
                "functions have no derivatives, so that gradients of f have no law"
            )
        if not self.is_gaussian:
            raise InvalidInputError(
                f"return_std: expected False for a {type(self).__name__}, whose gradients have no "
                "Gaussian law; differences of sample_functions are draws of it"
            )

        def covariance(points: Points) -> FloatArray:
            spread = self.law(points, "covariance", latent=True).spread
            assert spread is not None
            return spread

        return Gradient(mean, law_differences(covariance, points, lengthscale))

    def _difference_scale(self, dim: int) -> FloatArray:
        """Lengthscales (D,) of steps: those of the kernel, or the ranges of the columns."""
        scale = np.broadcast_to(getattr(self.hyperparameters, "lengthscale", np.inf), dim)
        reach = np.ptp(self.data.points, axis=0)
        found: FloatArray = np.minimum(scale, np.where(reach > 0, reach, np.inf))
        return np.where(np.isfinite(found), found, 1.0)

    def draw_functions(self, n_functions: int, rng: np.random.Generator) -> DrawnFunctions:
        """Functions f drawn from the posterior, here by joint laws of all points they are asked at.

        Raises
        ------
        InvalidInputError
            The law of f at several points is not Gaussian, and no other way is known.
        """
        if not self.is_gaussian:
            raise InvalidInputError(
                f"model: expected one whose functions can be drawn, got a {type(self).__name__}, "
                "whose joint law is not Gaussian"
            )

        def joint(points: Points) -> tuple[FloatArray, FloatArray]:
            mean, spread = self.law(points, "covariance", latent=True)
            assert spread is not None
            return mean, spread

        return JointExtension(joint, self.row_keys, n_functions, rng)

    def marginals(self, points: Points) -> Marginals:
        """Laws of observations at points, each alone; here normal ones with the moments of `law`.

        A process with other laws says so, or overrides the three methods below.
        """
        mean, variance = self.law(points, "variance")
        assert variance is not None
        one = Units(np.zeros(mean.shape[1]), np.ones(mean.shape[1]))
        return Marginals(Gaussian(0.0), mean, variance, one)

    def log_density(self, points: Points, targets: FloatArray) -> FloatArray:
        """Log predictive density (p,), nats, of targets (p, k): points alone, outputs jointly."""
        return self.marginals(points).log_density(targets)

    def quantiles(self, points: Points, probabilities: FloatArray) -> FloatArray:
        """Quantiles (p, k, q) of an observation at each point alone, at probabilities (q,)."""
        return self.marginals(points).quantiles(probabilities)

    def cdf(self, points: Points, targets: FloatArray) -> FloatArray:
        """Chances (p, k) that an observation at each point alone is at most the targets (p, k)."""
        return self.marginals(points).cdf(targets[..., None])[..., 0]

    def left_out(self, groups: ArrayLike, rows: ArrayLike | None = None) -> LeftOut:
        """Laws of observations given other groups, in units in which they are Gaussian.

        Hyperparameters and units are kept: it is the law of `conditioned` on the observations of
        all other groups, at the point of each. An observation keeps its relative noise; one that
        counts more than once is left out whole, and the law is that of one such observation.

        Parameters
        ----------
        groups
            Number or name (n,) of the group of each observation.
        rows
            Numbers (m,) of the observations whose law is wanted; None: all.

        Returns
        -------
        LeftOut
            Means and variances (m, k), noise included; for a mixture, of each of its parts.

        Raises
        ------
        InvalidInputError
            The groups do not fit the data, all observations are in one, or there are more groups
            than are left out one by one where no inverse covariance is at hand.
        """
        wanted = Groups.of(groups, len(self.data), rows)
        return self._left_out_anew(wanted, wanted.members)

    def targets_left_out(self, groups: ArrayLike, rows: ArrayLike | None = None) -> LeftOut:
        """Laws of targets given other groups, in units of y; see `left_out`."""
        return self.left_out(groups, rows)

    def _left_out_anew(self, groups: Groups, members: list[IntArray]) -> LeftOut:
        """Laws of observations, each group by conditioning on all others; NaN for other rows."""
        data = self.data
        found = np.full((2, groups.n_rows, self.units.n_outputs), np.nan)
        noise, _ = own_noise(self.noise.variance, data.weights)
        spread = np.broadcast_to(noise, groups.n_rows)
        for group, rest in self.without(members):
            mean, variance = rest.law(data.points[group], "variance", latent=True)
            assert variance is not None
            found[:, group] = mean, variance + self.units.spread(spread[group])
        return LeftOut.single(*found[:, groups.rows])

    def without(self, members: list[IntArray]) -> Iterator[tuple[IntArray, GaussianProcess]]:
        """Groups of observations by their numbers, each with the process given all others.

        Raises
        ------
        InvalidInputError
            There are more than `MOST_CONDITIONED` groups.
        """
        if len(members) > MOST_CONDITIONED:
            raise InvalidInputError(
                f"groups: expected at most {MOST_CONDITIONED} groups, since {type(self).__name__} "
                f"is conditioned anew on the rest for each, got {len(members)}; ask for fewer "
                "groups, or for some rows only (max_rows of a report)"
            )
        data = self.data
        for group in members:
            others = np.setdiff1d(np.arange(len(data)), group)
            yield group, self.conditioned(data.take(others))

    def left_out_law(self, groups: ArrayLike, rows: ArrayLike | None = None) -> PredictiveLaw:
        """Means and variances (m, k) of observations given other groups, in units of y.

        Arguments and errors are those of `left_out`; hyperparameters and units do not change.
        """
        law = self.left_out(groups, rows)
        return PredictiveLaw(law.mean, law.variance)

    def left_out_correlation(self, groups: ArrayLike, rows: ArrayLike) -> FloatArray | None:
        """Correlations (m, m) of the residuals of observations (m,), each given other groups.

        Residuals of observations that are left out one after the other are not independent, even
        under a true law: residuals of near observations have a negative correlation. None where the
        joint law is not at hand, or takes too much memory.
        """
        return None

    def parts_of_law(self, points: Points) -> LeftOut | None:
        """Laws of single observations at points (p, ...), each a mixture of Gaussians.

        None where they are of another kind, as under a likelihood that is not Gaussian.
        """
        if not self.is_gaussian:
            return None
        mean, variance = self.law(points, "variance")
        assert variance is not None
        return LeftOut.single(mean, variance)

    @abstractmethod
    def prior(self, points: Points) -> FloatArray:
        """Prior covariance (p, p, k) of f at points, units of y squared."""

    @abstractmethod
    def exact(self) -> GaussianProcess:
        """Return the exact process with the same hyperparameters, given the same data."""

    def exact_by(self, solver: SystemOptions) -> GaussianProcess:
        """Return the exact process, whose equations are solved by iteration: O(n) memory.

        Raises
        ------
        InvalidInputError
            The exact process of this one has a dense solver only, or rows are too many.
        """
        raise InvalidInputError(
            f"solver: expected 'dense' for a {type(self).__name__}, whose exact counterpart is "
            "solved for in no other way, got 'iterative'"
        )

    @abstractmethod
    def exact_problem(self) -> Problem:
        """Prior and data of the exact process, which may be too large to be computed."""

    def own_problem(self) -> Problem | None:
        """Prior and data of this process if its law is computed by solves; otherwise None."""
        return None

    @abstractmethod
    def conditioned(self, data: Data, *, renormalize: bool = False) -> GaussianProcess:
        """Return the same prior given other data.

        Hyperparameters keep their values in units of y; with `renormalize` they keep their values
        in normalised units, and the units are those of the new data.
        """

    def updated(self, data: Data) -> GaussianProcess:
        """Return the process given its own data and further data, here by all data anew.

        Hyperparameters keep their values in normalised units, which follow the data.
        """
        return self.conditioned(self.data.followed_by(data).as_one_batch(), renormalize=True)

    def on(self, device: torch.device) -> Self:
        """The process with its tensors on a device; itself where all of them stay on the CPU."""
        return self

    def redrawn(self, coupling: Any, size: int, seed: int) -> GaussianProcess:
        """Return the process with another draw of its frequencies or walkers, given its data.

        Raises
        ------
        InvalidInputError
            The process draws nothing.
        """
        raise wrong("model", "one with walkers or frequencies to draw again", type(self))

    def without_data(self) -> Self:
        """Return the process without its data if its predictions need none; else itself."""
        return self

    def with_data(self, rows: Data) -> Self:
        """Return the process with the data that it was given, where it did without them."""
        own: Any = self
        found: Self = replace(own, rows=rows)
        return found


def finite_answer(values: FloatArray, name: str) -> FloatArray:
    """Return the numbers (p, ...) of an answer if all of them are finite.

    Raises
    ------
    NumericalError
        NaN or infinity is among them.
    """
    if not np.isfinite(values).all():
        bad = int((~np.isfinite(values)).reshape(len(values), -1).any(axis=1).sum())
        raise NumericalError(
            f"{name}: no finite number at {bad} of {len(values)} points: they are too far from the "
            "data in units of the lengthscales, or inputs, targets, weights and hyperparameters "
            "(such as a noise near zero) differ too much in magnitude; check their units"
        )
    return values


def text(value: Any) -> str:
    """A short text of a hyperparameter, to print."""
    if isinstance(value, np.ndarray):
        return np.array2string(value, precision=4, threshold=16, separator=", ")
    return repr(value)


def training_data(data: Data | None) -> Data:
    """Return the data; raise CoupledGPError if they are None, as for a file without rows."""
    if data is None:
        raise CoupledGPError(
            "this model has no training rows, which the exact twin, left-out laws and X_train_ "
            "need: fit it with options={'keep_rows': True}, and save it with include_data=True"
        )
    return data
