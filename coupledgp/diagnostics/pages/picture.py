"""A picture of a page: a figure with its name and caption, in the forms that people take away."""

from __future__ import annotations

import io
import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coupledgp.diagnostics.pages.palette import GRID, INK, THEME
from coupledgp.diagnostics.pages.scene import Scene
from coupledgp.ground.output import write_bytes, write_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Formats of pictures that are saved, and dots per inch of pixels.
FORMATS = ("svg", "png")
DPI = 200
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
STYLE: Any = {  # matplotlib's stubs name every key
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK,
    "ytick.color": INK, "grid.color": GRID, "font.size": 9, "axes.titlesize": 10,
    "svg.hashsalt": "coupledgp", "svg.fonttype": "none", "axes.formatter.useoffset": False,
}  # fmt: skip


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

    def save(self, path: Path, form: str) -> None:
        """Write the picture as a file of a format, `"svg"` or `"png"`."""
        if form == "svg":
            write_text(path, self.svg() + "\n")
            return
        buffer = io.BytesIO()
        self.figure.savefig(buffer, format=form, dpi=DPI, metadata={"Software": None})
        write_bytes(path, buffer.getvalue())


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


def blank(width: float, height: float) -> Figure:
    """Return an empty figure of a width and height in inches."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasSVG(figure)
    return figure


def axes_of(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure of a width and height in inches, and its only axes."""
    with styled():
        figure = blank(width, height)
        axes = figure.subplots()
    axes.set_facecolor("none")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.7, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def legend(figure: Figure, axes: Axes, columns: int = 3) -> None:
    """Put the legend above the axes, where it covers nothing."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(
            handles, labels, loc="outside upper left", ncols=min(len(handles), columns),
            frameon=False, fontsize=8, labelcolor=INK, handlelength=1.6, columnspacing=1.4,
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
