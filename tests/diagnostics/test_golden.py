"""Reports have the figures, p-values and colours that are stored."""

import json

import pytest

from tests.diagnostics import golden
from tests.often import often

STORED = json.loads(golden.PATH.read_text())


# One of each kind of model and of fault; `make long` has all.
KEPT = (
    "exact matern",
    "sparse noise too small",
    "local",
    "classifier",
    "counts",
    "time",
    "audit counts",
)


@pytest.mark.parametrize("name", often(golden.CASES, *KEPT))
def test_a_report_is_as_stored(name: str) -> None:
    """Colours are equal; figures, p-values and what a search found are within their tolerances."""
    assert golden.differences(name, STORED[name], golden.golden(name)) == []
