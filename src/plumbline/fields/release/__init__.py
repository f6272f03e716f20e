"""Write the denoiser as ONNX, apply the gates, and make and open packages of fields."""
