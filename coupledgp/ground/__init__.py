"""Ground of every other folder: checks, files written whole, memory, threads, progress."""
