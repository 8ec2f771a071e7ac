"""Functions drawn from the posterior of a `SparseSpectrumGP`, as deterministic BoTorch models."""

from __future__ import annotations

from typing import Any

from botorch.models.deterministic import DeterministicModel

from coupledgp.botorch.base import WeightSpaceModel
from coupledgp.ground.tensors import Tensor, torch


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
