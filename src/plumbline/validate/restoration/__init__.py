"""Measure restored fields on test scenes beside a Gaussian process, and hold the figures against the gates."""
