"""Write ONNX files and read model packages."""
