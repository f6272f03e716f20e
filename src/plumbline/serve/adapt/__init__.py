"""`plumbline adapt`: a model that learns from a user's own labels."""
