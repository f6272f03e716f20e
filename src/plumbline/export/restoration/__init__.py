"""Export one denoising step as ONNX, and run it with adapters in ONNX Runtime."""
