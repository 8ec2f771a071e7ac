"""Contracts: tests that every coupling, feature map and kernel must pass, ours and a user's own.

A contract is a plain class of test methods, for pytest or unittest. Inherit it, say what is to be
tested, and its tests run with your own:

    class TestMine(CouplingContract):
        coupling = MyCoupling()

Statistical tests hold for any `seed`: a correct law fails one in less than a million runs.
"""

from coupledgp.testing.couplings import CouplingContract, DirectionsContract, NormsContract
from coupledgp.testing.features import FeatureMapContract
from coupledgp.testing.graph_kernels import GraphKernelContract
from coupledgp.testing.walkers import LengthsContract, StepsContract

__all__ = [
    "CouplingContract",
    "DirectionsContract",
    "FeatureMapContract",
    "GraphKernelContract",
    "LengthsContract",
    "NormsContract",
    "StepsContract",
]
