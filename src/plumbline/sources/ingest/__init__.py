"""Run the stage `ingest`: read city folders in parts, and read back what it wrote."""
