"""Parts of Gaussian processes of every kind: how they are written to files."""
