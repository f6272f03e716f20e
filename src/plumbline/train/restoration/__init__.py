"""Train the denoiser and its adapters, and calibrate its spread."""
