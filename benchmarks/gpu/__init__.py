"""What only a GPU can show, as one command and one dated page: `make gpu`, or `python -m benchmarks.gpu`."""
