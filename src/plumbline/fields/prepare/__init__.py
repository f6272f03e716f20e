"""Turn points into maps of what was observed, and of what a Gaussian process makes of it."""
