"""Fits and searches of a few steps, which take all the turns that hundreds of steps take."""

from functools import partial

import pytest

from coupledgp.search.minimise import Stopping
from coupledgp.search.tables import spectra as fit_spectrum
from coupledgp.search.tables import variance_field
from coupledgp.search.tables.local import Round
from coupledgp.selection import (
    exact_members,
    latent_kernels,
    member_kinds,
    near_members,
    tree_members,
)


def take_few_steps(patch: pytest.MonkeyPatch) -> None:
    """Let every fit of frequencies end after a few steps."""
    patch.setattr(fit_spectrum, "KLSettings", partial(fit_spectrum.KLSettings, n_steps=4))


def search_little(patch: pytest.MonkeyPatch) -> None:
    """Let searches for local models, and for members of the front door, see few rows and steps."""
    rounds = (Round(128, 8), Round(256, 8))
    for module in (exact_members, tree_members):
        patch.setattr(module, "EXACT_ROUNDS", rounds)
    patch.setattr(near_members, "LOCAL_ROUNDS", rounds)
    patch.setattr(near_members, "FITTING_ROUNDS", rounds)
    patch.setattr(member_kinds, "SCREENING", rounds[:1])
    patch.setattr(variance_field, "STOPPING", Stopping(6))
    patch.setattr(variance_field, "FREQUENCIES", 4)
    patch.setattr(latent_kernels, "LATENT_ROUNDS", (Round(60, 2),))
    patch.setattr(latent_kernels, "EXACT_KERNELS", latent_kernels.EXACT_KERNELS[:1])
