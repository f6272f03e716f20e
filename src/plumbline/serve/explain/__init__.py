"""`plumbline explain`: what moved each judgement, by scatterer and by building, and drawn."""
