"""Figures of matplotlib: colours, axes, and pictures as SVG, PNG and PDF."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coupledgp.ground.output import write_bytes
from coupledgp.ground.validation import wrong
from coupledgp.random import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from coupledgp.diagnostics.render.scenes import Scene

# Values that vary by less than this share of the largest are called nearly constant.
NEARLY_CONSTANT = 0.1
# Palettes of means, standard deviations and errors.
MEANS, SPREADS, ERRORS = "viridis", "magma", "RdBu"


@dataclass(frozen=True)
class Scale:
    """Colours of values.

    Attributes
    ----------
    low, high : float
        Values of the first and the last colour.
    palette : str
        Name of matplotlib's palette.
    note : str
        What a reader has to know of the scale; may be empty.
    """

    low: float
    high: float
    palette: str
    note: str = ""

    def mappable(self) -> Any:
        """Return matplotlib's object of the scale, with `to_rgba(values)`."""
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize

        return ScalarMappable(Normalize(self.low, self.high), self.palette)


class Quantity(NamedTuple):
    """Values of a map: name, title, values with NaN where there are none, and colours.

    Values are (n,), or (n, T) at T times.
    """

    name: str
    title: str
    values: FloatArray
    scale: Scale


def mean_scale(values: FloatArray, std: FloatArray) -> Scale:
    """Scale over means (n,); at least as wide as a tenth of the median standard deviation."""
    low, high = _range(values)
    least = NEARLY_CONSTANT * float(np.nanmedian(std))
    if high - low >= least and high > low:
        return Scale(low, high, MEANS)
    middle, half = (low + high) / 2, max(least, 1e-12 * abs(low), 1e-300) / 2
    return Scale(middle - half, middle + half, MEANS, _constant(low, high))


def spread_scale(values: FloatArray) -> Scale:
    """Scale of standard deviations (n,), from zero."""
    low, high = _range(values)
    note = _constant(low, high) if high - low <= NEARLY_CONSTANT * high else ""
    return Scale(0.0, high if high > 0 else 1.0, SPREADS, note)


def error_scale(values: FloatArray) -> Scale:
    """Scale of errors (n,), about zero."""
    low, high = _range(values)
    limit = max(abs(low), abs(high)) or 1.0
    return Scale(-limit, limit, ERRORS)


def _range(values: FloatArray) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)


def _constant(low: float, high: float) -> str:
    return f"nearly constant: {low:.4g} to {high:.4g}"


# Colours of the model, of the reference and of simple baselines, on every picture and table.
MODEL, REFERENCE, BASELINE = "#0b6e99", "#d9730d", "#7a7f85"
# Colour of what needs attention, such as targets outside their intervals.
ALERT = "#c4314b"
# Colours of texts, of reference lines and of grids, and of halos around texts.
INK, GUIDE, GRID, PAPER = "#1f2328", "#6e7781", "#d0d7de", "#fdfdfd"
# Colours of couplings, none of them a model's or a reference's, distinguishable without colour
# vision; on paper their markers are.
COLOURS = ("#448361", "#9065b0", "#c14c8a", "#b07c14", "#4f5fc4", "#8c5a3c", "#2a8f9d", "#3f464d")
MARKERS = "osD^vPX*"
# Names of the colours in the style sheet, and their lighter shades for dark paper.
THEME: dict[str, tuple[str, str]] = {
    MODEL: ("model", "#56b4e0"),
    REFERENCE: ("reference", "#f2a154"),
    BASELINE: ("baseline", "#9aa3ab"),
    ALERT: ("alert", "#ff7b8a"),
    INK: ("ink", "#e6e8ea"),
    GUIDE: ("guide", "#9aa3ab"),
    GRID: ("grid", "#3a4149"),
    PAPER: ("paper", "#14171b"),
    COLOURS[0]: ("coupling-0", "#74c69d"),
    COLOURS[1]: ("coupling-1", "#c09be0"),
    COLOURS[2]: ("coupling-2", "#ee85b8"),
    COLOURS[3]: ("coupling-3", "#e3b95c"),
    COLOURS[4]: ("coupling-4", "#93a0ff"),
    COLOURS[5]: ("coupling-5", "#cf9a7a"),
    COLOURS[6]: ("coupling-6", "#6fd0de"),
    COLOURS[7]: ("coupling-7", "#c3cad1"),
}


