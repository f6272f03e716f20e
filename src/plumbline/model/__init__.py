"""The two-stream network."""
