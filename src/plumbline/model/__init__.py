"""Define the two-stream network."""
