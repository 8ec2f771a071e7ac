"""What every other folder stands on: checks, files written whole, memory, threads, progress."""
