"""Posteriors of other packages: their laws at test points, and the kernels that they state."""
