"""Simulate labelled cities by the physics of settlement, and write them in the file formats
of real products."""
