"""One denoising step as ONNX, and its run with adapters in ONNX Runtime."""
