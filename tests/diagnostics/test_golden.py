"""Reports have the figures, p-values and colours that are stored."""

import json

import pytest

from tests.diagnostics import golden

STORED = json.loads(golden.PATH.read_text())


@pytest.mark.parametrize("name", golden.CASES)
def test_a_report_is_as_stored(name: str) -> None:
    """Colours are equal; figures, p-values and what a search found are within their tolerances."""
    assert golden.differences(name, STORED[name], golden.golden(name)) == []
