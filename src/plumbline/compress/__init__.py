"""Make the network smaller: pruning and quantisation."""
