"""Reports of processes whose observations follow a likelihood: classes, counts and others."""
