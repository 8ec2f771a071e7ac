"""Log evidence of a table with noise, as a function of the hyperparameters."""
