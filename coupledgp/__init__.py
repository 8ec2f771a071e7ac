"""Scalable Gaussian processes with coupled random features, and diagnostics of their posteriors."""
