"""Separate a building's motion as a whole from the motion within it."""
