"""Optimisation of the network."""
