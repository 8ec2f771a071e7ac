"""Products of inputs with the frequencies of a fast coupling, which are never formed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from coupledgp.couplings.frequencies.directions import simplex_constants
from coupledgp.couplings.frequencies.hadamard import StructuredFrequencies, product, unit_matrices
from coupledgp.ground.tensors import Differentiable, Tensor, TensorHolder, torch


class HadamardTransform(TensorHolder):
    """The map `x -> W x` and its transpose, W the (m, d) frequencies of a fast coupling.

    It takes O(m log d) time for each input and stores O(m) numbers, where the matrix takes O(m d).
    Products are computed by compiled loops on the CPU, elsewhere and in half precision by torch
    operations. Tensors are `norms`, `units` and `signs` of `StructuredFrequencies`.

    Parameters
    ----------
    frequencies
        The frequencies, in structured form.
    dtype, device
        Data type and device of the norms and units; the signs are integers.
    """

    def __init__(
        self,
        frequencies: StructuredFrequencies,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        self.n_frequencies, self.dim = frequencies.n_frequencies, frequencies.dim
        self.simplex, self.antithetic = frequencies.simplex, frequencies.antithetic
        rotations = frequencies.rotations
        self.norms = torch.as_tensor(frequencies.norms).to(dtype=dtype, device=device)
        self.units = torch.as_tensor(rotations.units).to(dtype=dtype, device=device)
        self.signs = torch.as_tensor(rotations.signs).to(device=device)

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return `inputs W'`, (..., m), for inputs (..., d); differentiable in the inputs."""
        result: Tensor = _Product.apply(inputs, self, False)
        return result

    def transposed(self, values: Tensor) -> Tensor:
        """Return `values W`, (..., d), for values (..., m); differentiable in the values."""
        result: Tensor = _Product.apply(values, self, True)
        return result

    def dense(self) -> Tensor:
        """The frequencies W themselves, (m, d)."""
        unit = torch.eye(self.dim, dtype=self.norms.dtype, device=self.norms.device)
        return self(unit).T.contiguous()

    def _project(self, inputs: Tensor) -> Tensor:
        """`inputs W'` (n, m) for inputs (n, d)."""
        if self._compiled:
            drawn = inputs.new_empty(len(inputs), self.norms.numel())
            self._run_compiled(inputs, False, drawn)
        else:
            drawn = self._project_by_torch(inputs)
        if self.antithetic:
            drawn = torch.cat([drawn, -drawn], dim=1)[:, : self.n_frequencies]
        return drawn

    def _project_back(self, values: Tensor) -> Tensor:
        """`values W` (n, d) for values (n, m)."""
        n_drawn = self.norms.numel()
        if self.antithetic:
            opposite = values[:, n_drawn:]
            values = values[:, :n_drawn].clone()
            values[:, : opposite.shape[1]] -= opposite
        if not self._compiled:
            return self._project_back_by_torch(values)
        result = values.new_empty(len(values), self.dim)
        self._run_compiled(values, True, result)
        return result

    @property
    def _compiled(self) -> bool:
        return self.norms.device.type == "cpu" and self.norms.dtype in (
            torch.float32,
            torch.float64,
        )

    def _run_compiled(self, rows: Tensor, transposed: bool, out: Tensor) -> None:
        norms, units, signs = (t.detach().numpy() for t in (self.norms, self.units, self.signs))
        inputs = rows.contiguous().numpy()
        product(inputs, norms, units, signs, self.simplex, transposed, out.numpy())

    def _project_by_torch(self, inputs: Tensor) -> Tensor:
        n_blocks, p = self.units.shape
        padded = torch.nn.functional.pad(inputs, (0, p - self.dim))
        tiles = torch.einsum("nga,bgca->nbgc", padded.view(len(inputs), -1, self._run), self._units)
        tiles = hadamard_product(tiles.reshape(len(inputs), n_blocks, p))
        for level in range(2):
            tiles = hadamard_product(tiles * self.signs[:, level])
        if self.simplex and p > 1:
            scale, shift = simplex_constants(p)
            last = tiles[..., :-1].sum(-1, keepdim=True) / math.sqrt(p - 1)
            tiles = torch.cat([scale * tiles[..., :-1] - shift * last, last], dim=-1)
        return tiles.flatten(1)[:, : self.norms.numel()] * self.norms

    def _project_back_by_torch(self, values: Tensor) -> Tensor:
        n_blocks, p = self.units.shape
        scaled = values * self.norms
        tiles = torch.nn.functional.pad(scaled, (0, n_blocks * p - self.norms.numel()))
        tiles = tiles.view(len(values), n_blocks, p)
        if self.simplex and p > 1:
            scale, shift = simplex_constants(p)
            total = tiles[..., -1:] - shift * tiles[..., :-1].sum(-1, keepdim=True)
            head = scale * tiles[..., :-1] + total / math.sqrt(p - 1)
            tiles = torch.cat([head, torch.zeros_like(total)], dim=-1)
        tiles = hadamard_product(tiles)
        for level in (1, 0):
            tiles = hadamard_product(tiles * self.signs[:, level])
        runs = tiles.reshape(len(values), n_blocks, -1, self._run)
        result = torch.einsum("nbgc,bgca->nga", runs, self._units)
        return result.flatten(1)[:, : self.dim]

    @property
    def _run(self) -> int:
        """Number of coordinates that one unit multiplies."""
        return min(self.units.shape[1], 8)

    @property
    def _units(self) -> Tensor:
        """Matrices of the products by units, (blocks, p / run, run, run)."""
        matrices = unit_matrices(self.units.double().cpu().numpy(), False)[..., : self._run]
        shaped = matrices.reshape(len(matrices), -1, self._run, self._run)
        return torch.as_tensor(shaped).to(self.units)


class _Product(Differentiable):
    """`inputs W'`, or `inputs W` if transposed; each is the derivative of the other."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, transform: HadamardTransform, transposed: bool) -> Tensor:
        ctx.transform, ctx.transposed = transform, transposed
        flat = inputs.detach().reshape(-1, inputs.shape[-1])
        rows = transform._project_back(flat) if transposed else transform._project(flat)
        return rows.reshape(*inputs.shape[:-1], rows.shape[-1])

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None]:
        other = not ctx.transposed
        result = _Product.apply(upstream[0], ctx.transform, other)
        return result, None, None


def hadamard_product(values: Tensor) -> Tensor:
    """Multiply the last dimension of values (..., p), p a power of two, by the Hadamard matrix.

    The matrix is normalised; the result has the shape (..., p).
    """
    shape, size = values.shape, values.shape[-1]
    half = 1
    while half < size:
        pairs = values.reshape(*shape[:-1], -1, 2, half)
        first, second = pairs.unbind(-2)
        values = torch.stack([first + second, first - second], dim=-2)
        half *= 2
    return values.reshape(shape) / float(np.sqrt(size))
