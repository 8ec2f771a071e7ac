"""A picture of a page: a figure with its name and caption, in the forms that people take away."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coupledgp.diagnostics.pages.scale import GRID, INK, THEME
from coupledgp.diagnostics.pages.scene import Scene
from coupledgp.diagnostics.verdicts.verdict import in_units_of
from coupledgp.ground.notebook import NotebookPicture
from coupledgp.ground.output import write_bytes, write_text
from coupledgp.ground.validation import wrong

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

# Formats of pictures that are saved, and dots per inch of pixels.
FORMATS = ("svg", "png")
DPI = 200
# The same in a notebook, fewer until a picture has at most so many bytes.
NOTEBOOK_DPI, NOTEBOOK_BYTES = (110, 80, 55), 45_000
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
STYLE: Any = {  # matplotlib's stubs name every key
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK,
    "ytick.color": INK, "grid.color": GRID, "font.size": 9, "axes.titlesize": 10,
    "svg.hashsalt": "coupledgp", "svg.fonttype": "none", "axes.formatter.useoffset": False,
}  # fmt: skip
# Where pictures are drawn at present, see `drawn_into`.
_INTO: ContextVar[Any] = ContextVar("into", default=None)


@contextmanager
def drawn_into(axes: Any) -> Iterator[None]:
    """Draw the pictures that are made inside where a person wants them.

    Parameters
    ----------
    axes
        Axes of matplotlib, which pictures of several panels divide; or an empty figure, which takes
        their size; or None, for figures of their own.
    """
    token = _INTO.set(axes)
    try:
        yield
    finally:
        _INTO.reset(token)


def plotted(draw: Callable[[], Picture], axes: Axes | None = None) -> Any:
    """Draw a picture into axes of matplotlib, or into a new figure of pyplot.

    Returns
    -------
    Axes, or NDArray (n,) of them
        The axes of the picture's panels, colour bars left out.

    Raises
    ------
    InvalidInputError
        The axes are none, or belong to no grid that several panels could divide.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from coupledgp.diagnostics.pages import confusion_map, plotted
    >>> axes = Figure().add_subplot()
    >>> plotted(lambda: confusion_map(np.eye(2, dtype=int), ["cat", "dog"]), axes) is axes
    True
    >>> axes.get_ylabel()
    'class'
    """
    if axes is not None and not hasattr(axes, "get_subplotspec"):
        raise wrong("ax", "axes of matplotlib", type(axes))
    before = set() if axes is None else set(axes.figure.figure.axes)
    made: Figure | None = None
    if axes is None:
        from matplotlib import pyplot

        made = pyplot.figure(layout="constrained", facecolor="white")
    try:
        with drawn_into(made if axes is None else axes):
            figure = draw().figure
    except BaseException:
        if made is not None:  # an empty figure would be shown below the error
            pyplot.close(made)
        raise
    own = [one for one in figure.axes if one not in before and one.get_label() != "<colorbar>"]
    shown: list[Any] = [one for one in own if one.get_visible()] or [axes]
    return shown[0] if len(shown) == 1 else np.array(shown)


@dataclass(frozen=True, eq=False)
class Picture:
    """A drawn figure.

    Attributes
    ----------
    name : str
        Short name, of which those of files are made.
    caption : str
        What it shows, in a sentence.
    figure : Figure
        The drawing in light colours.
    scene : Scene or None
        The same values for a viewer in which they can be turned and picked.
    wide : bool
        Whether it needs the width of the page.
    """

    name: str
    caption: str
    figure: Figure
    scene: Scene | None = None
    wide: bool = False

    def named(self, target: str) -> Picture:
        """The picture with the reader's name of y on its axes and in its caption."""
        from matplotlib.text import Text

        if not target:
            return self
        for text in self.figure.findobj(Text):
            text.set_text(in_units_of(text.get_text(), target))
            text.set_parse_math(False)
        return replace(self, caption=in_units_of(self.caption, target))

    def svg(self) -> str:
        """Return the picture as an SVG document in light colours.

        Texts stay texts, so that they can be searched. The same figure gives the same bytes.
        """
        buffer = io.StringIO()
        with styled():
            self.figure.savefig(buffer, format="svg", metadata={"Date": None})
        svg = buffer.getvalue()
        svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg[svg.index("<svg") :], flags=re.DOTALL)
        return re.sub(r"font-family: [^;\"]*", f"font-family: {FONT}", svg)

    def inline(self, name: str) -> str:
        """Return the SVG element for a page: as wide as its place, in colours of the page.

        Its identifiers begin with a name that no other picture of the page has.
        """
        svg = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', 'width="100%"', self.svg(), count=1)
        svg = svg.replace(' style="fill: #ffffff"', ' style="fill: none"', 1)  # the paper
        svg = re.sub(r"font-family: [^;\"]*;? ?", "", svg)
        svg = re.sub(r"#[0-9a-f]{6}\b", _themed, svg)
        svg = re.sub(r' d="[^"]*"', _rounded, svg)
        svg = re.sub(r'\bid="', f'id="{name}-', svg)
        svg = re.sub(r"url\(#", f"url(#{name}-", svg)
        return re.sub(r'xlink:href="#', f'xlink:href="#{name}-', svg)

    def in_notebook(self) -> NotebookPicture:
        """Return the picture as PNG for a notebook, in fewer pixels where they take much room."""
        png = b""
        for dpi in NOTEBOOK_DPI:
            png = self._pixels(dpi)
            if len(png) <= NOTEBOOK_BYTES:
                break
        return NotebookPicture(png, self.caption)

    def save(self, path: Path, form: str) -> None:
        """Write the picture as a file of a format, `"svg"` or `"png"`."""
        if form == "svg":
            write_text(path, self.svg() + "\n")
            return
        write_bytes(path, self._pixels(DPI))

    def _pixels(self, dpi: float) -> bytes:
        buffer = io.BytesIO()
        with styled():
            self.figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
        return buffer.getvalue()


