"""Read the formats of points, one module each or a row of a table."""
