"""Random Fourier features (MATH section 2; Rahimi and Recht, 2007).

Couplings that serve positive features and harm Fourier features (MATH section 3).
"""

from __future__ import annotations

import numpy as np

from coupledgp.couplings.frequencies.registry import DirectionsAndNorms
from coupledgp.errors import InvalidInputError
from coupledgp.features.base import FeatureMap
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.ground.visible import warn

# Phases whose sines and cosines are taken at once: they stay in the cache of one core.
CACHE_PHASES = 2**15


class FourierFeatures(FeatureMap):
    """Paired sine and cosine features of a stationary kernel.

    `phi(x) = m^{-1/2} [sin(w_1 . x), ..., sin(w_m . x), cos(w_1 . x), ..., cos(w_m . x)]`, so that
    `phi(x) . phi(y) = (1/m) sum_i cos(w_i . (x - y))`: unbiased, a function of `x - y` only, and
    exactly one on the diagonal. `n_features = 2 m`. Where the frequencies carry weights,
    `sqrt(a_i)` stands in place of `m^{-1/2}`. Inputs farther than 5e11 from zero (1.5e5 in single
    precision) are taken at that distance, since phases have no digits beyond. Parameters are those
    of `FeatureMap`.

    Examples
    --------
    >>> import torch
    >>> from coupledgp.features import FourierFeatures
    >>> features = FourierFeatures(3, 16, coupling="orthogonal", generator=0)
    >>> phi = features(torch.eye(3).double())
    >>> phi.shape
    torch.Size([3, 32])
    >>> bool(torch.allclose((phi**2).sum(-1), torch.ones(3).double()))  # k(x, x) = 1 exactly
    True
    """

    product_sign = -1

    @property
    def n_features(self) -> int:
        """Number of features, 2 m."""
        return 2 * self.n_frequencies

    def _rows(self, X: Tensor | np.ndarray) -> Tensor:
        # Farther out a phase is rounding, which differs from one batch of rows to the next.
        farthest = torch.finfo(self.dtype).eps ** -0.75
        return super()._rows(X).clamp(-farthest, farthest)

    def _features(self, inputs: Tensor) -> Tensor:
        phase = self.project(inputs)
        amplitudes = self.amplitudes
        return torch.cat([phase.sin() * amplitudes, phase.cos() * amplitudes], dim=-1)

    def _features_into(self, inputs: Tensor, out: Tensor) -> Tensor:
        m, amplitudes = self.n_frequencies, self.amplitudes
        cached = CACHE_PHASES * torch.get_num_threads()  # which share each block among them
        step = max(cached // m, 1) if out.device.type == "cpu" else len(out)
        sines = out.new_empty(min(step, len(out)), m)
        for start in range(0, len(out), step):
            block = out[start : start + step]
            phase = self.project(inputs[start : start + step])
            # Sines and cosines of whole rows in a row: of halves of rows they take twice as long.
            torch.mul(torch.sin(phase, out=sines[: len(block)]), amplitudes, out=block[:, :m])
            torch.mul(phase.cos_(), amplitudes, out=block[:, m:])
        return out

    def pullback(self, inputs: Tensor, features: Tensor, upstream: Tensor) -> Tensor:
        """Gradient (n, d) in the inputs, in closed form by `phase_gradient`."""
        return self.project_back(self.phase_gradient(features, upstream))

    def phase_gradient(self, features: Tensor, upstream: Tensor) -> Tensor:
        """Gradient in the phases `z_i = w_i . x`, (n, m), from that in the features, (n, 2 m).

        It is `upstream_sin * cos(z) - upstream_cos * sin(z)`; `upstream` may be overwritten.
        """
        m = self.n_frequencies
        by_phase = upstream[:, :m].mul_(features[:, m:])
        return by_phase.addcmul_(upstream[:, m:], features[:, :m], value=-1)


def check_directions(made: object, name: str = "coupling") -> None:
    """Warn of Fourier features with simplex directions, and refuse at most d frequencies of them.

    All estimators call it before a fit; a coupling or a map by itself is never refused. The d
    corners of a simplex sum to zero, so they span d - 1 dimensions. Cosine features are even, so
    that obtuse angles bring nothing: their errors are 1.40, 1.26 and 1.19 times those of orthogonal
    directions in 2, 5 and 13 dimensions, at the distance of one lengthscale.

    Parameters
    ----------
    made
        Features that a model is to use; anything but Fourier features passes.
    name
        Name of the argument in messages.

    Raises
    ------
    InvalidInputError
        At most d frequencies are drawn, so that one direction of the inputs reaches no feature.

    Warns
    -----
    UserWarning
        Directions are from a simplex, in two dimensions or more.
    """
    if not isinstance(made, FourierFeatures) or not _has_simplex(made):
        return
    coupling = made.coupling
    assert isinstance(coupling, DirectionsAndNorms)
    n_drawn = coupling.n_drawn(made.n_frequencies)
    if n_drawn <= made.dim == coupling.directions.ambient_dim(made.dim):
        raise InvalidInputError(
            f"{name}: {str(coupling)!r} leaves one direction of the inputs unseen by Fourier "
            f"features unless more than {made.dim} frequencies are drawn in {made.dim} dimensions, "
            f"got {n_drawn}; use 'orthogonal' or more frequencies"
        )
    warn(
        f"{name}: {str(coupling)!r} serves Laplace features; the errors of Fourier features are "
        "larger with it than with 'orthogonal'"
    )


def _has_simplex(made: FeatureMap) -> bool:
    """Whether the frequencies have the directions of a simplex; one dimension has no such thing."""
    coupling = made.coupling
    return (
        made.dim > 1
        and isinstance(coupling, DirectionsAndNorms)
        and coupling.directions.sums_to_zero
    )
