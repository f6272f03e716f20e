"""Turn displacement series into movements with standard errors: trend, courses in time, noise."""
