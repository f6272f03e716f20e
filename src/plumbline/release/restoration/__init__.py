"""Package and compare models of fields."""
