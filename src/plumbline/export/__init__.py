"""ONNX files and the model package."""
