"""Feature maps: samples of a coupling turned into a matrix whose Gram matrix estimates a kernel.

Features of Euclidean inputs are made of frequencies, features of the nodes of a graph of walks that
are sampled once. Maps of the softmax kernel are modules of torch, which is imported for them alone.
"""

from typing import TYPE_CHECKING

from coupledgp.features.base import FeatureMap as FeatureMap
from coupledgp.features.fourier import FourierFeatures as FourierFeatures
from coupledgp.features.laplace import ImportanceLaplaceFeatures as ImportanceLaplaceFeatures
from coupledgp.features.laplace import LaplaceFeatures as LaplaceFeatures
from coupledgp.features.laplace import least_mean_variance as least_mean_variance
from coupledgp.features.laplace import two_law_mean_variance as two_law_mean_variance
from coupledgp.features.learned_copula import LearnedCopula as LearnedCopula
from coupledgp.features.learned_copula import gram_loss as gram_loss
from coupledgp.features.learned_copula import learn_copula as learn_copula
from coupledgp.features.registry import available_features as available_features
from coupledgp.features.registry import parse_features as parse_features
from coupledgp.features.registry import register_features as register_features
from coupledgp.ground.extras import attach

if TYPE_CHECKING:
    from coupledgp.features.hybrid.base import SoftmaxFeatures as SoftmaxFeatures
    from coupledgp.features.hybrid.clustered import (
        ClusteredHybridFeatures as ClusteredHybridFeatures,
    )
    from coupledgp.features.hybrid.coefficients import AngularCoefficient as AngularCoefficient
    from coupledgp.features.hybrid.coefficients import Coefficient as Coefficient
    from coupledgp.features.hybrid.coefficients import GaussianCoefficient as GaussianCoefficient
    from coupledgp.features.hybrid.complex_exponential import (
        ComplexExponentialFeatures as ComplexExponentialFeatures,
    )
    from coupledgp.features.hybrid.hybrid import AngularHybridFeatures as AngularHybridFeatures
    from coupledgp.features.hybrid.hybrid import GaussianHybridFeatures as GaussianHybridFeatures
    from coupledgp.features.hybrid.hybrid import (
        GaussianMixtureHybridFeatures as GaussianMixtureHybridFeatures,
    )
    from coupledgp.features.hybrid.hybrid import HybridFeatures as HybridFeatures
    from coupledgp.graphs.hops import HopPlan as HopPlan
    from coupledgp.graphs.hops import plan_hops as plan_hops
    from coupledgp.graphs.hops import walked_series as walked_series
    from coupledgp.graphs.walk_features import Truncation as Truncation
    from coupledgp.graphs.walk_features import WalkFeatures as WalkFeatures
    from coupledgp.graphs.walk_features import Walks as Walks
    from coupledgp.graphs.walk_features import sample_walk_features as sample_walk_features
    from coupledgp.graphs.walk_features import sample_walks as sample_walks
    from coupledgp.tables.samplers import FourierSampler as FourierSampler
    from coupledgp.tables.samplers import LaplaceSampler as LaplaceSampler
else:
    _, __getattr__, __dir__ = attach(__name__, {
        "coupledgp.graphs.hops": "HopPlan plan_hops walked_series",
        "coupledgp.graphs.walk_features":
            "Truncation WalkFeatures Walks sample_walk_features sample_walks",
        "coupledgp.tables.samplers": "FourierSampler LaplaceSampler",
        "hybrid.base": "SoftmaxFeatures",
        "hybrid.clustered": "ClusteredHybridFeatures",
        "hybrid.coefficients": "AngularCoefficient Coefficient GaussianCoefficient",
        "hybrid.complex_exponential": "ComplexExponentialFeatures",
        "hybrid.hybrid": (
            "AngularHybridFeatures GaussianHybridFeatures GaussianMixtureHybridFeatures "
            "HybridFeatures"
        ),
    })  # fmt: skip
