"""Judge a building by where it stands: its surroundings, causes of damage, and what moves there."""
