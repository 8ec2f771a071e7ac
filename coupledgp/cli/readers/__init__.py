"""Readers of tables, networks and values of nodes from files."""
