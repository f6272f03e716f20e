"""Simulate scenes of moving ground with their truth, and read them in again."""
