"""Hold the scale against buildings of published damage: by their levels, and as radar would see them."""
