"""Turn points and footprints into one pair of sequences for each building."""
