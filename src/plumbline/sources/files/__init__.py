"""Open files safely, recognise their type, and read csv tables."""
