"""The map: one HTML file that works offline."""
