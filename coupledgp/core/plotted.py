"""Results that have a picture: drawn in axes of matplotlib, or as scenes of PyVista."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any

from coupledgp.ground.extras import named_extras
from coupledgp.ground.validation import check_choice

if TYPE_CHECKING:
    from coupledgp.diagnostics.render.figures import Picture

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
                from coupledgp.diagnostics.render.scenes import turned

                return turned(draw().scene)
            from coupledgp.diagnostics.render.figures import plotted

            return plotted(draw, ax)
