"""Labelled cities by the physics of settlement, written in the file formats of real products."""
