"""Pages of space-time models on graphs: words, maps over time, series and tables."""
