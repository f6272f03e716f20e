"""Makers of held-out cities, each independent of the others and of the training's simulator."""
