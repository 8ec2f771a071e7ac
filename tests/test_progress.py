"""Progress on a terminal, in a notebook and as lines, and its forecast."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

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


@pytest.fixture
def notebook(monkeypatch):
    """A kernel of Jupyter, and the HTML that it shows, in order."""
    shown = []

    class Handle:
        def update(self, html):
            shown.append(html)

    def display(html, display_id):
        assert display_id is True
        shown.append(html)
        return Handle()

    shell = SimpleNamespace(kernel=object())
    ipython, drawn = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: shell
    drawn.HTML, drawn.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", drawn)
    shown.append(shell)
    return shown


def test_a_notebook_shows_a_bar_that_goes(notebook, clock):
    notebook.clear()
    with reporter("fit") as tell:
        tell("kernel 1 of 4")
        assert not notebook  # work of half a second shows nothing
        clock.now += 2
        tell("kernel <2> of 4 is no count")
        clock.now += 0.1
        tell("kernel 3 of 4")  # too soon to be seen
        clock.now += 2
        tell("kernel 3 of 4")
    first, second, last = notebook
    assert first == "<progress></progress> fit: kernel &lt;2&gt; of 4 is no count"
    assert second == '<progress value="0.500"></progress> fit: kernel 3 of 4, about 2 s left'
    assert last == ""


def test_errors_take_the_bar_away_and_false_shows_none(notebook, clock):
    notebook.clear()

    def work():
        with reporter("fit") as tell:
            clock.now += 2
            tell("rows")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert notebook[-1] == ""
    notebook.clear()
    with reporter("fit", False) as tell:
        clock.now += 2
        tell("rows")
    assert not notebook


def test_a_shell_without_a_kernel_is_no_notebook(notebook):
    del notebook[0].kernel
    assert not progress.in_notebook()


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
