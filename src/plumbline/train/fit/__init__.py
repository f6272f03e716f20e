"""Optimise the network: trainer, loss, learning rate, first weights and checkpoints."""
