"""Fits and searches of a few steps, which take all the turns that hundreds of steps take."""

from functools import partial

import pytest

from coupledgp.tables import (
    exact_members,
    latent_kernels,
    member_kinds,
    near_members,
    race,
    tree_members,
)
from coupledgp.tables import spectrum_search as fit_spectrum
from coupledgp.tables.local_search import Round


def take_few_steps(patch: pytest.MonkeyPatch) -> None:
    """Let every fit of frequencies end after a few steps."""
    patch.setattr(fit_spectrum, "KLSettings", partial(fit_spectrum.KLSettings, n_steps=4))


def search_little(patch: pytest.MonkeyPatch) -> None:
    """Let searches for local models, and for members of the front door, see few rows and steps."""
    rounds = (Round(128, 8), Round(256, 8))
    for module in (exact_members, tree_members):
        patch.setattr(module, "EXACT_ROUNDS", rounds)
    patch.setattr(near_members, "NEAR_ROUNDS", rounds)
    patch.setattr(near_members, "FITTED_ROUNDS", rounds)
    patch.setattr(member_kinds, "SCREENED_ROWS", 100)
    patch.setattr(race, "LAP_ROWS", 60)
    patch.setattr(race, "LAST_ITERATIONS", 5)
    patch.setattr(latent_kernels, "LATENT_ROUNDS", (Round(60, 2),))
    patch.setattr(latent_kernels, "EXACT_KERNELS", latent_kernels.EXACT_KERNELS[:1])
