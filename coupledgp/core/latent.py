"""A Gaussian process of a function whose observations follow any likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.left_out import Groups, LeftOut, own_noise
from coupledgp.core.normalized_process import NormalizedProcess
from coupledgp.core.process import (
    Data,
    GaussianProcess,
    Marginals,
    Points,
    PredictiveLaw,
    Problem,
    Want,
    finite_answer,
)
from coupledgp.core.sites import Observed, find_sites
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.ground.codec import check_shapes, stored
from coupledgp.ground.tensors import torch
from coupledgp.likelihoods.base import Likelihood
from coupledgp.random import FloatArray, IntArray


@stored
@dataclass(frozen=True, eq=False, repr=False)
class LatentGP(GaussianProcess):
    """`y_i ~ p(y | f_k(x_i))`, each `f_k` a Gaussian process, by sites.

    The posterior of each function is that of a process given its sites: pseudo-observations with
    noise variances of their own. Laws of f are normal; laws of y are integrals over f.

    Attributes
    ----------
    functions : tuple of NormalizedProcess
        The process of each of the k outputs given its sites, in units of f.
    likelihood : Likelihood
        Law of an observation given f.
    rows : Data
        Observations y (n, k), with their counts and exposures.
    evidence : float
        Variational bound of the log evidence of y, nats.
    exposure : FloatArray or None
        Exposures (p,) of the points at which laws of observations are asked for; None: ones.
    """

    functions: tuple[NormalizedProcess, ...]
    likelihood: Likelihood
    rows: Data
    evidence: float
    exposure: FloatArray | None = field(default=None, metadata={"stored": False})

    @classmethod
    def given(
        cls,
        functions: Sequence[NormalizedProcess],
        likelihood: Likelihood,
        data: Data,
    ) -> LatentGP:
        """Condition processes on observations that follow a likelihood.

        Parameters
        ----------
        functions
            A process of one output for each of the k outputs, or one for all outputs. Its prior,
            hyperparameters and the offset of its units are taken for f. Its own data are not used,
            and the scale of its units is one.
        likelihood
            Law of an observation given f.
        data
            Points and observations y (n, k). Weights of rows are counts and exposures.

        Raises
        ------
        InvalidInputError
            Observations are none of the likelihood's, rows have noise of their own, or the scale is
            another one.
        NumericalError
            The sites do not converge.
        """
        k = data.targets.shape[1]
        own = [f.for_sites() for f in (functions if len(functions) == k else [functions[0]] * k)]
        if any(function.units.scale.tolist() != [1.0] for function in own):
            raise InvalidInputError(
                "functions: expected processes of one output whose units have the scale one, "
                "since a likelihood takes f as it is"
            )
        conditioned, evidence = [], 0.0
        offsets = np.concatenate([function.units.offset for function in own])
        every = Observed.of(likelihood, data.targets, offsets, data.weights)
        for function, observed in zip(own, every, strict=True):
            sites = find_sites(function.site_prior(data.points), observed)
            relative = 1.0 / (function.noise.variance * sites.precision)
            targets = sites.targets[:, None] + function.units.offset
            pseudo = Data.of(data.points, targets, relative)
            found = function.conditioned(pseudo)
            assert isinstance(found, NormalizedProcess)
            conditioned.append(found)
            evidence += sites.evidence
        return cls(tuple(conditioned), likelihood, data, evidence)

    def _again(self, functions: Sequence[GaussianProcess], data: Data) -> LatentGP:
        """Other functions or data with the likelihood of this process."""
        own = [function for function in functions if isinstance(function, NormalizedProcess)]
        return LatentGP.given(own, self.likelihood, data)

    @property
    def units(self) -> Units:  # type: ignore[override]
        """Units of y: offset zero and scale one, since a likelihood states laws of y itself."""
        k = len(self.functions)
        return Units(np.zeros(k), np.ones(k))

    @property
    def noise(self) -> Likelihood:
        return self.likelihood

    @property
    def hyperparameters(self) -> Any:
        """Hyperparameters of the first function."""
        return self.functions[0].hyperparameters

    def summary(self) -> dict[str, Any]:
        """Hyperparameters of each function, listed if there are several, and the likelihood's."""
        own = [function.summary() for function in self.functions]
        names = [name for name in own[0] if name != "noise"]
        one = len(own) == 1
        found = {name: own[0][name] if one else [each[name] for each in own] for name in names}
        return found | {"likelihood": type(self.likelihood).__name__, **self.likelihood.parameters}

    @property
    def log_evidence(self) -> float:
        """Variational bound of the log evidence of y, nats."""
        return self.evidence

    @property
    def is_gaussian(self) -> bool:
        return False

    @property
    def remarks(self) -> tuple[str, ...]:
        name = type(self.likelihood).__name__
        return (f"Observations follow a {name} law; the function's law is the variational one.",)

    def row_keys(self, points: Points) -> Points:
        return self.functions[0].row_keys(points)

    def law(self, points: Points, want: Want, *, latent: bool = False) -> PredictiveLaw:
        needed: Want = "covariance" if want == "covariance" else "variance"
        mean, spread = self._latent_moments(points, needed)
        if not latent:
            shift = self._shift(self.exposure)
            mean, spread = self.likelihood.marginal_moments(mean + shift, spread)
        mean = finite_answer(mean, "predictive mean")
        return PredictiveLaw(
            mean, None if want == "mean" else finite_answer(spread, f"predictive {want}")
        )

    def _latent_moments(self, points: Points, want: Want) -> tuple[FloatArray, FloatArray]:
        """Mean (p, k), and variance (p, k) or covariance (p, p, k), of f."""
        laws = [f.law(points, want, latent=True) for f in self.functions]
        spreads = [law.spread for law in laws if law.spread is not None]
        return np.concatenate([law.mean for law in laws], axis=1), np.concatenate(spreads, axis=-1)

    def marginals(
        self,
        points: Points,
        *,
        exposure: FloatArray | None = None,
    ) -> Marginals:
        """Laws of observations at points, each alone, for exposures (p,); None: the process's."""
        exposure = self.exposure if exposure is None else exposure
        return self._marginals(*self._latent_moments(points, "variance"), exposure)

    def at_exposure(self, exposure: FloatArray) -> LatentGP:
        """The same process, whose laws of observations are for exposures (p,) of p points.

        Raises
        ------
        InvalidInputError
            The likelihood takes no exposure, or one of them is no positive number.
        """
        self.likelihood.log_exposure(exposure)
        return replace(self, exposure=exposure)

    def _shift(self, exposure: FloatArray | None) -> FloatArray:
        """Logarithms (p, 1) of exposures, or (1, 1) zero, by which functions are higher."""
        if exposure is None:
            return np.zeros((1, 1))
        return self.likelihood.log_exposure(exposure)[:, None]

    def _marginals(
        self, mean: FloatArray, variance: FloatArray, exposure: FloatArray | None
    ) -> Marginals:
        return Marginals(self.likelihood, mean + self._shift(exposure), variance, self.units)

    def sample(
        self,
        points: Points,
        n_samples: int,
        rng: np.random.Generator,
        *,
        latent: bool = False,
    ) -> FloatArray:
        """Draws (p, k, n_samples) of observations or of f, with one generator for each output."""
        parts = zip(self.functions, rng.spawn(len(self.functions)), strict=True)
        drawn = np.concatenate(
            [f.sample(points, n_samples, own, latent=True) for f, own in parts],
            axis=1,
        )
        return (
            drawn
            if latent
            else self.likelihood.draw(drawn + self._shift(self.exposure)[..., None], rng)
        )

    def left_out(self, groups: ArrayLike, rows: ArrayLike | None = None) -> LeftOut:
        """Refuse, since there are no units in which laws of these observations are normal.

        Raises
        ------
        InvalidInputError
            Always; `left_out_law` gives their moments.
        """
        raise InvalidInputError(
            f"model: expected normal laws, got {type(self.likelihood).__name__} observations; "
            "left_out_law gives the moments of observations that are left out"
        )

    def left_out_law(self, groups: ArrayLike, rows: ArrayLike | None = None) -> PredictiveLaw:
        """Means and variances (m, k) of observations given other groups, the sites of these kept.

        Their pseudo-observations are left out; the sites of others stay, although they would be
        others without the group. Laws are at the exposures of the observations.
        """
        found = self.left_out_marginals(groups, rows)
        return PredictiveLaw(*found.likelihood.marginal_moments(found.mean, found.variance))

    def left_out_marginals(self, groups: ArrayLike, rows: ArrayLike | None = None) -> Marginals:
        """Laws of observations given other groups, each alone; see `left_out_law`."""
        wanted, moments = Groups.of(groups, len(self.rows), rows).rows, []
        for function in self.functions:
            places = _places(function.data.points, self.rows.points)
            own = np.empty_like(np.asarray(groups))
            own[places] = groups
            law = function.left_out_law(own, places[wanted])
            noise, _ = own_noise(function.noise.variance, function.data.weights)
            assert law.spread is not None
            entered = np.broadcast_to(noise, len(places))[places[wanted], None]
            moments.append((law.mean, np.maximum(law.spread - entered, 0.0)))
        mean, variance = (np.concatenate(part, axis=1) for part in zip(*moments, strict=True))
        weights = self.rows.weights
        given = None if weights is None else weights.exposure
        return self._marginals(mean, variance, None if given is None else given[wanted])

    def prior(self, points: Points) -> FloatArray:
        return np.concatenate([function.prior(points) for function in self.functions], axis=-1)

    def exact(self) -> LatentGP:
        """The exact processes of the functions, with sites of their own."""
        exact = [function.exact() for function in self.functions]
        if all(own is function for own, function in zip(exact, self.functions, strict=True)):
            return self
        return self._again(exact, self.rows)

    def exact_problem(self) -> Problem:
        """Refuse, since sites are found with factors of the exact covariance."""
        raise InvalidInputError(
            "method: a model with a likelihood has no single system to solve; use method='dense'"
        )

    def conditioned(self, data: Data, *, renormalize: bool = False) -> LatentGP:
        """Return the functions given other data; the likelihood fixes the units."""
        return self._again(self.functions, data)

    def redrawn(self, coupling: Any, size: int, seed: int) -> LatentGP:
        """Return the process with another draw of features, one for all functions."""
        drawn = [function.redrawn(coupling, size, seed) for function in self.functions]
        return self._again(drawn, self.rows)

    def on(self, device: torch.device) -> LatentGP:
        return replace(self, functions=tuple(f.on(device) for f in self.functions))

    def read_back(self) -> LatentGP:
        """The process of a file, of functions of one output each.

        Raises
        ------
        ModelFileError
            There is no function, or one has another size.
        InvalidInputError
            Observations are none of the likelihood's.
        """
        k = len(self.functions)
        if not k or any(function.units.n_outputs != 1 for function in self.functions):
            raise ModelFileError("functions: expected processes of one output, got others")
        check_shapes(self.rows, targets=(len(self.functions[0].data), k))
        self.likelihood.check_targets(self.rows.targets)
        return self


def _places(own: Points, given: Points) -> IntArray:
    """Places (n,) of given points among those of a process, which may order them."""
    if np.array_equal(own, given):
        return np.arange(len(given))
    places = np.empty(len(given), dtype=np.int64)
    places[_order(given)] = _order(own)
    return places


def _order(points: Points) -> IntArray:
    return np.lexsort(points.reshape(len(points), -1).T)
