"""Names that tests register, forgotten afterwards."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import coupledgp
from coupledgp.core.transforms import TARGET_TRANSFORMS
from coupledgp.couplings.frequencies.registry import COUPLINGS, DIRECTIONS, NORMS
from coupledgp.couplings.walkers.registry import LENGTH_LAWS, LENGTHS, STEPS
from coupledgp.diagnostics.residuals.checks import CHECKS
from coupledgp.diagnostics.scoring.score_table import SCORES
from coupledgp.diagnostics.sections.section import SECTIONS
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


@cache
def import_sections() -> None:
    """Import what registers sections of the package when it is imported, which would be lost."""
    root = Path(str(coupledgp.__file__)).parent
    for path in sorted(root.rglob("*.py")):
        if re.search(r"^ *register_section\(", path.read_text(encoding="utf-8"), re.MULTILINE):
            import_module(".".join(path.relative_to(root.parent).with_suffix("").parts))


@contextmanager
def forgotten(*registries: Registry[Any]) -> Iterator[None]:
    """Leave registries, and the scores, checks and sections of reports, as they were."""
    import_sections()
    named = [(one, dict(one)) for one in (*registries, SCORES, CHECKS)]
    taken = [(registry.taken, set(registry.taken)) for registry in registries]
    sections = list(SECTIONS)
    try:
        yield
    finally:
        for objects, before in (*named, *taken):
            objects.clear()
            objects.update(before)
        SECTIONS[:] = sections
