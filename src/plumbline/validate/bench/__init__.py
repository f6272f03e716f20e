"""Measure size, speed, parity and accuracy of a package on this machine: `plumbline bench`."""
