"""Judge a building by its place: its surroundings, causes of damage, and moving areas."""
