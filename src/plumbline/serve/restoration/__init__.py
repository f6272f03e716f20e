"""Restore a dense displacement field from a user's own points."""
