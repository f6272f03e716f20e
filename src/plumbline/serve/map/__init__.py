"""Draw the map: one HTML file that works offline."""
