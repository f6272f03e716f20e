"""Restore dense displacement fields from sparse points: the second family, from its
simulation to its fields."""
