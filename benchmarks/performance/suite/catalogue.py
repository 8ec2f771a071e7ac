"""All comparisons, in the order of the page."""

from __future__ import annotations

from benchmarks.performance.suite.attention import ATTENTION
from benchmarks.performance.suite.comparison import Comparison
from benchmarks.performance.suite.graphs import FIELDS, GRAPHS, WALKS
from benchmarks.performance.suite.rows import EVIDENCE, KL, PASS, TABLES

COMPARISONS: tuple[Comparison, ...] = (
    PASS, EVIDENCE, TABLES, KL, WALKS, GRAPHS, FIELDS, ATTENTION,
)  # fmt: skip
