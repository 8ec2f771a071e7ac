"""Searches for the hyperparameters of tables."""
