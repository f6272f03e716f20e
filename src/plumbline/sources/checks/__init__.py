"""Check that values are plausible, and that products and footprints agree."""
