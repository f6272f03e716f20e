"""Simulate ground movement as dense fields, and the scatterers that see it."""
