"""Adapt a trained model to one city or sensor by a few labelled buildings."""
