"""Progress on a terminal, in a notebook and as lines, and its forecast."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from coupledgp.ground import progress
from coupledgp.ground.progress import TimeLeft, reporter


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands until it is told."""
    hands = SimpleNamespace(now=100.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: hands.now)
    return hands


def test_counts_forecast_the_rest_by_their_own_pace(clock):
    forecast = TimeLeft()
    assert forecast.of("read the rows") == (None, "")
    assert forecast.of("kernel 1 of 5") == (0.0, "")
    clock.now += 3
    assert forecast.of("kernel 2 of 5") == (0.2, "about 12 s left")
    clock.now += 1
    assert forecast.of("kernel 3 of 5") == (0.4, "about 6 s left")
    assert forecast.of("fold 1 of 2") == (0.0, "")  # other words begin anew
    clock.now += 7
    assert forecast.of("fold 2 of 2") == (0.5, "about 7 s left")


def test_a_time_of_the_whole_goes_before_counts_of_parts(clock):
    forecast = TimeLeft()
    assert forecast.of("exact, local: about 40 s of one core") == (0.0, "about 40 s left")
    clock.now += 10
    assert forecast.of("fold 1 of 5") == (0.25, "about 30 s left")
    clock.now += 100
    assert forecast.of("fold 2 of 5") == (progress.MOST_DONE, "longer than forecast")


def test_asked_for_without_a_terminal_there_is_a_line_in_five_seconds(clock, capsys):
    with reporter("fit", True) as tell:
        for k in range(1, 9):
            tell(f"kernel {k} of 8")
            clock.now += 1.5
    assert capsys.readouterr().err.splitlines() == [
        "fit: kernel 1 of 8", "fit: kernel 5 of 8, about 6 s left",
    ]  # fmt: skip
    with reporter("fit") as tell:
        tell("kernel 1 of 8")
    assert capsys.readouterr().err == ""
