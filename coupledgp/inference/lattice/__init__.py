"""Gaussian processes of one to three columns by features on a lattice of frequencies.

The products of such features depend on the difference of two frequencies alone, so that the rows
enter by sums whose number depends neither on the number of rows nor on a hyperparameter.
"""
