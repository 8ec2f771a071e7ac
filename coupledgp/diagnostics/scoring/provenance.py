"""Versions of the software that figures were computed with."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

# Packages whose code changes figures in their last digits.
PACKAGES = ("coupledgp", "numpy", "scipy", "torch", "gpytorch", "numba", "scikit-learn")


def versions() -> dict[str, str]:
    """Return the versions of Python, of the platform and of the installed numerical packages."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
