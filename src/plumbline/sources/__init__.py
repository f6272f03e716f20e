"""Readers: product files to the points table, footprint files to the buildings table."""
