"""Cities with the user's own points and footprints, and damage that was put in."""
