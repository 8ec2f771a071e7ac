"""Sections of reports, the registry that orders them, and the five renderings of a report."""
