"""Read MintPy's time series with its geometry."""
