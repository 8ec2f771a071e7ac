"""Feature kernels for gpytorch models."""
