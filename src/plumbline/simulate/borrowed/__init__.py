"""Make cities from the user's own points and footprints with simulated damage."""
