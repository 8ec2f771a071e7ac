"""Fits and searches of a few steps, which take all the turns that hundreds of steps take."""

from dataclasses import replace
from functools import partial

import pytest

from coupledgp.search.tables import spectra as fit_spectrum
from coupledgp.selection import member_plans, members


def take_few_steps(patch: pytest.MonkeyPatch) -> None:
    """Let every fit of frequencies end after a few steps."""
    usual = fit_spectrum.EvidenceSettings()
    stages = {
        name: tuple(replace(stage, n_steps=2) for stage in getattr(usual, name))
        for name in ("annealed", "plain")
    }
    patch.setattr(
        fit_spectrum, "EvidenceSettings", partial(fit_spectrum.EvidenceSettings, **stages)
    )
    patch.setattr(fit_spectrum, "KLSettings", partial(fit_spectrum.KLSettings, n_steps=4))


def search_little(patch: pytest.MonkeyPatch) -> None:
    """Let searches for local models, and for members of the front door, see few rows and steps."""
    rounds = (member_plans.Round(128, 8), member_plans.Round(256, 8))
    for module in (members, member_plans):
        for name in ("LOCAL_ROUNDS", "FITTING_ROUNDS", "EXACT_ROUNDS"):
            patch.setattr(module, name, rounds)
        patch.setattr(module, "SCREENING", rounds[:1])
