"""Choosing a coupling and a size, and comparing several."""
