"""Feature maps by name."""

from coupledgp.features.base import FeatureMap
from coupledgp.features.fourier import FourierFeatures
from coupledgp.features.laplace import LaplaceFeatures

FEATURE_MAPS: dict[str, type[FeatureMap]] = {
    "fourier": FourierFeatures,
    "laplace": LaplaceFeatures,
}
