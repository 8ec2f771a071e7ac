"""Distances between joint predictive distributions: dense, within bounds, and by probes."""
