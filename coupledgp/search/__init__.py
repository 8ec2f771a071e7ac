"""The evidence as a function of hyperparameters, and its maximisation."""
