"""From points and footprints to one pair of sequences a building."""
