"""Seeded cases whose figures must stay the same when the package is rebuilt."""

from frozen import feature_cases, graph_cases, kept_cases, study_cases, table_cases, torch_cases
from frozen.cases import CASES, Figures

__all__ = [
    "CASES",
    "Figures",
    "feature_cases",
    "graph_cases",
    "kept_cases",
    "study_cases",
    "table_cases",
    "torch_cases",
]
