"""What the network is told: columns, how they are made from scatterers, and how they are stored."""
