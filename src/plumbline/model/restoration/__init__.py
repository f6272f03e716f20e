"""Define the denoiser of fields, its diffusion, and its adapters."""
