"""Walk features: sampling, storage, exact hops, and products."""
