"""Train the denoiser and its adapters, and calibrate their spread."""
