"""Maps of two places: panels of the mean, of the standard deviation, and of residuals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from coupledgp.diagnostics.pages.maps import panels
from coupledgp.diagnostics.pages.palette import INK
from coupledgp.diagnostics.pages.picture import Picture
from coupledgp.diagnostics.pages.scale import Quantity, Scale, error_scale
from coupledgp.diagnostics.plotted import LawMap
from coupledgp.random import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Residuals beyond so many standard deviations have the last colour.
MOST_RESIDUAL = 3.0
# Dots up to which each has an edge, and ratio of sides up to which both axes have one unit.
FEW_DOTS, LONGEST = 300, 5.0


@dataclass(frozen=True, eq=False)
class PlaceMap(LawMap):
    """The law of f on a grid over the box of the rows.

    Attributes
    ----------
    names : tuple of str
        Names of the two axes.
    axes : tuple of FloatArray (g,), (h,)
        Their values.
    mean, std : FloatArray (h, g)
        Mean and standard deviation of f, units of y; a row for each value of the second axis.
    dots : FloatArray (m, 2)
        Places of some rows.
    values : FloatArray (m,)
        What was observed there.
    left_out : FloatArray (m,) or None
        Residuals of rows that are left out, in their standard deviations.
    """

    names: tuple[str, str]
    axes: tuple[FloatArray, FloatArray]
    mean: FloatArray
    std: FloatArray
    dots: FloatArray
    values: FloatArray
    left_out: FloatArray | None = None

    def where(self, k: int) -> str:
        """The values of both axes."""
        up, right = np.unravel_index(k, self.mean.shape)
        places = zip(self.names, (self.axes[0][right], self.axes[1][up]), strict=True)
        return f"at {', '.join(f'{name} {value:.4g}' for name, value in places)}"

    def picture(self) -> Picture:
        """Return the picture, with a panel of residuals where they are known."""
        quantities = self.quantities()
        spans = [
            f"{name} from {own[0]:.4g} to {own[-1]:.4g}"
            for name, own in zip(self.names, self.axes, strict=True)
        ]
        caption = f"To the right {spans[0]}, upwards {spans[1]}"
        caption += "; rows as dots, in the colour of their value" if len(self.dots) else ""
        drawn = panels(quantities, self._draw)
        return Picture("place-map", caption, drawn, wide=len(quantities) > 2)

    def quantities(self) -> list[Quantity]:
        """Mean, standard deviation and, where they are known, residuals, with their colours."""
        found = super().quantities()
        if self.left_out is None:
            return found
        own = error_scale(np.clip(self.left_out, -MOST_RESIDUAL, MOST_RESIDUAL))
        beyond = bool((np.abs(self.left_out) > MOST_RESIDUAL).any())
        note = f"beyond {MOST_RESIDUAL:g}: the last colour" if beyond else ""
        scale = Scale(own.low, own.high, own.palette, note)
        return [*found, Quantity("left out", "residual / std, left out", self.left_out, scale)]

    def _draw(self, axes: Axes, quantity: Quantity, mappable: Any) -> None:
        right, up = self.axes
        if quantity.values.ndim == 2:
            extent = (float(right[0]), float(right[-1]), float(up[0]), float(up[-1]))
            colours: FloatArray = mappable.to_rgba(quantity.values)
            axes.imshow(colours, origin="lower", extent=extent, aspect="auto")
        x, y = self.dots.T
        seen = {"mean": self.values, "left out": self.left_out}.get(quantity.name)
        if seen is None:
            axes.scatter(x, y, s=1.0, c=INK, linewidths=0, alpha=0.4, rasterized=True)
        else:
            width = 0.3 if len(seen) <= FEW_DOTS else 0.0
            axes.scatter(
                x, y, s=9.0, c=mappable.to_rgba(seen), linewidths=width, edgecolors=INK,
                rasterized=True,
            )  # fmt: skip
        ratio = float(np.ptp(right)) / max(float(np.ptp(up)), 1e-300)
        if 1 / LONGEST < ratio < LONGEST:
            axes.set_aspect("equal", adjustable="box")
