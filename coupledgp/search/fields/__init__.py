"""Searches for the kernels of fields on surfaces and networks."""
