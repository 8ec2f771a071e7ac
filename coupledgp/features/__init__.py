"""Features of graph kernels: walks sampled once, as a matrix or as an operator."""

from coupledgp.features.hops import HopPlan, plan_hops, walked_series
from coupledgp.features.walk_features import WalkFeatures
from coupledgp.features.walks import Truncation, Walks, sample_walks

__all__ = [
    "HopPlan",
    "Truncation",
    "WalkFeatures",
    "Walks",
    "plan_hops",
    "sample_walks",
    "walked_series",
]
