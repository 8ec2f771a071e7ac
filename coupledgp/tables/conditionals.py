"""Laws of observations given their nearest neighbours, with gradients in the hyperparameters.

For row i with neighbours N, `f ~ GP(0, v kappa)` and noise of variance `s r`,

    c = v kappa(X_N, x_i) ,  K = v kappa(X_N, X_N) + s diag(r_N) ,
    b = K^-1 c ,             d = v + s r_i - b'c ,

`b` and `d` are the kriging weights and the variance of y_i given y_N (Vecchia, 1988).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from coupledgp.core.problem import distances_between
from coupledgp.ground.tensors import Differentiable, Tensor, torch
from coupledgp.linalg.distances import weighted_powers_within
from coupledgp.linalg.matrices import batch_cholesky
from coupledgp.metrics import Metric
from coupledgp.spectra import Spectrum

# Entries of the neighbours' covariances that are formed at once: they stay in a processor's cache,
# or keep a GPU busy.
CHUNK_ENTRIES, CHUNK_ENTRIES_OF_GPU = 2**18, 2**22
# Squared distance of all neighbours, in lengthscales, from which products lose too many digits.
APART = 100.0


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """Rows and their neighbours, as differences of coordinates.

    Attributes
    ----------
    differences : Tensor (b, k, d)
        `x_N - x_i`, in units of the inputs.
    present : Tensor (b, k)
        One for a neighbour, zero for a place that is empty since there were fewer than k.
    own_noise : Tensor (b,)
        Relative noise variance `r_i` of each row.
    noise : Tensor (b, k)
        Relative noise variances `r_N` of the neighbours.
    """

    differences: Tensor
    present: Tensor
    own_noise: Tensor
    noise: Tensor

    def chunks(self) -> list[Neighbourhoods]:
        """The same rows in chunks of a size that suits the device."""
        rows, k, _ = self.differences.shape
        on_cpu = self.differences.device.type == "cpu"
        step = max(1, (CHUNK_ENTRIES if on_cpu else CHUNK_ENTRIES_OF_GPU) // max(k * k, 1))
        return [self._take(slice(start, start + step)) for start in range(0, rows, step)]

    def _take(self, rows: slice) -> Neighbourhoods:
        return Neighbourhoods(
            self.differences[rows], self.present[rows], self.own_noise[rows], self.noise[rows]
        )


class Conditionals(NamedTuple):
    """Kriging weights (b, k) and variances (b,) of observations given their neighbours."""

    weights: Tensor
    variances: Tensor


def conditionals(
    spectrum: Spectrum,
    neighbourhoods: Neighbourhoods,
    log_lengthscale: Tensor,
    log_outputscale: Tensor,
    log_noise: Tensor,
) -> Conditionals:
    """Kriging weights and variances, differentiable in the hyperparameters.

    Parameters
    ----------
    spectrum
        Kernel kappa.
    neighbourhoods
        Rows and neighbours.
    log_lengthscale
        Logarithms (d,) of the lengthscales in units of the inputs.
    log_outputscale, log_noise
        Logarithms () of v and s.

    Raises
    ------
    NumericalError
        A covariance of neighbours is not positive definite to rounding.
    """
    found = _Conditionals.apply(
        log_lengthscale, log_outputscale, log_noise, spectrum, neighbourhoods
    )
    return Conditionals(*found)


class _Conditionals(Differentiable):
    """Closed-form derivatives: one more solve with each factor, where autograd takes several."""

    @staticmethod
    def forward(
        ctx: Any,
        log_lengthscale: Tensor,
        log_outputscale: Tensor,
        log_noise: Tensor,
        spectrum: Spectrum,
        neighbourhoods: Neighbourhoods,
    ) -> tuple[Tensor, Tensor]:
        scales = log_lengthscale.exp(), float(log_outputscale.exp()), float(log_noise.exp())
        parts = [_ChunkLaws.of(chunk, spectrum, *scales) for chunk in neighbourhoods.chunks()]
        ctx.parts, ctx.scales = parts, scales
        return torch.cat([p.weights for p in parts]), torch.cat([p.variances for p in parts])

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        of_weights, of_variances = upstream
        lengthscale, _, _ = ctx.scales
        totals = lengthscale.new_zeros(len(lengthscale) + 2)
        start = 0
        for part in ctx.parts:
            rows = slice(start, start + len(part.variances))
            totals += part.gradient(of_weights[rows], of_variances[rows])
            start = rows.stop
        return totals[:-2], totals[-2], totals[-1], None, None


def _powers_between(scaled: Tensor, own: Tensor, metric: Metric) -> Tensor:
    """Powers (b, k, k) of distances of neighbours from coordinates (b, k, d), of own powers (b, k).

    Coordinates are relative to the row itself.
    """
    if metric == Metric.L2:
        return _squares_between(scaled, own)
    return metric.powers(distances_between(scaled, scaled, metric))


def _squares_between(scaled: Tensor, squares: Tensor) -> Tensor:
    """`_powers_between` of Euclidean distances, by products.

    They lose few digits since coordinates are relative to the row itself; where all neighbours are
    far from it, to the first of them.
    """
    apart = squares.amin(1) > APART if squares.shape[1] else squares.new_zeros(0, dtype=torch.bool)
    if apart.any():
        scaled = torch.where(apart[:, None, None], scaled - scaled[:, :1], scaled)
        squares = scaled.square().sum(2)
    between = scaled @ scaled.mT
    return between.mul_(-2.0).add_(squares[:, :, None]).add_(squares[:, None, :]).clamp_min_(0.0)


@dataclass(frozen=True, eq=False)
class _ChunkLaws:
    """Conditional laws of a chunk of rows and all that their gradient needs."""

    scaled: Tensor  # (b, k, d)
    cross: Tensor  # (b, k), c
    cross_slope: Tensor  # (b, k), derivative of c in the power of the distance
    kernel: Tensor  # (b, k, k), v kappa between different neighbours, 0 on the diagonal
    slope: Tensor  # (b, k, k), its derivative in the power of the distance
    factor: Tensor  # (b, k, k)
    weights: Tensor  # (b, k)
    variances: Tensor  # (b,)
    outputscale: float
    noise: float
    metric: Metric
    chunk: Neighbourhoods

    @classmethod
    def of(
        cls,
        chunk: Neighbourhoods,
        spectrum: Spectrum,
        lengthscale: Tensor,
        outputscale: float,
        noise: float,
    ) -> _ChunkLaws:
        present = chunk.present
        scaled = chunk.differences / lengthscale
        powers = spectrum.metric.powers(scaled).sum(2)
        cross, cross_slope = spectrum.kernel_and_slope(powers)
        between = _powers_between(scaled, powers, spectrum.metric)
        between.diagonal(dim1=1, dim2=2).zero_()
        kernel, slope = spectrum.kernel_and_slope(between)
        both = outputscale * present[:, :, None] * present[:, None, :]
        both.diagonal(dim1=1, dim2=2).zero_()
        kernel, slope = kernel.mul_(both), slope * both
        covariance = kernel.clone()
        own = (outputscale + noise * chunk.noise) * present + (1.0 - present)
        covariance.diagonal(dim1=1, dim2=2).copy_(own)
        factor = batch_cholesky(covariance, "covariance of neighbours")
        cross, cross_slope = outputscale * cross * present, outputscale * cross_slope * present
        weights = torch.cholesky_solve(cross[:, :, None], factor)[:, :, 0]
        # The noise bounds the variance from below, which rounding of the difference might not.
        latent = (outputscale - (weights * cross).sum(1)).clamp_min(0.0)
        return cls(
            scaled, cross, cross_slope, kernel, slope, factor, weights,
            latent + noise * chunk.own_noise, outputscale, noise, spectrum.metric, chunk,
        )  # fmt: skip

    def gradient(self, of_weights: Tensor, of_variances: Tensor) -> Tensor:
        """Gradient (d + 2,) in the logarithms of lengthscales, v and s, from those in b and d."""
        b, present = self.weights, self.chunk.present
        solved = torch.cholesky_solve(of_weights[:, :, None], self.factor)[:, :, 0]
        of_cross = solved - 2 * of_variances[:, None] * b
        # d b = K^-1 (dc - dK b), d d = dv + r ds - 2 b'dc + b'dK b, dK symmetric.
        half = 0.5 * (of_variances[:, None] * b - solved)
        of_covariance = half[:, :, None] * b[:, None, :]
        of_covariance = of_covariance + of_covariance.mT
        own = of_covariance.diagonal(dim1=1, dim2=2) * present
        of_noise = self.noise * (
            (of_variances * self.chunk.own_noise).sum() + (own * self.chunk.noise).sum()
        )
        of_outputscale = (
            self.outputscale * (of_variances.sum() + own.sum())
            + (of_cross * self.cross).sum()
            + (of_covariance * self.kernel).sum()
        )
        return torch.cat([self._of_lengthscale(of_cross, of_covariance),
                          torch.stack([of_outputscale, of_noise])])  # fmt: skip

    def _of_lengthscale(self, of_cross: Tensor, of_covariance: Tensor) -> Tensor:
        """Gradient (d,): `d r^p / d log l_j = -p |u_aj - u_bj|^p` in scaled coordinates u."""
        pairs, u, order = of_covariance * self.slope, self.scaled, self.metric.order
        alone = torch.einsum("ba,baj->j", of_cross * self.cross_slope, self.metric.powers(u))
        if u.device.type == "cpu":
            sums = torch.as_tensor(weighted_powers_within(u.numpy(), pairs.numpy(), order))
        elif self.metric == Metric.L2:
            between = pairs.sum(2, keepdim=True) * u - pairs @ u
            sums = 2 * (u * between).sum((0, 1))
        else:
            powers = (self.metric.powers(c[:, :, None] - c[:, None]) for c in u.unbind(2))
            sums = torch.stack([torch.vdot(pairs.ravel(), each.ravel()) for each in powers])
        return -order * (sums + alone)
