"""Read product files into the points table, and footprint files into the buildings table."""
