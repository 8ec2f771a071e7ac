"""Feature maps: samples of a coupling turned into a matrix whose Gram estimates a kernel.

Of Euclidean inputs, from frequencies; of the nodes of a graph, from walks that are sampled once.
"""

from coupledgp.features.base import FeatureMap
from coupledgp.features.fourier import FourierFeatures
from coupledgp.features.hops import HopPlan, plan_hops, walked_series
from coupledgp.features.laplace import LaplaceFeatures
from coupledgp.features.transformers import FourierSampler, LaplaceSampler
from coupledgp.features.walk_features import WalkFeatures
from coupledgp.features.walks import Truncation, Walks, sample_walks

__all__ = [
    "FeatureMap",
    "FourierFeatures",
    "FourierSampler",
    "HopPlan",
    "LaplaceFeatures",
    "LaplaceSampler",
    "Truncation",
    "WalkFeatures",
    "Walks",
    "plan_hops",
    "sample_walks",
    "walked_series",
]
