"""Pictures of reports and results in axes of matplotlib."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes

from coupledgp.diagnostics.pages.picture import Picture, axes_of, drawn_into, panels_of, plotted
from coupledgp.errors import InvalidInputError
from tests.diagnostics.page_cases import surface_map, table_report


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


def line():
    figure, axes = axes_of(3.0, 2.0)
    axes.plot([0, 1], [2, 5])
    return Picture("line", "A line", figure)


def pair():
    figure, axes = panels_of(5.0, 2.0, 1, 2, sharey=True)
    for one in axes[0]:
        one.plot([0, 1], [2, 5])
    return Picture("pair", "Two lines", figure)


def test_a_picture_is_drawn_into_axes_that_are_given():
    figure, (first, second) = pyplot.subplots(1, 2)
    assert plotted(line, second) is second
    assert not first.lines
    assert second.lines[0].get_ydata().tolist() == [2, 5]
    assert len(figure.axes) == 2


def test_several_panels_divide_the_axes():
    figure, axes = pyplot.subplots(1, 3)
    found = plotted(pair, axes[1])
    assert found.shape == (2,)
    assert not axes[1].axison
    place, inner = axes[1].get_position(), [one.get_position() for one in found]
    assert place.x0 <= inner[0].x0 < inner[0].x1 <= inner[1].x0 < inner[1].x1 <= place.x1 + 1e-9
    assert all(one.lines for one in found)
    assert set(figure.axes) == {*axes, *found}


def test_without_axes_a_figure_of_pyplot_has_the_size_of_the_picture():
    axes = plotted(line)
    assert isinstance(axes, Axes)
    assert pyplot.get_fignums() == [axes.figure.number]
    assert axes.figure.get_size_inches().tolist() == [3.0, 2.0]
    assert plotted(pair).shape == (2,)


def test_pages_draw_figures_of_their_own_afterwards():
    plotted(line)
    assert len(pyplot.get_fignums()) == 1
    assert line().figure is not pyplot.gcf()
    with pytest.raises(ZeroDivisionError), drawn_into(pyplot.gca()):
        raise ZeroDivisionError
    line()
    assert len(pyplot.get_fignums()) == 1


def test_colour_bars_are_no_panels():
    assert surface_map().plot().shape == (2,)


def test_axes_of_no_grid_are_refused_where_panels_need_one():
    axes = pyplot.figure().add_axes((0, 0, 1, 1))
    plotted(line, axes)
    with pytest.raises(InvalidInputError, match="ax: expected axes of a grid of a figure for 2"):
        plotted(pair, axes)
    with pytest.raises(InvalidInputError, match="ax: expected axes of matplotlib, got str"):
        plotted(line, "axes")


@pytest.mark.long
def test_reports_plot_the_first_picture_or_one_by_name():
    report = table_report()
    p = report.predictions
    drawn = report.plot()
    points = np.concatenate([np.column_stack(one.get_data()) for one in drawn.lines[:-1]])
    assert {tuple(row) for row in points.tolist()} == set(
        zip(p.mean.ravel().tolist(), p.y.ravel().tolist(), strict=True)
    )
    assert report.plot("calibration").get_ylabel() == "share of targets inside"
    axes = pyplot.subplots()[1]
    assert report.plot("pit", ax=axes) is axes
    with pytest.raises(InvalidInputError, match=r"name: expected one of .*did you mean 'pit'"):
        report.plot("pitt")
