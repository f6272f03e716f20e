"""From scatterers to what a field is restored from: changes, a grid, a Gaussian process, conditions."""
