"""Buildings, the ways in which they move and fail, and the labels that follow."""
