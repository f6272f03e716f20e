"""Check an installation: each check reports what it found and how to mend it."""
