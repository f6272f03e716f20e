"""Read products of the European Ground Motion Service."""
