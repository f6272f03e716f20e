"""Judge models on cities that the training's simulator has not made, beside least squares."""
