"""Simulate satellites, their scatterers and histories, and write them as products."""
