"""Inspect files before a model uses them: the kind of each, how it is read, and what is doubtful."""
