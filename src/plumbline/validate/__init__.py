"""Measure models and the engineer's baseline, and apply the gates."""
