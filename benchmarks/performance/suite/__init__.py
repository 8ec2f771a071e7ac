"""The comparisons of `python -m benchmarks.performance`."""
