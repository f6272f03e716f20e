"""Load the service and see what it bears."""

BODY, HEADER, WHERE = "LOAD_BODY", "LOAD_HEADER", "LOAD_WHERE"
"""Environment variables by which a user of `users.py` has the file it sends, the bytes of JSON in it, and the path."""
