"""Couplings of walkers: their lengths and their steps."""
