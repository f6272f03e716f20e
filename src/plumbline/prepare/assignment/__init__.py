"""Assign scatterers to buildings by position, and between two buildings by co-movement."""
