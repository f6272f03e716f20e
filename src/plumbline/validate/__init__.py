"""Metrics, the engineer's baseline and the gates."""
