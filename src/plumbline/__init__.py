"""Plumbline: which buildings are being damaged, where and how badly, from InSAR points."""
