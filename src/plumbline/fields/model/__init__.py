"""Define the denoiser, its sampling, its adapters and its scores."""
