"""Effects of columns and of pairs on a fitted function, and their shares of its variance."""
