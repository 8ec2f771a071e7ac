"""Sparse-spectrum GPs for Bayesian optimisation with BoTorch. Needs the extra `botorch`."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from botorch.models.deterministic import DeterministicModel
from botorch.models.model import FantasizeMixin
from botorch.models.utils import fantasize as fantasize_flag
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.posteriors.posterior import Posterior
from botorch.sampling.pathwise.posterior_samplers import DrawMatheronPaths
from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal
from linear_operator import to_linear_operator

from coupledgp.botorch.base import WeightSpaceModel
from coupledgp.errors import InvalidInputError
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.ground.validation import check_positive_int
from coupledgp.inference.weights.conditioning import Conditioning
from coupledgp.random import Seed, as_rng


class SparseSpectrumGP(WeightSpaceModel, FantasizeMixin):
    """BoTorch model of a GP whose kernel is a dot product of coupled random features.

    `y = sqrt(v) phi((x - c) / l) . w + e`, `w ~ N(0, I)`, `e ~ N(0, s)`: inference in the space of
    the M weights, O(n M^2) time (MATH section 6), in float64. Several outputs are independent and
    share the hyperparameters. Functions drawn from the posterior are exact and cost O(M) at each
    input (`sample_paths`).

    Parameters
    ----------
    train_X, train_Y
        Inputs (n, d) and outcomes (n, k).
    kernel, features, n_frequencies, coupling
        As in `SparseSpectrumGPRegressor`; the coupling is the feature map's default if left out.
    ard
        One lengthscale for each dimension, if they are fitted.
    lengthscale, outputscale, noise
        Hyperparameters until `fit` replaces them, in units of the transformed inputs and outcomes.
        The lengthscale is taken from the spread of the inputs if left out.
    input_transform
        BoTorch input transform.
    outcome_transform
        BoTorch outcome transform; `Standardize` if left out, none if None.
    generator
        Seed or generator of the frequencies.

    Attributes
    ----------
    lengthscale, outputscale, noise, center
        Hyperparameters and shift of the inputs, buffers that with the frequencies are the state of
        the model.
    train_inputs, train_targets
        `(train_X,)`, and outcomes (n, k) after their transform. They are not part of the state.

    Raises
    ------
    InvalidInputError
        An argument is invalid.

    Examples
    --------
    >>> import torch
    >>> X = torch.rand(30, 2, dtype=torch.float64)
    >>> model = SparseSpectrumGP(X, X.sin().sum(-1, keepdim=True), generator=0).fit()
    >>> model.posterior(X[:3]).mean.shape
    torch.Size([3, 1])
    """

    _conditioning: Conditioning | None = None

    @property
    def batch_shape(self) -> torch.Size:
        """Empty, or the batch of the fantasies."""
        return torch.Size() if self._further is None else self._further[1].shape[:-2]

    def _forget(self) -> None:
        super()._forget()
        self._conditioning = None

    def _mean_and_root(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (..., p, k) and root rows (..., p, r) at transformed inputs, training data only."""
        features = self.features(inputs)
        base = self._posterior()
        root = base.root(features.reshape(-1, features.shape[-1]))
        return base.predict(features), root.reshape(*features.shape[:-1], root.shape[-1])

    def _law(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (..., p, k) and covariance (..., p, p) at transformed inputs, fantasies included."""
        mean, root = self._mean_and_root(inputs)
        if self._further is not None:
            conditioning = self._conditioned()
            mean = mean + conditioning.mean(root)
            root = conditioning.reduce(root)
        return mean, root @ root.mT

    def _conditioned(self) -> Conditioning:
        """Law of f minus its prediction from the training data, given the fantasies."""
        assert self._further is not None
        if self._conditioning is not None:
            return self._conditioning
        observed, outcomes = self._further
        mean, root = self._mean_and_root(observed)
        conditioning = Conditioning.on(root, outcomes - mean, self.noise.item())
        if not (observed.requires_grad or outcomes.requires_grad):
            self._conditioning = conditioning  # otherwise its graph would be used up
        return conditioning

    def posterior(  # type: ignore[override]
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: Any = None,
    ) -> Posterior:
        """Joint law of the outcomes at X (..., q, d); see `botorch.models.Model.posterior`.

        A tensor as `observation_noise` holds variances (..., 1 or q, 1 or k) of transformed
        outcomes.
        """
        self.eval()
        inputs = self.transform_inputs(X)
        mean, covariance = self._law(inputs)
        indices = range(self.num_outputs) if output_indices is None else output_indices
        columns = []
        for i in indices:
            spread = covariance
            if observation_noise is not False:
                spread = spread + torch.diag_embed(self._noise_at(observation_noise, mean)[..., i])
            columns.append(_normal(mean[..., i], spread, X.dtype))
        law = columns[0]
        if self.num_outputs > 1 and len(columns) > 1:
            law = MultitaskMultivariateNormal.from_independent_mvns(columns)
        posterior: Posterior = GPyTorchPosterior(law)
        if hasattr(self, "outcome_transform"):
            transform = self.outcome_transform
            if output_indices is not None:
                transform = transform.subset_output(idcs=output_indices)
            posterior = transform.untransform_posterior(posterior, X=inputs)
        if posterior_transform is not None:
            return posterior_transform(posterior, X=X)
        return posterior

    def _noise_at(self, observation_noise: bool | Tensor, mean: Tensor) -> Tensor:
        """Variance of the noise, of the shape of the mean (..., q, k)."""
        noise = self.noise if isinstance(observation_noise, bool) else observation_noise.to(mean)
        return noise.expand_as(mean)

    def condition_on_observations(self, X: Tensor, Y: Tensor, **kwargs: Any) -> Self:
        """Return the model given further observations, hyperparameters and transforms fixed.

        The result is exact. Observations without a batch join the training data. A batch of them,
        or fantasies, is kept apart, with matrices of the size of their number only, and gradients
        in X pass through.

        Parameters
        ----------
        X
            Inputs (..., q, d).
        Y
            Outcomes (..., q, k), before their transform; further leading dimensions are a batch.

        Raises
        ------
        InvalidInputError
            Shapes do not fit, or a noise of the observations' own is given.
        """
        if kwargs.get("noise") is not None:
            raise InvalidInputError("noise: expected None, this model has one noise for all data")
        if X.shape[-2] != Y.shape[-2] or Y.shape[-1] != self.num_outputs:
            raise InvalidInputError(
                f"Y: expected shape (..., {X.shape[-2]}, {self.num_outputs}), got {tuple(Y.shape)}"
            )
        self.eval()
        inputs = self.transform_inputs(X)
        targets = Y
        if hasattr(self, "outcome_transform"):
            targets = self.outcome_transform(Y, X=inputs)[0]
        targets = targets.double()
        plain = X.ndim == 2 and Y.ndim == 2 and not (inputs.requires_grad or targets.requires_grad)
        if plain and self._further is None and fantasize_flag.off():
            return self._with_rows(X, inputs, targets)
        if self._further is not None:
            inputs = _joined(self._further[0], inputs)
            targets = _joined(self._further[1], targets)
        batch = np.broadcast_shapes(inputs.shape[:-2], targets.shape[:-2])
        other = self._sibling()
        other._further = (inputs.double(), targets.expand(*batch, *targets.shape[-2:]))
        other._conditioning = None
        return other

    def _with_rows(self, X: Tensor, inputs: Tensor, targets: Tensor) -> Self:
        """The model with further rows of training data."""
        self._posterior()
        other = self._sibling()
        other.train_inputs = (torch.cat([self.train_inputs[0], X.to(self.train_inputs[0])]),)
        other.train_targets = torch.cat([self.train_targets, targets])
        assert self._statistics is not None
        other._statistics = self._statistics.updated([(self.features(inputs), targets)])
        other._base = None
        return other

    def sample_paths(
        self, sample_shape: torch.Size | tuple[int, ...] = (), generator: Seed = None
    ) -> PathwiseSample:
        """Draw functions from the posterior, exactly, as a deterministic model.

        Parameters
        ----------
        sample_shape
            Shape of the draws; the result has it as its batch shape.
        generator
            Seed or generator of the draws.

        Raises
        ------
        InvalidInputError
            The model holds fantasies.
        """
        self._check_observed()
        for size in sample_shape:
            check_positive_int(size, "sample_shape")
        base, k = self._posterior(), self.num_outputs
        count = int(np.prod(sample_shape, dtype=np.int64))
        drawn = as_rng(generator).standard_normal((base.n_innovations, count * k))
        deviations = base.sample(torch.as_tensor(drawn).to(base.mean))
        weights = base.mean[:, None, :] + deviations.reshape(-1, count, k)
        return PathwiseSample(self._sibling(), weights.movedim(1, 0).reshape(*sample_shape, -1, k))


@DrawMatheronPaths.register(SparseSpectrumGP)  # type: ignore[untyped-decorator]
def _draw_paths(model: SparseSpectrumGP, sample_shape: torch.Size, **kwargs: Any) -> MatheronPath:
    """Make BoTorch's `draw_matheron_paths` and its callers use exact weight-space draws."""
    return MatheronPath(model.sample_paths(sample_shape))


def _normal(mean: Tensor, covariance: Tensor, dtype: torch.dtype) -> MultivariateNormal:
    """Law of mean (..., q) and covariance, broadcast over their batches."""
    batch = np.broadcast_shapes(mean.shape[:-1], covariance.shape[:-2])
    mean = mean.expand(*batch, mean.shape[-1])
    covariance = covariance.expand(*batch, *covariance.shape[-2:])
    # gpytorch factorises an operator only when it is needed, and adds jitter if it is singular.
    return MultivariateNormal(mean.to(dtype), to_linear_operator(covariance.to(dtype)))


def _joined(first: Tensor, second: Tensor) -> Tensor:
    """Rows of two batches of matrices (..., q, c) and (..., p, c), one below the other."""
    batch = np.broadcast_shapes(first.shape[:-2], second.shape[:-2])
    parts = (part.expand(*batch, *part.shape[-2:]) for part in (first, second.to(first)))
    return torch.cat(list(parts), dim=-2)


class PathwiseSample(DeterministicModel):
    """Functions `f(x) = phi(x)' w`, the weights `w` drawn once from their exact posterior.

    A draw costs O(M^2), an evaluation O(M) for each input, and any number of evaluations see the
    same function. Comes from `SparseSpectrumGP.sample_paths`.

    Parameters
    ----------
    model
        The model whose features and transforms are used.
    weights
        Weights (*sample_shape, M, k) of normalised outputs.
    """

    weights: Tensor

    def __init__(self, model: WeightSpaceModel, weights: Tensor) -> None:
        super().__init__()
        self._model = (model,)  # in a tuple: the model is used, its state is its own
        self.register_buffer("weights", weights)
        self._num_outputs = weights.shape[-1]

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the samples."""
        return torch.Size(self.weights.shape[:-2])

    def forward(self, X: Tensor) -> Tensor:
        """Values (..., *sample_shape, n, k) at inputs X, (..., *sample_shape, n, d) or (n, d).

        Dimensions of the samples that X has too, or has as one, are matched and not multiplied.
        """
        (model,) = self._model
        model.eval()
        inputs = model.transform_inputs(X)
        values = (model.features(inputs) @ self.weights).to(X.dtype)
        if hasattr(model, "outcome_transform"):
            values = model.outcome_transform.untransform(values, X=inputs)[0]
        return values

    def subset_output(self, idcs: list[int]) -> PathwiseSample:
        """The functions of some of the outputs."""
        (model,) = self._model
        return PathwiseSample(model.subset_output(idcs), self.weights[..., idcs])


class MatheronPath(torch.nn.Module):
    """Path as BoTorch's pathwise samplers expect it: outputs are the last batch dimension.

    With one output: (..., n, d) to (..., n). With k: (..., 1, n, d) to (..., k, n).
    """

    def __init__(self, sample: PathwiseSample) -> None:
        super().__init__()
        self.sample = sample

    def forward(self, values: Tensor, **kwargs: Any) -> Tensor:
        """Values of the functions at inputs (..., n, d), of the shapes stated for the class."""
        if self.sample.num_outputs == 1:
            return self.sample(values).squeeze(-1)
        return self.sample(values.squeeze(-3)).mT

    def set_ensemble_as_batch(self, ensemble_as_batch: bool) -> None:
        """Nothing to set: the model is no ensemble."""
