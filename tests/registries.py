"""Names that tests register, forgotten afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from coupledgp.core.transforms import TARGET_TRANSFORMS
from coupledgp.couplings.frequencies.registry import COUPLINGS, DIRECTIONS, NORMS
from coupledgp.couplings.walkers.registry import LENGTH_LAWS, LENGTHS, STEPS
from coupledgp.features.registry import FEATURE_MAPS
from coupledgp.kernels.graph_families import GRAPH_KERNELS
from coupledgp.kernels.rows import ROW_KERNELS
from coupledgp.likelihoods.registry import LIKELIHOODS
from coupledgp.registry import Registry
from coupledgp.spectra import SPECTRA

REGISTRIES: list[Registry[Any]] = [
    SPECTRA, DIRECTIONS, NORMS, COUPLINGS, LENGTHS, STEPS, LENGTH_LAWS, FEATURE_MAPS,
    GRAPH_KERNELS, ROW_KERNELS, LIKELIHOODS, TARGET_TRANSFORMS,
]  # fmt: skip


@contextmanager
def forgotten(*registries: Registry[Any]) -> Iterator[None]:
    """Leave registries as they were."""
    named = [(one, dict(one)) for one in registries]
    taken = [(registry.taken, set(registry.taken)) for registry in registries]
    try:
        yield
    finally:
        for objects, before in (*named, *taken):
            objects.clear()
            objects.update(before)
