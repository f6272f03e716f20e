"""Apply models to a user's own points and footprints."""
