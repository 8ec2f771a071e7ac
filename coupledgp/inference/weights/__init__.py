"""Inference in the space of feature weights."""
