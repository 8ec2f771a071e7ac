"""Names that tests register, forgotten afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from coupledgp.registry import Registry


@contextmanager
def forgotten(*registries: Registry[Any]) -> Iterator[None]:
    """Leave registries as they were."""
    before = [set(registry.known) for registry in registries]
    try:
        yield
    finally:
        for registry, names in zip(registries, before, strict=True):
            for name in set(registry.known) - names:
                registry.unregister(name)
