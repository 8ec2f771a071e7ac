"""Kernels."""

from coupledgp.kernels.graph_base import GraphKernel
from coupledgp.kernels.graph_exact import SeriesOperator, dense_kernel, dense_spectrum
from coupledgp.kernels.graph_kernels import (
    GraphKernelLike,
    GraphMaternKernel,
    HeatKernel,
    InverseCosineKernel,
    LearnedKernel,
    RandomWalkKernel,
    RegularizedLaplacianKernel,
    parse_graph_kernel,
)

__all__ = [
    "GraphKernel",
    "GraphKernelLike",
    "GraphMaternKernel",
    "HeatKernel",
    "InverseCosineKernel",
    "LearnedKernel",
    "RandomWalkKernel",
    "RegularizedLaplacianKernel",
    "SeriesOperator",
    "dense_kernel",
    "dense_spectrum",
    "parse_graph_kernel",
]
