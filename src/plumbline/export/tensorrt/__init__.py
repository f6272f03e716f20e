"""TensorRT engines of a released model: built on the machine that runs them, and refused on any other."""
