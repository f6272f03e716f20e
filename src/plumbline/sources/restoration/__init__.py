"""Read the products of scenes."""
