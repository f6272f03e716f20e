"""Simulate buildings, the ways in which they move and fail, and their labels."""
