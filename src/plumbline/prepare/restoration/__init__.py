"""Turn scatterers into the inputs of restoration: changes, a grid, a Gaussian process and conditions."""
