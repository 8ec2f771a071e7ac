"""Sizes at which a comparison changes its method; the command line's help names them."""

# Training rows up to which "auto" fits the exact twin: its matrix takes 200 MB there.
DENSE_ROWS = 5000
