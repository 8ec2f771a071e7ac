"""What is compared: methods on tasks of growing size, and what their ratios should be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Figures = dict[str, float]
# A call that is timed; it returns figures of quality, such as an RMSE, or nothing.
Call = Callable[[], Figures | None]


@dataclass(frozen=True)
class Method:
    """A way to do a task.

    Attributes
    ----------
    name : str
        Name in tables.
    role : str
        `"ours"`; `"peer"`, what a user would take instead; or `"limit"`, work that any method of
        the kind has to do at least, on this machine.
    prepare : callable
        Function of the task that returns the call to be timed. What it does itself is not timed.
    largest : float
        Size above which the method is left out, since it would take too long or too much memory.
    """

    name: str
    role: Literal["ours", "peer", "limit"]
    prepare: Callable[[Any], Call]
    largest: float = float("inf")


@dataclass(frozen=True)
class Target:
    """A bound of the median ratio of the times of the first method to those of another.

    Attributes
    ----------
    against : str
        Name of the other method.
    at_most : float
        Largest ratio of seconds, at the largest size that both have.
    """

    against: str
    at_most: float


@dataclass(frozen=True)
class Comparison:
    """Methods on tasks of growing size; the first method is ours.

    Attributes
    ----------
    name, title : str
        Name on the command line, and a sentence.
    unit : str
        What a size counts, such as rows.
    sizes, quick : tuple of int
        Sizes of a full and of a quick run, ascending.
    make : callable
        Function of a size that returns the task, the same whenever it is called.
    methods : tuple of Method
        All methods.
    targets : tuple of Target
        What should hold.
    """

    name: str
    title: str
    unit: str
    sizes: tuple[int, ...]
    quick: tuple[int, ...]
    make: Callable[[int], Any]
    methods: tuple[Method, ...]
    targets: tuple[Target, ...] = ()

    def methods_at(self, size: int) -> tuple[Method, ...]:
        """Methods that take part at a size."""
        return tuple(method for method in self.methods if size <= method.largest)
