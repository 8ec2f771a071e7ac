"""Parts of a study of couplings: draws and their means, paired tests, tables."""
