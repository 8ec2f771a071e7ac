"""Fitted Gaussian processes: frozen objects behind one protocol."""
