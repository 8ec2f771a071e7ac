"""Couplings: joint laws with fixed marginals.

A frequency is a direction times a norm. A coupling fixes how the directions and the norms of an
ensemble depend on each other; each frequency alone always follows the kernel's spectrum. The text
form `directions[+norms][+antithetic]` names one everywhere in the package.

Walkers on a graph are lengths times steps, `lengths[+steps]` in text; nodes are independent.
"""

from coupledgp.couplings.frequencies.base import FrequencyCoupling
from coupledgp.couplings.frequencies.copula import GaussianCopulaNorms
from coupledgp.couplings.frequencies.directions import (
    Directions,
    IidDirections,
    OrthogonalDirections,
)
from coupledgp.couplings.frequencies.hadamard import FastDirections, StructuredFrequencies
from coupledgp.couplings.frequencies.norms import (
    IndependentNorms,
    MonotoneNorms,
    Norms,
    PairwiseNorms,
    StratifiedNorms,
)
from coupledgp.couplings.frequencies.qmc import QuasiMonteCarlo
from coupledgp.couplings.frequencies.quadrature import QuadratureFrequencies
from coupledgp.couplings.frequencies.registry import (
    CouplingLike,
    DirectionsAndNorms,
    available_couplings,
    parse_coupling,
    register_coupling,
    register_directions,
    register_norms,
)
from coupledgp.couplings.frequencies.simplex import SimplexDirections, SimplexPlusDirections
from coupledgp.couplings.walkers.length_laws import GeometricLaw, LengthLaw, MatchedLaw
from coupledgp.couplings.walkers.lengths import (
    AntitheticLengths,
    IidLengths,
    Lengths,
    SigmaLengths,
    StratifiedLengths,
)
from coupledgp.couplings.walkers.registry import (
    WalkerCoupling,
    WalkerCouplingLike,
    available_walker_couplings,
    parse_walker_coupling,
    register_lengths,
    register_steps,
)
from coupledgp.couplings.walkers.sigma import solve_sigma
from coupledgp.couplings.walkers.sigma_weights import posterior_weights
from coupledgp.couplings.walkers.steps import (
    IndependentSteps,
    RepellingSteps,
    Steps,
    SystematicSteps,
)

__all__ = [
    "AntitheticLengths",
    "CouplingLike",
    "Directions",
    "DirectionsAndNorms",
    "FastDirections",
    "FrequencyCoupling",
    "GaussianCopulaNorms",
    "GeometricLaw",
    "IidDirections",
    "IidLengths",
    "IndependentNorms",
    "IndependentSteps",
    "LengthLaw",
    "Lengths",
    "MatchedLaw",
    "MonotoneNorms",
    "Norms",
    "OrthogonalDirections",
    "PairwiseNorms",
    "QuadratureFrequencies",
    "QuasiMonteCarlo",
    "RepellingSteps",
    "SigmaLengths",
    "SimplexDirections",
    "SimplexPlusDirections",
    "Steps",
    "StratifiedLengths",
    "StratifiedNorms",
    "StructuredFrequencies",
    "SystematicSteps",
    "WalkerCoupling",
    "WalkerCouplingLike",
    "available_couplings",
    "available_walker_couplings",
    "parse_coupling",
    "parse_walker_coupling",
    "posterior_weights",
    "register_coupling",
    "register_directions",
    "register_lengths",
    "register_norms",
    "register_steps",
    "solve_sigma",
]
