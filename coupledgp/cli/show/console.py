"""The console on which commands print their figures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment

from coupledgp.ground.visible import visible


class PlainConsole(Console):
    """A console that shows control characters of texts instead of obeying them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, **options)

    def render(self, *arguments: Any, **options: Any) -> Iterable[Segment]:
        """Return the segments of what is printed, without control characters in their texts."""
        for segment in super().render(*arguments, **options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))
