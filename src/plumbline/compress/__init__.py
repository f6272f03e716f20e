"""Making the network smaller: pruning and quantisation."""
