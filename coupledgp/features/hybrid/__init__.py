"""Hybrid features of the softmax kernel."""
