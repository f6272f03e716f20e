"""Explain each judgement by scatterer and by building, in tables and drawings: `plumbline
explain`."""
