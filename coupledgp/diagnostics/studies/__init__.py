"""Studies of couplings: draws and their means, paired tests, tables, curves and maps."""
