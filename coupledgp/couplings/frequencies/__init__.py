"""Couplings of frequencies: laws of directions, laws of norms, and rules that set both at once."""
