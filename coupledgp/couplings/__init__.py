"""Couplings: joint laws with fixed marginals.

A frequency is a direction times a norm. A coupling fixes how the directions and the norms of an
ensemble depend on each other; each frequency alone always follows the kernel's spectrum. The text
form `directions[+norms][+antithetic]` names one everywhere in the package.

Walkers on a graph are lengths times steps, `lengths[+steps]` in text; nodes are independent.
"""

from coupledgp.couplings.frequencies.base import FrequencyCoupling as FrequencyCoupling
from coupledgp.couplings.frequencies.directions import Directions as Directions
from coupledgp.couplings.frequencies.directions import IidDirections as IidDirections
from coupledgp.couplings.frequencies.directions import (
    OrthogonalDirections as OrthogonalDirections,
)
from coupledgp.couplings.frequencies.directions import SimplexDirections as SimplexDirections
from coupledgp.couplings.frequencies.directions import (
    SimplexPlusDirections as SimplexPlusDirections,
)
from coupledgp.couplings.frequencies.hadamard import FastDirections as FastDirections
from coupledgp.couplings.frequencies.hadamard import (
    StructuredFrequencies as StructuredFrequencies,
)
from coupledgp.couplings.frequencies.norms import GaussianCopulaNorms as GaussianCopulaNorms
from coupledgp.couplings.frequencies.norms import IndependentNorms as IndependentNorms
from coupledgp.couplings.frequencies.norms import MonotoneNorms as MonotoneNorms
from coupledgp.couplings.frequencies.norms import Norms as Norms
from coupledgp.couplings.frequencies.norms import PairwiseNorms as PairwiseNorms
from coupledgp.couplings.frequencies.norms import SharedStrataNorms as SharedStrataNorms
from coupledgp.couplings.frequencies.norms import StratifiedNorms as StratifiedNorms
from coupledgp.couplings.frequencies.quadrature import (
    QuadratureFrequencies as QuadratureFrequencies,
)
from coupledgp.couplings.frequencies.quadrature import QuasiMonteCarlo as QuasiMonteCarlo
from coupledgp.couplings.frequencies.registry import CouplingLike as CouplingLike
from coupledgp.couplings.frequencies.registry import DirectionsAndNorms as DirectionsAndNorms
from coupledgp.couplings.frequencies.registry import available_couplings as available_couplings
from coupledgp.couplings.frequencies.registry import parse_coupling as parse_coupling
from coupledgp.couplings.frequencies.registry import register_coupling as register_coupling
from coupledgp.couplings.frequencies.registry import register_directions as register_directions
from coupledgp.couplings.frequencies.registry import register_norms as register_norms
from coupledgp.couplings.walkers.lengths import AntitheticLengths as AntitheticLengths
from coupledgp.couplings.walkers.lengths import GeometricLaw as GeometricLaw
from coupledgp.couplings.walkers.lengths import IidLengths as IidLengths
from coupledgp.couplings.walkers.lengths import LengthLaw as LengthLaw
from coupledgp.couplings.walkers.lengths import Lengths as Lengths
from coupledgp.couplings.walkers.lengths import MatchedLaw as MatchedLaw
from coupledgp.couplings.walkers.lengths import MultiSigmaLengths as MultiSigmaLengths
from coupledgp.couplings.walkers.lengths import SigmaLengths as SigmaLengths
from coupledgp.couplings.walkers.lengths import StratifiedLengths as StratifiedLengths
from coupledgp.couplings.walkers.registry import WalkerCoupling as WalkerCoupling
from coupledgp.couplings.walkers.registry import WalkerCouplingLike as WalkerCouplingLike
from coupledgp.couplings.walkers.registry import available_length_laws as available_length_laws
from coupledgp.couplings.walkers.registry import (
    available_walker_couplings as available_walker_couplings,
)
from coupledgp.couplings.walkers.registry import parse_walker_coupling as parse_walker_coupling
from coupledgp.couplings.walkers.registry import register_length_law as register_length_law
from coupledgp.couplings.walkers.registry import register_lengths as register_lengths
from coupledgp.couplings.walkers.registry import register_steps as register_steps
from coupledgp.couplings.walkers.sigma import posterior_weights as posterior_weights
from coupledgp.couplings.walkers.sigma import solve_sigma as solve_sigma
from coupledgp.couplings.walkers.sigma import solve_sigmas as solve_sigmas
from coupledgp.couplings.walkers.steps import IndependentSteps as IndependentSteps
from coupledgp.couplings.walkers.steps import RepellingSteps as RepellingSteps
from coupledgp.couplings.walkers.steps import Steps as Steps
from coupledgp.couplings.walkers.steps import SystematicSteps as SystematicSteps