def _rounded(found: re.Match[str]) -> str:
    """A path in hundredths of a point, which is half of its letters."""
    return re.sub(r"(\.\d\d)\d+", r"\1", found[0])


def _themed(found: re.Match[str]) -> str:
    """A colour by its name in the style sheet, where it has one."""
    colour = found[0]
    return f"var(--{THEME[colour][0]}, {colour})" if colour in THEME else colour


def styled() -> AbstractContextManager[None]:
    """Have figures drawn in the style of pages."""
    import matplotlib as mpl  # an extra, and slow

    return mpl.rc_context(STYLE)


def _figure(width: float, height: float, dpi: float | None) -> Figure:
    """An empty figure of a width and height in inches, or that of `drawn_into`."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    into = _INTO.get()
    if isinstance(into, Figure):
        into.set_size_inches(width, height)
        return into
    if into is not None:
        return into.figure.figure
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white", dpi=dpi)
    FigureCanvasSVG(figure)
    return figure


def panels_of(
    width: float,
    height: float,
    n_rows: int = 1,
    n_columns: int = 1,
    *,
    dpi: float | None = None,
    **options: Any,
) -> tuple[Figure, NDArray[Any]]:
    """Return a figure of a width and height in inches, and its axes (n_rows, n_columns).

    `dpi` is that of the pixels in a figure of a page. Within `drawn_into(axes)` these are the axes
    that were given, divided where there are several.
    """
    with styled():
        figure, into = _figure(width, height, dpi), _INTO.get()
        if into is None or into is figure:
            return figure, figure.subplots(n_rows, n_columns, squeeze=False, **options)
        if n_rows * n_columns == 1:
            return figure, np.array([[into]])
        place = into.get_subplotspec()
        if place is None:
            raise wrong("ax", f"axes of a grid of a figure for {n_rows * n_columns} panels", into)
        into.set_axis_off()
        return figure, place.subgridspec(n_rows, n_columns).subplots(squeeze=False, **options)


def axes_of(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure of a width and height in inches, and its only axes."""
    figure, panels = panels_of(width, height)
    axes: Axes = panels[0, 0]
    plain_frame(axes)
    axes.set_axisbelow(True)
    return figure, axes


def plain_frame(axes: Axes) -> None:
    """Leave of a frame what a reader needs: two sides and a faint grid."""
    axes.set_facecolor("none")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.7, linewidth=0.6)


def legend(figure: Figure, axes: Axes, columns: int = 3) -> None:
    """Put the legend above the axes, where it covers nothing; inside axes that were given."""
    handles, labels = axes.get_legend_handles_labels()
    if not handles:
        return
    style: dict[str, Any] = {"frameon": False, "fontsize": 8, "labelcolor": INK}
    if _INTO.get() is axes:
        axes.legend(handles, labels, **style)
        return
    figure.legend(
        handles, labels, loc="outside upper left", ncols=min(len(handles), columns),
        handlelength=1.6, columnspacing=1.4, **style,
    )  # fmt: skip


def number(value: float, _: Any = None) -> str:
    """A number for an axis: short, with a power of ten where it is extreme."""
    text, sign = f"{abs(value):.4g}", "\N{MINUS SIGN}" if value < 0 else ""
    if "e" not in text:
        return sign + text
    digits, power = f"{abs(value):.3g}".split("e")
    raised = str(int(power)).translate(SUPERSCRIPTS)
    return f"{sign}10{raised}" if digits == "1" else f"{sign}{digits}·10{raised}"


def log_axis(axis: Axis, ticks: list[float] | None = None) -> None:
    """Label an axis of logarithms at three ticks or so, also within one power of ten."""
    from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter

    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(number)
    if ticks is not None:
        axis.set_major_locator(FixedLocator(ticks))
        axis.set_minor_locator(FixedLocator([]))
        return
    low, high = sorted(axis.get_view_interval())
    decades = float("inf") if low <= 0 else high / low
    subs = (1.0, 2.0, 5.0) if decades < 1000 else (1.0,)
    if decades < 4:  # within less than a power of ten, ticks at equal steps
        axis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    else:
        axis.set_major_locator(LogLocator(subs=subs, numticks=7))


def plain_axis(axis: Axis, ticks: int = 5) -> None:
    """Label an axis of plain numbers, each in full."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(ticks))
    axis.set_major_formatter(number)
