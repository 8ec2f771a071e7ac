"""Spectra fitted to an objective."""
