"""Couplings of frequencies: directions, norms, and what draws both at once."""
