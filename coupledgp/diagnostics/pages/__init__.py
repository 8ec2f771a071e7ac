"""Pictures, and the page and terminal that show a report."""
