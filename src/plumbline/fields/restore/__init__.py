"""Restore a user's points to a field, window by window, and write it."""
