"""What a person can plot: the pictures of pages, in axes of matplotlib."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from coupledgp.random import FloatArray

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


class LawMap(Plotted):
    """A map of a law: its mean and standard deviation (m,) or (h, g) at places.

    Attributes
    ----------
    mean, std : FloatArray
        Mean and standard deviation at each place, units of y; NaN where there is no value.
    """

    mean: FloatArray
    std: FloatArray

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
