"""From displacement series to movements with standard errors: trend, courses in time, noise."""
