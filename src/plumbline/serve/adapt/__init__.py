"""Adapt a model to a user's own labels: `plumbline adapt`."""
