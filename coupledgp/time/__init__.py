"""Values of sensors over time: a usual day, a vector autoregression about it, moving variances."""
