"""Calibration of predictive distributions, with what a right one gives by chance."""
