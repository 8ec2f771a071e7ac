"""Renderings of reports: pages, pictures, text and files, made of their tables alone."""
