"""Pages, pictures and tables of reports."""
