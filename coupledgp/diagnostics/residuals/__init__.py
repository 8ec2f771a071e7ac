"""What residuals still say: patterns along columns, and the causes that they point to."""
