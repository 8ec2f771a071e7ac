"""Linear algebra that knows no Gaussian process."""
