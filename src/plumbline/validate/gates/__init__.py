"""Apply the rules that a candidate must meet, with bounds from the bootstrap."""
