"""Laws at points, their scores and divergences: figures that know no verdict and no page."""
