"""Data, transforms, hyperparameters and weights of a `SparseSpectrumGP`, without its laws."""

from __future__ import annotations

from copy import copy, deepcopy
from typing import Any, Self

import gpytorch
import numpy as np
from botorch.models.model import Model
from botorch.models.transforms.outcome import Standardize
from botorch.utils.types import DEFAULT
from numpy.typing import ArrayLike

from coupledgp.couplings import CouplingLike
from coupledgp.errors import InvalidInputError
from coupledgp.features.directions import check_directions
from coupledgp.features.hybrid.registry import refuse_as_covariance
from coupledgp.features.registry import FeaturesLike, make_features
from coupledgp.gp.columns import HYPERPARAMETERS, column_means, column_spread, laplace_lengthscale
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.ground.validation import (
    check_choice,
    check_lengthscale,
    check_magnitude,
    check_positive,
)
from coupledgp.inference.weights.evidence import FeatureEvidence
from coupledgp.inference.weights.posterior import WeightPosterior
from coupledgp.inference.weights.statistics import DataStatistics
from coupledgp.inference.weights.stream import FeatureStream
from coupledgp.random import FloatArray, Seed, as_rng
from coupledgp.search.optimize import maximise_evidence
from coupledgp.search.space import SearchSpace
from coupledgp.spectra import SpectrumLike


