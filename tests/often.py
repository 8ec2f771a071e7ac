"""Cases of a test that run at every change; the others run in `make long`."""

from collections.abc import Iterable
from typing import Any

import pytest


def often(cases: Iterable[Any], *kept: Any) -> list[Any]:
    """Mark all cases but the named ones as long."""
    cases = list(cases)
    assert all(one in cases for one in kept), kept
    return [case if case in kept else pytest.param(case, marks=pytest.mark.long) for case in cases]
