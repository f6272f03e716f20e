"""Deliveries of points as they come in: which are new, what the champion says of them, and what has changed."""
