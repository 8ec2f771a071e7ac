"""Posteriors under likelihoods that are not normal, by sites: one normal factor an observation."""
