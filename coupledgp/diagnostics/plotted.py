"""What a person can plot: the pictures of pages, in axes of matplotlib or scenes of PyVista."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from coupledgp.diagnostics.pages.scale import Quantity, mean_scale, spread_scale
from coupledgp.ground.extras import named_extras
from coupledgp.ground.validation import check_choice
from coupledgp.random import FloatArray

if TYPE_CHECKING:
    from coupledgp.diagnostics.pages.picture import Picture


# Libraries that draw.
BACKENDS = ("matplotlib", "pyvista")


class Plotted(ABC):
    """A result that has a picture, or several to choose from."""

    @abstractmethod
    def picture(self, *chosen: Any, **named: Any) -> Picture:
        """The picture, as pages have it."""

    def plot(self, *chosen: Any, ax: Any = None, backend: str = "matplotlib", **named: Any) -> Any:
        """Draw the picture that `picture` returns for the same arguments.

        Parameters
        ----------
        chosen, named
            Arguments of `picture`.
        ax
            Axes of matplotlib, which several panels divide; None: a new figure of pyplot, which
            notebooks show.
        backend
            `"matplotlib"`; or `"pyvista"`, of maps on meshes, on roads and of nodes, for a scene
            that can be turned.

        Returns
        -------
        matplotlib.axes.Axes, an array of them, or pyvista.Plotter
            The axes of its panels; or the scene, which `show()` opens.

        Raises
        ------
        InvalidInputError
            `ax` is no axes, or belongs to no grid that several panels could divide; there is no
            such backend, or the picture is no map that it can turn.
        MissingLibraryError
            The backend is not installed.
        """
        check_choice(backend, BACKENDS, "backend")
        draw = partial(self.picture, *chosen, **named)
        with named_extras():
            if backend == "pyvista":
                from coupledgp.diagnostics.pages.turned import turned

                return turned(draw().scene)
            from coupledgp.diagnostics.pages.picture import plotted

            return plotted(draw, ax)


class LawMap(Plotted):
    """A map of a law: its mean and standard deviation (m,) or (h, g) at places.

    Attributes
    ----------
    mean, std : FloatArray
        Mean and standard deviation at each place, units of y; NaN where there is no value.
    unit : str
        Unit of y on colour bars; may be empty.
    """

    mean: FloatArray
    std: FloatArray
    unit: str = ""

    def quantities(self) -> list[Quantity]:
        """Mean and standard deviation, with their colours."""
        unit, spreads = f", {self.unit}" if self.unit else "", self.std.ravel()
        return [
            Quantity("mean", f"mean{unit}", self.mean, mean_scale(self.mean.ravel(), spreads)),
            Quantity("std", f"standard deviation{unit}", self.std, spread_scale(spreads)),
        ]

    @abstractmethod
    def where(self, k: int) -> str:
        """Place k, counted along rows, in words that follow a verb."""

    def told(self) -> str:
        """Where the mean is highest, and where a further observation tells most."""
        top, open_ = int(np.nanargmax(self.mean)), int(np.nanargmax(self.std))
        mean, std, most = (float(one) for one in (
            self.mean.flat[top], self.std.flat[top], self.std.flat[open_]))  # fmt: skip
        return (
            f"It is highest, {mean:.4g} ± {std:.2g}, {self.where(top)}, and least certain, "
            f"± {most:.2g}, {self.where(open_)}: measure there next."
        )
