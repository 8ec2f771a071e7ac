"""Couplings: joint laws with fixed marginals.

A frequency is a direction times a norm. A coupling fixes how the directions and the norms of an
ensemble depend on each other; each frequency alone always follows the kernel's spectrum. The text
form `directions[+norms][+antithetic]` names one everywhere in the package.
"""

from coupledgp.couplings.base import FrequencyCoupling
from coupledgp.couplings.directions import Directions, IidDirections, OrthogonalDirections
from coupledgp.couplings.frequencies import (
    CouplingLike,
    DirectionsAndNorms,
    available_couplings,
    parse_coupling,
    register_coupling,
    register_directions,
    register_norms,
)
from coupledgp.couplings.norms import (
    IndependentNorms,
    MonotoneNorms,
    Norms,
    PairwiseNorms,
    StratifiedNorms,
)
from coupledgp.couplings.qmc import QuasiMonteCarlo

__all__ = [
    "CouplingLike",
    "Directions",
    "DirectionsAndNorms",
    "FrequencyCoupling",
    "IidDirections",
    "IndependentNorms",
    "MonotoneNorms",
    "Norms",
    "OrthogonalDirections",
    "PairwiseNorms",
    "QuasiMonteCarlo",
    "StratifiedNorms",
    "available_couplings",
    "parse_coupling",
    "register_coupling",
    "register_directions",
    "register_norms",
]
