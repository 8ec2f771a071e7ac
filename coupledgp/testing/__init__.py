"""Contracts: tests that every coupling, feature map and kernel must pass, ours and a user's own.

A contract is a plain class of test methods, for pytest or unittest. Inherit it, name the object to
be tested, and its tests run with your own:

    class TestMine(CouplingContract):
        coupling = MyCoupling()

Statistical tests hold for any `seed`: a correct law fails in less than one of a million runs.
"""

from coupledgp.core.process import Data as Data
from coupledgp.testing.couplings import CouplingContract as CouplingContract
from coupledgp.testing.couplings import DirectionsContract as DirectionsContract
from coupledgp.testing.couplings import LengthsContract as LengthsContract
from coupledgp.testing.couplings import NormsContract as NormsContract
from coupledgp.testing.couplings import StepsContract as StepsContract
from coupledgp.testing.features import FeatureMapContract as FeatureMapContract
from coupledgp.testing.graph_kernels import GraphKernelContract as GraphKernelContract
from coupledgp.testing.likelihoods import LikelihoodContract as LikelihoodContract
from coupledgp.testing.processes import ProcessContract as ProcessContract
