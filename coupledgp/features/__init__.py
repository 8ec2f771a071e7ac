"""Feature maps: samples of a coupling turned into a matrix whose Gram estimates a kernel."""

from coupledgp.features.base import FeatureMap
from coupledgp.features.fourier import FourierFeatures
from coupledgp.features.laplace import LaplaceFeatures
from coupledgp.features.transformers import FourierSampler, LaplaceSampler

__all__ = [
    "FeatureMap",
    "FourierFeatures",
    "FourierSampler",
    "LaplaceFeatures",
    "LaplaceSampler",
]
