"""What a figure depends on besides data and seed: the versions it was computed with."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("coupledgp", "numpy", "scipy", "torch", "gpytorch", "numba", "scikit-learn")


def versions() -> dict[str, str]:
    """Versions of Python, the platform and the packages that compute."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
