"""Inference on nodes times time: one series for each eigenvector of the sensors' kernel."""
