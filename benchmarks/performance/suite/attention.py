"""Linear attention beside exact attention."""

from __future__ import annotations

import torch

from benchmarks.performance.suite.comparison import Call, Comparison, Figures, Method
from coupledgp.attention import CoupledAttention

WIDTH, HEADS, N_FREQUENCIES = 64, 2, 64


def sequence(length: int) -> torch.Tensor:
    """A sequence of standard normal vectors, one batch."""
    return torch.randn(1, length, WIDTH, generator=torch.Generator().manual_seed(0))


def _call(layer: torch.nn.MultiheadAttention, values: torch.Tensor) -> Call:
    exact = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    layer.load_state_dict(exact.state_dict(), strict=False)

    def call() -> Figures | None:
        with torch.no_grad():
            layer(values, values, values, need_weights=False)
        return None

    return call


def linear(values: torch.Tensor) -> Call:
    """Coupled positive features."""
    layer = CoupledAttention(
        WIDTH, HEADS, n_frequencies=N_FREQUENCIES, generator=0, batch_first=True
    )
    return _call(layer, values)


def exact(values: torch.Tensor) -> Call:
    """Torch's own attention, which never forms the whole matrix of weights."""
    return _call(torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), values)


ATTENTION = Comparison(
    "attention",
    f"One pass through a layer of attention, {HEADS} heads of width {WIDTH // HEADS}",
    "positions",
    (1024, 4096, 16_384, 65_536),
    (256, 1024),
    sequence,
    (
        Method("CoupledAttention", "ours", linear),
        Method("torch MultiheadAttention", "peer", exact, largest=16_384),
    ),
)
