"""Feature maps: samples of a coupling turned into a matrix whose Gram estimates a kernel.

Of Euclidean inputs, from frequencies; of the nodes of a graph, from walks that are sampled once.
"""

from coupledgp.features.base import FeatureMap
from coupledgp.features.fourier import FourierFeatures
from coupledgp.features.hybrid.base import SoftmaxFeatures
from coupledgp.features.hybrid.clustered import ClusteredHybridFeatures
from coupledgp.features.hybrid.coefficients import (
    AngularCoefficient,
    Coefficient,
    GaussianCoefficient,
)
from coupledgp.features.hybrid.complex_exponential import ComplexExponentialFeatures
from coupledgp.features.hybrid.hybrid import (
    AngularHybridFeatures,
    GaussianHybridFeatures,
    HybridFeatures,
)
from coupledgp.features.importance import ImportanceLaplaceFeatures, least_mean_variance
from coupledgp.features.laplace import LaplaceFeatures
from coupledgp.features.learned_copula import LearnedCopula, gram_loss, learn_copula
from coupledgp.features.sklearn import FourierSampler, LaplaceSampler
from coupledgp.features.walks.hops import HopPlan, plan_hops, walked_series
from coupledgp.features.walks.operator import WalkFeatures
from coupledgp.features.walks.sample import Truncation, Walks, sample_walks

__all__ = [
    "AngularCoefficient",
    "AngularHybridFeatures",
    "ClusteredHybridFeatures",
    "Coefficient",
    "ComplexExponentialFeatures",
    "FeatureMap",
    "FourierFeatures",
    "FourierSampler",
    "GaussianCoefficient",
    "GaussianHybridFeatures",
    "HopPlan",
    "HybridFeatures",
    "ImportanceLaplaceFeatures",
    "LaplaceFeatures",
    "LaplaceSampler",
    "LearnedCopula",
    "SoftmaxFeatures",
    "Truncation",
    "WalkFeatures",
    "Walks",
    "gram_loss",
    "learn_copula",
    "least_mean_variance",
    "plan_hops",
    "sample_walks",
    "walked_series",
]
