"""Kernels: of graphs, of time, and for gpytorch models.

gpytorch is imported only when one of its kernels is asked for.
"""

from typing import TYPE_CHECKING

from coupledgp.expressions import Kernel as Kernel
from coupledgp.expressions import On as On
from coupledgp.expressions import Parameter as Parameter
from coupledgp.expressions import Product as Product
from coupledgp.expressions import RowKernel as RowKernel
from coupledgp.expressions import Sum as Sum
from coupledgp.ground.extras import attach
from coupledgp.kernels.additive import Additive as Additive
from coupledgp.kernels.expressions import kernel_text as kernel_text
from coupledgp.kernels.expressions import parse_kernel as parse_kernel
from coupledgp.kernels.fields import FieldKernel as FieldKernel
from coupledgp.kernels.fields import PositionKernel as PositionKernel
from coupledgp.kernels.fields import WhittleMatern as WhittleMatern
from coupledgp.kernels.graph import GraphKernel as GraphKernel
from coupledgp.kernels.graph_families import GraphKernelLike as GraphKernelLike
from coupledgp.kernels.graph_families import GraphMaternKernel as GraphMaternKernel
from coupledgp.kernels.graph_families import HeatKernel as HeatKernel
from coupledgp.kernels.graph_families import InverseCosineKernel as InverseCosineKernel
from coupledgp.kernels.graph_families import LearnedKernel as LearnedKernel
from coupledgp.kernels.graph_families import RandomWalkKernel as RandomWalkKernel
from coupledgp.kernels.graph_families import (
    RegularizedLaplacianKernel as RegularizedLaplacianKernel,
)
from coupledgp.kernels.graph_families import available_graph_kernels as available_graph_kernels
from coupledgp.kernels.graph_families import parse_graph_kernel as parse_graph_kernel
from coupledgp.kernels.graph_families import register_graph_kernel as register_graph_kernel
from coupledgp.kernels.row_covariance import RowCovariance as RowCovariance
from coupledgp.kernels.rows import Categorical as Categorical
from coupledgp.kernels.rows import Linear as Linear
from coupledgp.kernels.rows import RationalQuadratic as RationalQuadratic
from coupledgp.kernels.rows import Sphere as Sphere
from coupledgp.kernels.rows import register_row_kernel as register_row_kernel
from coupledgp.spectra import ProductLaplace as ProductLaplace

if TYPE_CHECKING:
    from coupledgp.graphs.spectral import SeriesOperator as SeriesOperator
    from coupledgp.graphs.spectral import dense_kernel as dense_kernel
    from coupledgp.graphs.spectral import dense_spectrum as dense_spectrum
    from coupledgp.kernels.gpytorch.features import FourierFeatureKernel as FourierFeatureKernel
    from coupledgp.kernels.gpytorch.features import LaplaceFeatureKernel as LaplaceFeatureKernel
    from coupledgp.kernels.gpytorch.walks import GraphFeatureKernel as GraphFeatureKernel
else:
    _, __getattr__, __dir__ = attach(__name__, {
        "coupledgp.graphs.spectral": "SeriesOperator dense_kernel dense_spectrum",
        "gpytorch.features": "FourierFeatureKernel LaplaceFeatureKernel",
        "gpytorch.walks": "GraphFeatureKernel",
    })  # fmt: skip
