"""Define the network's inputs: columns, how they are made from scatterers, and how they are
stored."""
