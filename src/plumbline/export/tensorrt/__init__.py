"""Build TensorRT engines of a released model on the machine that runs them, and refuse them
on any other."""
