"""Inference in the space of feature weights, and its dense exact counterpart."""
