"""Couplings of walkers: joint laws of lengths and joint laws of steps."""
