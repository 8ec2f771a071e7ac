"""Inference with dense kernel matrices of tables."""
