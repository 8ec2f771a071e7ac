"""Printing of results on a terminal."""
