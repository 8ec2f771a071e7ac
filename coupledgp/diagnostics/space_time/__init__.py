"""Models of space and time: splits, rivals, scores, and the sections and maps of their reports."""
