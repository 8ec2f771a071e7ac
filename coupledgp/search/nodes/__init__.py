"""Searches for the kernel of a graph and its scales."""
