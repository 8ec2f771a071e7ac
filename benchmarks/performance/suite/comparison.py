"""What is compared: methods on tasks of growing size."""

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
        `"ours"`, or `"peer"`, what a user would take instead.
    prepare : callable
        Function of the task that returns the call to be timed. What it does itself is not timed.
    largest : float
        Size above which the method is left out, since it would take too long or too much memory.
    """

    name: str
    role: Literal["ours", "peer"]
    prepare: Callable[[Any], Call]
    largest: float = float("inf")


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
    """

    name: str
    title: str
    unit: str
    sizes: tuple[int, ...]
    quick: tuple[int, ...]
    make: Callable[[int], Any]
    methods: tuple[Method, ...]

    def methods_at(self, size: int) -> tuple[Method, ...]:
        """Methods that take part at a size."""
        return tuple(method for method in self.methods if size <= method.largest)
