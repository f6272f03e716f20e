"""Open files safely, tell what they are, and read csv tables."""
