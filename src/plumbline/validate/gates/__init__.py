"""Rules that a candidate must meet, and the bootstrap that they judge by."""
