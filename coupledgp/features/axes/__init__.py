"""Features of kernels that are sums over columns and pairs of columns."""
