"""A BoTorch model whose inference is in the space of feature weights."""