def coupling_style(k: int) -> dict[str, Any]:
    """Return colour and marker of coupling k."""
    return {"color": COLOURS[k % len(COLOURS)], "marker": MARKERS[k % len(MARKERS)]}


# Formats of saved pictures, and dots per inch of PNG.
FORMATS, DPI = ("svg", "png", "pdf"), 200
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
STYLE: Any = {  # matplotlib's stubs name every key
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK,
    "ytick.color": INK, "grid.color": GRID, "font.size": 9, "axes.titlesize": 10,
    "svg.hashsalt": "coupledgp", "svg.fonttype": "none", "pdf.fonttype": 42,
    "axes.formatter.useoffset": False,
}  # fmt: skip
# Axes or figure into which pictures are drawn at present, see `drawn_into`.
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
    >>> from coupledgp.diagnostics.render import confusion_map, plotted
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
    caption : str
        What it shows, in a sentence.
    figure : Figure
        The drawing in light colours.
    scene : Scene or None
        The same values for a viewer in which they can be turned and picked.
    """

    caption: str
    figure: Figure
    scene: Scene | None = None

    def named(self, target: str) -> Picture:
        """The picture with the reader's name of y on its axes and in its caption."""
        from matplotlib.text import Text

        if not target:
            return self
        for text in self.figure.findobj(Text):
            text.set_text(text.get_text().replace("units of y", f"units of {target}"))
            text.set_parse_math(False)
        return replace(self, caption=self.caption.replace("units of y", f"units of {target}"))

    def inline(self, name: str) -> str:
        """The SVG element for a page: as wide as its place, in colours of the page.

        Texts stay texts, so that they can be searched. Identifiers begin with `name`, which no
        other picture of the page has. The same figure gives the same bytes.
        """
        svg = self._bytes("svg").decode()
        svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg[svg.index("<svg") :], flags=re.DOTALL)
        svg = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', 'width="100%"', svg, count=1)
        svg = svg.replace(' style="fill: #ffffff"', ' style="fill: none"', 1)  # the paper
        svg = re.sub(r"font-family: [^;\"]*;? ?", "", svg)
        svg = re.sub(r"#[0-9a-f]{6}\b", _themed, svg)
        svg = re.sub(r' d="[^"]*"', lambda found: re.sub(r"(\.\d)\d+", r"\1", found[0]), svg)
        svg = re.sub(r'\bid="', f'id="{name}-', svg)
        svg = re.sub(r"url\(#", f"url(#{name}-", svg)
        return re.sub(r'xlink:href="#', f'xlink:href="#{name}-', svg)

    def save(self, path: str | Path) -> None:
        """Write the picture as SVG, PNG (200 dots an inch) or PDF, by the ending of the path.

        Raises
        ------
        InvalidInputError
            The path has another ending.
        """
        form = Path(path).suffix.lstrip(".").lower()
        if form not in FORMATS:
            endings = ", ".join(f".{one}" for one in FORMATS)
            raise wrong("path", f"an ending of {endings}", str(path))
        write_bytes(path, self._bytes(form))

    def _bytes(self, form: str) -> bytes:
        undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}
        buffer = io.BytesIO()
        with styled():
            self.figure.savefig(buffer, format=form, dpi=DPI, metadata=undated[form])
        content = buffer.getvalue()
        if form == "svg":
            text = re.sub(r"font-family: [^;\"]*", f"font-family: {FONT}", content.decode())
            content = text.encode()
        return content


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
    if 1e4 <= abs(value) < 1e7:
        return f"{sign}{abs(value):,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")
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
