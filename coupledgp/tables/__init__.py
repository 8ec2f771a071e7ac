"""Gaussian processes of rows of a table: estimators, intake, priors and searches."""
