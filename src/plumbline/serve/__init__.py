"""Predictions for a user's own points and footprints."""
