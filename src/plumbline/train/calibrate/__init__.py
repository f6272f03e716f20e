"""Calibrate probabilities and intervals on a split that training has not seen."""
