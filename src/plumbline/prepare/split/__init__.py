"""Choose the buildings for training and for test."""
