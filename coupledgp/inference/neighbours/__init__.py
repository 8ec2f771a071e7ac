"""Local kriging: nearest neighbours, conditional laws given them, and the Vecchia likelihood."""
