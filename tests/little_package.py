"""A little distribution that adds an object of every kind by entry points."""

from collections.abc import Mapping
from pathlib import Path

# The frequencies and walks of these are those of the package's own where nothing else is said.
MODULE = '''"""Objects of a user's own, one of every kind."""

from dataclasses import dataclass

import numpy as np

from coupledgp.couplings import (
    DirectionsAndNorms, FrequencyCoupling, GeometricLaw, IidLengths, IndependentSteps, Norms,
    OrthogonalDirections,
)
from coupledgp.features import AngularHybridFeatures, FourierFeatures
from coupledgp.gp.transforms import Log
from coupledgp.kernels import HeatKernel, Linear
from coupledgp.likelihoods import Poisson
from coupledgp.spectra import MaternSpectrum


@dataclass(frozen=True)
class TurnedDirections(OrthogonalDirections):
    def sample(self, norms, dim, rng):
        return -super().sample(norms, dim, rng)


@dataclass(frozen=True)
class MirroredNorms(Norms):
    def sample(self, n, block_size, rng):
        u = np.clip(rng.uniform(size=n), 2**-53, 1 - 2**-53)
        return np.where(np.arange(n) % 2, 1 - np.roll(u, 1), u)


class Turned(FrequencyCoupling):  # neither a dataclass nor with an equality or a text of its own
    def _sample(self, n_frequencies, dim, spectrum, rng):
        return -DirectionsAndNorms().sample(n_frequencies, dim, spectrum, rng)


class OwnLengths(IidLengths):
    pass


class OwnSteps(IndependentSteps):
    pass


class OwnFeatures(FourierFeatures):
    couplings_to_try = ("iid", "whole-turned")


class OwnSoftmaxFeatures(AngularHybridFeatures):
    pass


@dataclass(frozen=True, eq=False)
class OwnHeat(HeatKernel):
    slower: float = 2.0

    @property
    def heat(self):
        """The heat kernel that this is, at another time."""
        return HeatKernel(self.time * self.slower)

    def root(self, x):
        return self.heat.root(x)

    def root_gradient(self, x):
        return self.heat.root_gradient(x)

    def modulation(self, n_terms):
        return self.heat.modulation(n_terms)

    def modulation_gradient(self, n_terms):
        return self.heat.modulation_gradient(n_terms)

    def tail(self, n_terms):
        return self.heat.tail(n_terms)


@dataclass(frozen=True)
class OwnTransform(Log):
    name = "own-transform"


class OwnRows(Linear):
    def __str__(self):
        return "own-rows"


class OwnCounts(Poisson):
    pass


rough, short = MaternSpectrum(0.75), GeometricLaw(0.4)
'''
ENTRY_POINTS = {
    "coupledgp.spectra": {"rough": "rough"},
    "coupledgp.directions": {"turned": "TurnedDirections"},
    "coupledgp.norms": {"mirrored": "MirroredNorms"},
    "coupledgp.couplings": {"whole-turned": "Turned"},
    "coupledgp.walker_lengths": {"own-lengths": "OwnLengths"},
    "coupledgp.walker_steps": {"own-steps": "OwnSteps"},
    "coupledgp.length_laws": {"short": "short"},
    "coupledgp.features": {"own-features": "OwnFeatures"},
    "coupledgp.softmax_features": {"own-softmax": "OwnSoftmaxFeatures"},
    "coupledgp.graph_kernels": {"own-heat": "OwnHeat"},
    "coupledgp.row_kernels": {"own-rows": "OwnRows"},
    "coupledgp.likelihoods": {"own-counts": "OwnCounts"},
    "coupledgp.target_transforms": {"own-transform": "OwnTransform"},
}


def install(
    folder: Path,
    name: str,
    module: str = MODULE,
    entry_points: Mapping[str, Mapping[str, str]] = ENTRY_POINTS,
) -> Path:
    """Write a module and the metadata of a distribution that holds it; return the folder.

    The folder on `sys.path` is all that an installed distribution is.
    """
    (folder / f"{name}.py").write_text(module, encoding="utf-8")
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    metadata.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8"
    )
    lines = []
    for group, entries in entry_points.items():
        lines.append(f"[{group}]")
        lines += [f"{entry} = {name}:{attribute}" for entry, attribute in entries.items()]
    metadata.joinpath("entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