class WeightSpaceModel(Model):
    """Training data, hyperparameters and the posterior of the weights of a `SparseSpectrumGP`."""

    lengthscale: Tensor
    outputscale: Tensor
    noise: Tensor
    center: Tensor
    _num_outputs: int
    # Fantasies: transformed inputs (..., q, d) and outcomes (..., q, k), kept beside the data.
    _further: tuple[Tensor, Tensor] | None = None

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        kernel: SpectrumLike = "gaussian",
        features: FeaturesLike = "fourier",
        n_frequencies: int = 256,
        coupling: CouplingLike | None = None,
        *,
        ard: bool = True,
        lengthscale: ArrayLike | None = None,
        outputscale: float = 1.0,
        noise: float = 0.1,
        input_transform: Any = None,
        outcome_transform: Any = DEFAULT,
        generator: Seed = None,
    ) -> None:
        super().__init__()
        check_training_data(train_X, train_Y)
        refuse_as_covariance(features)
        self.ard = ard
        self.train_inputs = (train_X,)
        self._learn_transforms(train_X, train_Y, input_transform, outcome_transform)
        inputs = self._design()
        self.register_buffer("center", torch.as_tensor(column_means(inputs)).to(train_X.device))
        self.feature_map = make_features(
            features, inputs.shape[1], n_frequencies, coupling, kernel, generator,
            device=train_X.device,
        )  # fmt: skip
        check_directions(self.feature_map)
        base = self._default_lengthscale(inputs)
        start = base if lengthscale is None else check_lengthscale(lengthscale, base.size)
        for name, value in (("outputscale", outputscale), ("noise", noise)):
            check_positive(value, name)
            self.register_buffer(name, self.center.new_tensor(value))
        self.register_buffer("lengthscale", torch.as_tensor(start).to(self.center))
        self._forget()

    def _learn_transforms(
        self, train_X: Tensor, train_Y: Tensor, input_transform: Any, outcome_transform: Any
    ) -> None:
        """Let the transforms learn from the data; set `train_targets`."""
        if outcome_transform is DEFAULT:
            outcome_transform = Standardize(m=train_Y.shape[-1])
        with torch.no_grad():
            transformed = self.transform_inputs(train_X, input_transform)
            if outcome_transform is not None:
                outcome_transform.train()
                train_Y = outcome_transform(train_Y, X=transformed)[0]
        if input_transform is not None:
            self.input_transform = input_transform
        if outcome_transform is not None:
            self.outcome_transform = outcome_transform
        self.train_targets = train_Y.double()
        self._num_outputs = train_Y.shape[-1]
        self.eval()

    def _set_transformed_inputs(self) -> None:
        """Do nothing: training inputs are transformed where they are used."""

    def _design(self) -> FloatArray:
        """Training inputs (n, d) after their transform."""
        inputs = self.train_inputs[0]
        if hasattr(self, "input_transform"):
            inputs = self.input_transform.preprocess_transform(inputs)
        return np.asarray(inputs.detach().cpu().numpy(), dtype=np.float64)

    def _default_lengthscale(self, inputs: FloatArray) -> FloatArray:
        """Data-driven lengthscales (d,), as those of `SparseSpectrumGPRegressor`."""
        spread = column_spread(inputs, self.ard)
        if self.feature_map.lengthscale_by_rule:
            spread = spread if self.ard else np.ones_like(spread)
            centred = (inputs - self.center.cpu().numpy()) / spread
            return spread * laplace_lengthscale(centred, np.random.default_rng(0))
        return np.sqrt(inputs.shape[1]) * spread

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self._forget()

    def _check_observed(self) -> None:
        """Refuse a model that holds fantasies."""
        if self._further is not None:
            raise InvalidInputError("model: expected one of observed data, got one of fantasies")

    def _stream(self) -> FeatureStream:
        center, lengthscale = self.center.cpu().numpy(), self.lengthscale.cpu().numpy()
        return FeatureStream(self.feature_map, self._design(), center, lengthscale)

    def _forget(self) -> None:
        """Drop the posterior that was computed from data and hyperparameters."""
        self._statistics: DataStatistics | None = None
        self._base: WeightPosterior | None = None

    def fit(
        self,
        fixed: tuple[str, ...] | None = None,
        n_restarts: int = 1,
        max_iter: int = 100,
        generator: Seed = 0,
    ) -> Self:
        """Set the hyperparameters to those of maximum evidence.

        Parameters
        ----------
        fixed
            Names of hyperparameters to leave alone. None: nothing for Fourier features,
            `("lengthscale",)` for Laplace features.
        n_restarts, max_iter
            As in `SparseSpectrumGPRegressor`.
        generator
            Seed of the restarts.

        Returns
        -------
        SparseSpectrumGP
            The model itself.

        Raises
        ------
        InvalidInputError
            A name in `fixed` is unknown, or the model holds fantasies.
        """
        self._check_observed()
        by_rule = self.feature_map.lengthscale_by_rule
        fixed = fixed if fixed is not None else ("lengthscale",) if by_rule else ()
        for name in fixed:
            check_choice(name, HYPERPARAMETERS, "fixed")
        stream, targets = self._stream(), self.train_targets.cpu().numpy()
        kept = stream.lengthscale if "lengthscale" in fixed else None
        # Constant outcomes say nothing about scales: the evidence has no maximum.
        free = frozenset(HYPERPARAMETERS) - set(fixed) if targets.any() else frozenset()
        space = SearchSpace(
            base=kept if kept is not None else self._default_lengthscale(stream.X),
            ard=self.ard, lengthscale=kept if free else stream.lengthscale,
            outputscale=self.outputscale.item(), noise=self.noise.item(), free=free,
        )  # fmt: skip
        best = maximise_evidence(
            FeatureEvidence(stream, targets), space, n_restarts=n_restarts,
            max_iterations=max_iter, rng=as_rng(generator),
        ).hyperparameters  # fmt: skip
        for name in HYPERPARAMETERS:
            buffer = getattr(self, name)
            setattr(self, name, buffer.new_tensor(getattr(best, name)))
        self._forget()
        return self

    @property
    def log_evidence(self) -> float:
        """Log evidence (nats) of the transformed outcomes at the present hyperparameters."""
        return self._posterior().log_evidence

    @property
    def num_outputs(self) -> int:
        """Number k of outputs."""
        return self._num_outputs

    @property
    def likelihood(self) -> gpytorch.likelihoods.GaussianLikelihood:
        """The noise as a gpytorch likelihood."""
        likelihood = gpytorch.likelihoods.GaussianLikelihood(
            noise_constraint=gpytorch.constraints.Positive()
        ).to(self.noise)
        likelihood.noise = self.noise
        return likelihood

    def features(self, inputs: Tensor) -> Tensor:
        """Features (..., n, M) of transformed inputs (..., n, d), differentiable."""
        if inputs.ndim < 2 or inputs.shape[-1] != len(self.center):
            raise InvalidInputError(
                f"X: expected shape (..., n, {len(self.center)}), got {tuple(inputs.shape)}"
            )
        scaled = (inputs.to(self.center) - self.center) / self.lengthscale
        features: Tensor = self.feature_map(scaled)
        return features

    def _posterior(self) -> WeightPosterior:
        """Posterior of the weights given the training data."""
        if self._statistics is None:
            zero = self.center.new_zeros(self.num_outputs)
            chunks = ((phi, self.train_targets[r]) for r, _, phi in self._stream())
            self._statistics = DataStatistics(self.feature_map.n_features, zero).updated(chunks)
        if self._base is None:
            zero = self.center.new_zeros(self.num_outputs)
            self._base = self._statistics.posterior(
                zero, torch.ones_like(zero), self.outputscale.item(), self.noise.item()
            )
        return self._base

    def subset_output(self, idcs: list[int]) -> Self:
        """The model of some of the outputs."""
        other = self._sibling()
        other.train_targets = self.train_targets[:, idcs]
        other._num_outputs = len(idcs)
        if hasattr(self, "outcome_transform"):
            other.outcome_transform = self.outcome_transform.subset_output(idcs=idcs)
        if self._further is not None:
            other._further = (self._further[0], self._further[1][..., idcs])
        other._forget()
        return other

    def _sibling(self) -> Self:
        """A copy with buffers of its own that shares the posterior computed from the data."""
        other = copy(self)
        for registry in ("_buffers", "_modules", "_parameters"):
            other.__dict__[registry] = deepcopy(self.__dict__[registry])
        return other


def check_training_data(train_X: Tensor, train_Y: Tensor) -> None:
    """Refuse training data other than finite tensors (n, d) and (n, k), n >= 1."""
    for name, value in (("train_X", train_X), ("train_Y", train_Y)):
        if not (torch.is_tensor(value) and value.is_floating_point()):
            raise InvalidInputError(
                f"{name}: expected a tensor of floats, got {type(value).__name__}"
            )
        if value.ndim != 2 or value.numel() == 0:
            raise InvalidInputError(
                f"{name}: expected a non-empty matrix, got shape {tuple(value.shape)}"
            )
        if not torch.isfinite(value).all():
            raise InvalidInputError(f"{name}: expected finite values, got NaN or inf")
        check_magnitude(value.detach().cpu().numpy(), name)
    if len(train_X) != len(train_Y):
        raise InvalidInputError(f"train_Y: expected {len(train_X)} rows, got {len(train_Y)}")
