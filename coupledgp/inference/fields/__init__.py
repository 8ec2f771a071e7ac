"""Inference for fields on surfaces and networks."""
