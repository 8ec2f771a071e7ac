"""Searches for the hyperparameters of sensors over time."""
