"""Kernels: of graphs, and for gpytorch models.

gpytorch is imported only when one of its kernels is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from coupledgp.kernels.graph.base import GraphKernel
from coupledgp.kernels.graph.exact import SeriesOperator, dense_kernel, dense_spectrum
from coupledgp.kernels.graph.families import (
    GraphKernelLike,
    GraphMaternKernel,
    HeatKernel,
    InverseCosineKernel,
    LearnedKernel,
    RandomWalkKernel,
    RegularizedLaplacianKernel,
    parse_graph_kernel,
)

if TYPE_CHECKING:
    from coupledgp.kernels.gpytorch.features import FourierFeatureKernel, LaplaceFeatureKernel
    from coupledgp.kernels.gpytorch.walks import GraphFeatureKernel

__all__ = [
    "FourierFeatureKernel",
    "GraphFeatureKernel",
    "GraphKernel",
    "GraphKernelLike",
    "GraphMaternKernel",
    "HeatKernel",
    "InverseCosineKernel",
    "LaplaceFeatureKernel",
    "LearnedKernel",
    "RandomWalkKernel",
    "RegularizedLaplacianKernel",
    "SeriesOperator",
    "dense_kernel",
    "dense_spectrum",
    "parse_graph_kernel",
]

_OF_GPYTORCH = {
    "FourierFeatureKernel": "coupledgp.kernels.gpytorch.features",
    "GraphFeatureKernel": "coupledgp.kernels.gpytorch.walks",
    "LaplaceFeatureKernel": "coupledgp.kernels.gpytorch.features",
}


def __getattr__(name: str) -> Any:
    """Import a gpytorch kernel at its first use."""
    if name not in _OF_GPYTORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_OF_GPYTORCH[name]), name)
