"""Satellites, their scatterers and histories, and how a product writes them."""
