"""Searches for hyperparameters: one engine over objectives, and the fits of each domain by it."""
