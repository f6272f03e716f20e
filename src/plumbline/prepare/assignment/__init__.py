"""Which scatterers are each building's: by their position, and between two buildings by their movement."""
