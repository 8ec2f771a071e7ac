"""What a person can plot: the pictures of pages, in axes of matplotlib."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coupledgp.diagnostics.pages.picture import Picture


class Plotted(ABC):
    """A result that has a picture."""

    @abstractmethod
    def picture(self) -> Picture:
        """The picture, as pages have it."""

    def plot(self, ax: Any = None) -> Any:
        """Draw the picture.

        Parameters
        ----------
        ax
            Axes of matplotlib; None: those of a new figure of pyplot, which notebooks show.

        Returns
        -------
        matplotlib.axes.Axes, or an array of them
            The axes of its panels.

        Raises
        ------
        InvalidInputError
            `ax` is no axes, or belongs to no grid that several panels could divide.
        """
        from coupledgp.diagnostics.pages.picture import plotted

        return plotted(self.picture, ax)
